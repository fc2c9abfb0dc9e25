//! Asks the kernel by netlink, and hands out the messages that answer.
//!
//! Of ours rather than a library: the libraries parse each message into structs with vectors of
//! attributes, and come with an asynchronous runtime; all we want of a message is that it is one.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto,
    socket_with,
};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST | NLM_F_DUMP.
const REQUEST_DUMP: u16 = 0x301;
const REQUEST: u16 = 1;
const HEADER: usize = 16;
/// The kernel answers with at most 32 KiB at a time.
const BUFFER: usize = 64 << 10;
/// The kernel answers at once; should it not, the recorder must not hang.
const PATIENCE: Duration = Duration::from_secs(2);

/// NETLINK_ROUTE.
pub const ROUTE: Option<Protocol> = None;
/// NETLINK_NETFILTER.
pub const NETFILTER: Option<Protocol> = Some(netlink::NETFILTER);
/// NETLINK_SOCK_DIAG.
pub const SOCK_DIAG: Option<Protocol> = Some(netlink::SOCK_DIAG);
/// NETLINK_GENERIC.
pub const GENERIC: Option<Protocol> = Some(netlink::GENERIC);

/// Asks for a dump in the calling thread's namespace and calls `each` with every message's type
/// and payload.
pub fn dump(
    protocol: Option<Protocol>,
    kind: u16,
    payload: &[u8],
    mut each: impl FnMut(u16, &[u8]),
) -> io::Result<()> {
    dump_until(protocol, kind, payload, |kind, payload| {
        each(kind, payload);
        ControlFlow::Continue(())
    })
}

/// The same until `each` breaks it off: what would follow is never made.
pub fn dump_until(
    protocol: Option<Protocol>,
    kind: u16,
    payload: &[u8],
    mut each: impl FnMut(u16, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let socket = ask(protocol, kind, REQUEST_DUMP, payload)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let (n, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        for (kind, payload) in messages(&buffer[..n]) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => return Err(error(payload)),
                _ if each(kind, payload).is_break() => return Ok(()),
                _ => {}
            }
        }
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// How many messages of type `wanted` a dump has.
pub fn count(
    protocol: Option<Protocol>,
    kind: u16,
    payload: &[u8],
    wanted: u16,
) -> io::Result<u64> {
    let mut n = 0;
    dump(protocol, kind, payload, |kind, _| {
        n += u64::from(kind == wanted)
    })?;
    Ok(n)
}

/// The number of a generic netlink family.
pub fn generic_family(name: &str) -> io::Result<u16> {
    const CONTROLLER: u16 = 0x10;
    const ATTR_FAMILY_ID: u16 = 1;
    const ATTR_FAMILY_NAME: u16 = 2;
    // genlmsghdr: CTRL_CMD_GETFAMILY, version 1; then one attribute: the name with its zero.
    let mut payload = vec![3, 1, 0, 0];
    payload.extend((name.len() as u16 + 5).to_ne_bytes());
    payload.extend(ATTR_FAMILY_NAME.to_ne_bytes());
    payload.extend(name.as_bytes());
    payload.resize((payload.len() + 4) & !3, 0);
    let socket = ask(GENERIC, CONTROLLER, REQUEST, &payload)?;
    let mut buffer = vec![0; BUFFER];
    let (n, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    let not_there = || io::Error::from(io::ErrorKind::NotFound);
    let (kind, answer) = messages(&buffer[..n]).next().ok_or_else(not_there)?;
    if kind == NLMSG_ERROR {
        return Err(error(answer));
    }
    let mut attributes = attributes(answer.get(4..).unwrap_or_default());
    let id = attributes.find(|(kind, _)| *kind == ATTR_FAMILY_ID);
    let id = id.and_then(|(_, value)| Some(u16::from_ne_bytes(*value.first_chunk()?)));
    id.ok_or_else(not_there)
}

fn ask(protocol: Option<Protocol>, kind: u16, flags: u16, payload: &[u8]) -> io::Result<OwnedFd> {
    let (family, raw) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = socket_with(family, raw, SocketFlags::CLOEXEC, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut message = Vec::with_capacity(HEADER + payload.len());
    message.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]); // sequence and port: one question per socket
    message.extend(payload);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &message, SendFlags::empty(), &kernel)?;
    Ok(socket)
}

fn error(payload: &[u8]) -> io::Error {
    let code = payload.first_chunk().map_or(0, |c| i32::from_ne_bytes(*c));
    io::Error::from_raw_os_error(code.wrapping_neg())
}

/// Kind and value of each attribute of a message; damage ends them.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[l0, l1, k0, k1] = rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..length)?;
        rest = rest.get((length + 3) & !3..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]), value))
    })
}

/// Type and payload of each message of a datagram.
fn messages(datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let message = rest.get(..len).filter(|m| m.len() >= HEADER)?;
        rest = rest.get((len + 3) & !3..).unwrap_or_default();
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        Some((kind, &message[HEADER..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut m = ((HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
        m.extend(kind.to_ne_bytes());
        m.extend([0; 10]);
        m.extend(payload);
        m.resize((m.len() + 3) & !3, 0);
        m
    }

    #[test]
    fn datagrams_are_split_and_damage_ends_them() {
        let mut d = message(30, b"abcde");
        d.extend(message(3, &[]));
        let found: Vec<_> = messages(&d).collect();
        assert_eq!(found, [(30, &b"abcde"[..]), (3, &[][..])]);
        d.truncate(20);
        assert_eq!(messages(&d).count(), 0);
        assert_eq!(messages(&[0; 64]).count(), 0, "a length of zero");
        assert_eq!(messages(&[255; 64]).count(), 0);
    }

    #[test]
    fn the_kernel_answers() {
        let rules = count(ROUTE, 34, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 32).unwrap();
        assert!(rules >= 1, "at least one ip rule");
        assert!(generic_family("nlctrl").is_ok());
        assert!(generic_family("no-such-family").is_err());
        assert!(dump(ROUTE, 999, &[0; 4], |_, _| {}).is_err());
    }
}
