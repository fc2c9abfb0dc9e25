//! A full table of tracked connections: entries like those of established connections, made by netlink.
//!
//! The limit is the host's and stays as it is; the table of a namespace is filled up to it.

use std::io;
use std::net::Ipv4Addr;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::Error;
use crate::netns::Netns;

const LIMIT: &str = "net.netfilter.nf_conntrack_max";
const COUNT: &str = "net.netfilter.nf_conntrack_count";
/// Entries that are made within seconds, of some 300 bytes each.
const MOST: u64 = 1_000_000;
/// Bytes of one message to the kernel.
const BATCH: usize = 32 * 1024;

/// Fills the table of a namespace to a share of its limit.
pub(super) fn fill(netns: &Netns, share: f64) -> Result<(), Error> {
    let number = |name| -> Result<u64, Error> {
        let text = netns.sysctl(name)?;
        text.parse()
            .map_err(|_| refused(format!("{name} is {text}")))
    };
    let limit = number(LIMIT)?;
    if limit > MOST {
        return Err(refused(format!(
            "{LIMIT} is {limit}; the lab fills no table of more than {MOST} entries"
        )));
    }
    let wanted = (limit as f64 * share) as u32;
    netns.inside(|| make(wanted))?;
    let made = number(COUNT)?;
    if made >= u64::from(wanted) * 99 / 100 {
        Ok(())
    } else {
        Err(refused(format!(
            "only {made} of {wanted} entries were made"
        )))
    }
}

fn refused(why: String) -> Error {
    Error::Command {
        command: "filling the table of tracked connections".to_string(),
        why,
    }
}

/// Makes entries in the calling thread's namespace.
fn make(count: u32) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let family = AddressFamily::NETLINK;
    let socket = socket_with(family, SocketType::RAW, flags, Some(netlink::NETFILTER))?;
    let mut answer = [0; 4096];
    let mut batch = Vec::with_capacity(BATCH + 256);
    for n in 0..count {
        batch.extend(entry(n));
        if batch.len() >= BATCH || n + 1 == count {
            send(&socket, &batch, SendFlags::empty())?;
            batch.clear();
            // Only what fails is answered; the count tells in the end.
            while recv(&socket, &mut answer, RecvFlags::DONTWAIT).is_ok() {}
        }
    }
    Ok(())
}

/// The message that makes the `n`-th entry: an established TCP connection between two addresses
/// of the block for documentation (RFC 5737) that nobody here has.
fn entry(n: u32) -> Vec<u8> {
    const NEW_ENTRY: u16 = 1 << 8; // NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_NEW
    const REQUEST_CREATE: u16 = 0x1 | 0x400;
    const INET: u8 = 2;
    const STATUS: u32 = 0b1110; // seen both ways, assured, confirmed
    const TIMEOUT_S: u32 = 600;
    const ESTABLISHED: u8 = 3;
    let client = (
        Ipv4Addr::new(203, 0, 113, (n >> 15) as u8 + 1),
        1 + (n & 0x7fff) as u16,
    );
    let server = (Ipv4Addr::new(192, 0, 2, 1), 443);
    let state = nested(4, nested(1, attribute(1, &[ESTABLISHED])));
    let body = [
        vec![INET, 0, 0, 0],
        nested(1, tuple(client, server)),
        nested(2, tuple(server, client)),
        attribute(3, &STATUS.to_be_bytes()),
        state,
        attribute(7, &TIMEOUT_S.to_be_bytes()),
    ]
    .concat();
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(NEW_ENTRY.to_ne_bytes());
    message.extend(REQUEST_CREATE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// One direction: addresses, and protocol with ports.
fn tuple(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> Vec<u8> {
    const TCP: u8 = 6;
    let addresses = [attribute(1, &from.0.octets()), attribute(2, &to.0.octets())].concat();
    let protocol = [
        attribute(1, &[TCP]),
        attribute(2, &from.1.to_be_bytes()),
        attribute(3, &to.1.to_be_bytes()),
    ];
    [nested(1, addresses), nested(2, protocol.concat())].concat()
}

/// A netlink attribute, padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + value.len());
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(kind: u16, value: Vec<u8>) -> Vec<u8> {
    const NESTED: u16 = 1 << 15;
    attribute(kind | NESTED, &value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_tell_their_own_length() {
        assert_eq!(attribute(1, &[6]), [5, 0, 1, 0, 6, 0, 0, 0]);
        assert_eq!(nested(2, vec![1, 2, 3, 4]), [8, 0, 2, 0x80, 1, 2, 3, 4]);
    }

    #[test]
    fn every_entry_is_of_another_client() {
        let all: std::collections::HashSet<_> = [0, 1, 0x7fff, 0x8000, 0x8001].map(entry).into();
        assert_eq!(all.len(), 5);
        let one = entry(7);
        assert_eq!(
            u32::from_ne_bytes(one[..4].try_into().unwrap()),
            one.len() as u32
        );
        assert_eq!(one.len() % 4, 0);
    }
}
