//! The addresses of a scenario's links, and whether packets already get from one to the other.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// How long an answer to a probe is waited for before the next is sent.
const PATIENCE: Duration = Duration::from_millis(200);

/// Addresses are of the blocks for measurements (RFC 2544) and for local use (RFC 4193): nobody
/// takes them for a host of theirs when they appear in a report.
///
/// The `nth` address of an end: the first end has the odd ones, the second the even ones.
pub(super) fn ipv4(link: usize, first: bool, nth: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, link as u8 + 1, host(first, nth))
}

pub(super) fn ipv6(link: usize, first: bool, nth: u8) -> Ipv6Addr {
    let host = host(first, nth).into();
    Ipv6Addr::new(0xfd18, link as u16 + 1, 0, 0, 0, 0, 0, host)
}

fn host(first: bool, nth: u8) -> u8 {
    2 * nth + if first { 1 } else { 2 }
}

/// The addresses of one end of a link, with prefix length: the first `count` of each family.
pub(super) fn with_prefix(link: usize, first: bool, count: u8) -> Vec<String> {
    let nth = 0..count;
    let ipv4 = nth.clone().map(|i| format!("{}/24", ipv4(link, first, i)));
    let ipv6 = nth.map(|i| format!("{}/64", ipv6(link, first, i)));
    ipv4.chain(ipv6.filter(|_| has_ipv6())).collect()
}

/// The addresses of the second end of a link.
pub(super) fn peers(link: usize) -> Vec<IpAddr> {
    let mut peers = vec![ipv4(link, false, 0).into()];
    if has_ipv6() {
        peers.push(ipv6(link, false, 0).into());
    }
    peers
}

/// A kernel without IPv6 does without.
fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// A socket to probe an address with; made inside the namespace it is to probe from.
pub(super) fn probe_socket(address: IpAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Whether a datagram to a port that nobody has is refused: then it came there, and the refusal
/// came back.
pub(super) fn is_refused(socket: &UdpSocket, address: IpAddr) -> bool {
    const DISCARD: u16 = 9;
    // Without a route yet, connecting fails, and so does sending: the next try may do.
    let sent = socket
        .connect((address, DISCARD))
        .and_then(|()| socket.send(b"?"));
    let answer = sent.and_then(|_| socket.recv(&mut [0; 1]));
    answer.is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}
