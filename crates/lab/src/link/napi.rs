//! Threaded NAPI: the packets that come to a device are handled by a kernel thread, on one CPU.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::GENERIC;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

use super::End;
use crate::Error;
use crate::command::run;

/// Has a kernel thread on `cpu` handle what comes from `peer` to `end`, a veth pair.
pub(super) fn thread_on(end: &End, peer: &End, cpu: u32) -> Result<(), Error> {
    let name = format!("napi/{}-", end.device);
    let before = threads(&name);
    // Only with GRO has a veth a queue that NAPI serves, and only what its peer did not leave
    // unsegmented goes through it.
    end.netns
        .inside(|| set_features(end.device, &["rx-gro"], true))?;
    peer.netns
        .inside(|| set_features(peer.device, SEGMENTATION, false))?;
    // The devices in /sys are those of the namespace in which it was mounted.
    let switch = format!("echo 1 > /sys/class/net/{}/threaded", end.device);
    run(["ip", "netns", "exec", end.netns.name(), "sh", "-c", &switch])?;
    for pid in threads(&name).difference(&before) {
        run(["taskset", "-cp", &cpu.to_string(), &pid.to_string()])?;
    }
    Ok(())
}

/// What `ethtool -K DEVICE tso off` turns off.
const SEGMENTATION: &[&str] = &[
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
];

/// Threads of the kernel whose name begins so.
fn threads(name: &str) -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|p| p.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.starts_with(name))
    })
    .collect()
}

// Generic netlink, family `ethtool` (include/uapi/linux/{genetlink,ethtool_netlink}.h).
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const FEATURES_SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const FEATURES_WANTED: u16 = 3;
const HEADER_DEV_NAME: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;
const NESTED: u16 = 0x8000;
/// Bytes of struct nlmsghdr and struct genlmsghdr.
const GENLMSG: usize = 20;

/// As `ethtool -K DEVICE FEATURE on|off`.
fn set_features(device: &str, features: &[&str], on: bool) -> io::Result<()> {
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, Some(GENERIC))?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    let answer = ask(&netlink, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name)?;
    let family = find(&answer, CTRL_ATTR_FAMILY_ID);
    let family = family.and_then(|id| Some(u16::from_ne_bytes(id.get(..2)?.try_into().ok()?)));
    let family = family.ok_or_else(|| io::Error::other("the kernel has no netlink for ethtool"))?;
    let device = attribute(HEADER_DEV_NAME, format!("{device}\0").as_bytes());
    let bits = features.iter().map(|feature| {
        let mut bit = attribute(BIT_NAME, format!("{feature}\0").as_bytes());
        if on {
            bit.extend(attribute(BIT_VALUE, b""));
        }
        attribute(BITS_BIT | NESTED, &bit)
    });
    let bits = attribute(BITSET_BITS | NESTED, &bits.collect::<Vec<_>>().concat());
    let request = [
        attribute(FEATURES_HEADER | NESTED, &device),
        attribute(FEATURES_WANTED | NESTED, &bits),
    ];
    ask(&netlink, family, FEATURES_SET, &request.concat()).map(drop)
}

/// One attribute, padded.
fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The payload of an attribute of that kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let word = |at: usize| {
            Some(u16::from_ne_bytes(
                attributes.get(at..at + 2)?.try_into().ok()?,
            ))
        };
        let length = usize::from(word(0)?);
        if word(2)? & !NESTED == kind {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

/// Sends a request and gives the attributes of the answer, if there is one, once the kernel has
/// said that it is done.
fn ask(netlink: &OwnedFd, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    const REQUEST_ACK: u16 = 1 | 4;
    const ERROR: u16 = 2;
    let mut message = ((GENLMSG + attributes.len()) as u32).to_ne_bytes().to_vec();
    message.extend(family.to_ne_bytes());
    message.extend(REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]); // sequence and port: there is one request at a time
    message.extend([command, 1, 0, 0]);
    message.extend(attributes);
    send(netlink, &message, SendFlags::empty())?;
    let mut answer = Vec::new();
    loop {
        let mut buffer = vec![0; 16 << 10];
        let (n, _) = recv(netlink, &mut buffer[..], RecvFlags::empty())?;
        let received = buffer.get(..n).filter(|r| r.len() >= GENLMSG);
        let received = received.ok_or_else(|| io::Error::other("a short netlink message"))?;
        let kind = u16::from_ne_bytes([received[4], received[5]]);
        if kind != ERROR {
            answer = received[GENLMSG..].to_vec();
            continue;
        }
        let code = [received[16], received[17], received[18], received[19]];
        return match i32::from_ne_bytes(code) {
            0 => Ok(answer),
            code => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_again() {
        let all = [attribute(7, b"abc"), attribute(9 | NESTED, b"12345")].concat();
        assert_eq!(all.len(), 8 + 12);
        assert_eq!(find(&all, 7), Some(&b"abc"[..]));
        assert_eq!(find(&all, 9), Some(&b"12345"[..]));
        assert_eq!(find(&all, 8), None);
        assert_eq!(find(&[0, 0, 0], 0), None);
    }
}
