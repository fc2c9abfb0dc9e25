//! Packets as a stranger may send them: tags, extension headers, lengths that lie, noise.

use std::fs::{self, File};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use observe::{Filter, Options, Part, Session};
use recording::Recording;
use recording::tables::{Health, Packet};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const SYN: u8 = 2;
const FULL: &[u8] = &[
    2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 7,
];
/// In units of four bytes.
const TCP: u8 = 5;
const TCP_FULL: u8 = 10;

const IP4: u16 = 0x0800;
const IP6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;

/// A segment from `port`; `header` is the length it claims for its header.
fn tcp(port: u8, flags: u8, header: u8, rest: &[u8]) -> Vec<u8> {
    let start = [
        0,
        port,
        0,
        80,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        2,
        header << 4,
        flags,
        0,
        5,
        0,
        0,
        0,
        0,
    ];
    [&start, rest].concat()
}

fn syn(port: u8) -> Vec<u8> {
    tcp(port, SYN, TCP_FULL, FULL)
}

/// `first` is version and header length, `total` what it claims for the whole.
fn ip4(first: u8, total: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let [t0, t1] = total.to_be_bytes();
    let [f0, f1] = fragment.to_be_bytes();
    let header = [
        first, 0, t0, t1, 0, 1, f0, f1, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    [&header, payload].concat()
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let [l0, l1] = (payload.len() as u16).to_be_bytes();
    let mut header = [0; 40];
    header[..8].copy_from_slice(&[0x60, 0, 0, 0, l0, l1, next, 61]);
    (header[8], header[23], header[24], header[39]) = (0xfd, 1, 0xfd, 2);
    [&header, payload].concat()
}

/// An extension header of eight bytes and `more` times eight, padded.
fn extension(next: u8, more: u8) -> Vec<u8> {
    let mut header = vec![next, more, 1, 4, 0, 0, 0, 0];
    header.resize(8 + 8 * usize::from(more), 0);
    header
}

fn tag(inner: u16, payload: &[u8]) -> Vec<u8> {
    [&[0, 5][..], &inner.to_be_bytes(), payload].concat()
}

/// Every packet by its source port: what kind it is of, its bytes, whether it has a row.
fn packets() -> Vec<(u16, Vec<u8>, bool)> {
    let plain = |port| ip4(0x45, 60, 0, &syn(port));
    let chain = [extension(60, 0), extension(43, 0), extension(6, 2), syn(6)].concat();
    let ah = [&[6, 4][..], &[0; 22], &syn(9)].concat();
    let endless = [extension(0, 0).repeat(9), syn(10)].concat();
    let with_ip_options = [vec![0; 20], syn(15)].concat();
    let padded = [tcp(17, SYN, TCP, b"payload"), vec![0; 20]].concat();
    vec![
        (IP4, plain(1), true),
        (VLAN, tag(IP4, &plain(2)), true),
        (QINQ, tag(VLAN, &tag(IP4, &plain(3))), true),
        (IP6, ip6(6, &syn(4)), true),
        (VLAN, tag(IP6, &ip6(6, &syn(5))), true),
        (IP6, ip6(0, &chain), true),
        (
            IP6,
            ip6(44, &[&[6, 0, 0, 1, 0, 0, 0, 0][..], &syn(7)].concat()),
            true,
        ),
        // A later fragment: what it begins with is no header.
        (
            IP6,
            ip6(44, &[&[6, 0, 0, 9, 0, 0, 0, 0][..], &syn(8)].concat()),
            false,
        ),
        (IP6, ip6(51, &ah), true),
        (IP6, ip6(0, &endless), false),
        (IP4, ip4(0x45, 60, 0, &syn(11)[..25]), true),
        (IP4, ip4(0x45, 34, 0, &syn(12)[..14]), false),
        (IP4, ip4(0x45, 40, 0, &tcp(13, SYN, 2, &[])), true),
        (IP4, ip4(0x45, 40, 0, &tcp(14, SYN, 15, &[])), true),
        (IP4, ip4(0x4a, 80, 0, &with_ip_options), true),
        (IP4, ip4(0x43, 40, 0, &tcp(16, SYN, TCP, &[])), false),
        (IP4, ip4(0x45, 47, 0, &padded), true),
        (IP4, ip4(0x45, 0, 0, &tcp(18, SYN, TCP, &[])), true),
        // No control packet, a later fragment, and hardly anything.
        (IP4, ip4(0x45, 40, 0, &tcp(19, 16, TCP, &[])), false),
        (IP4, ip4(0x45, 40, 5, &tcp(20, SYN, TCP, &[])), false),
        (IP4, vec![0x45], false),
    ]
}

/// Those that are TCP for all one can see, and cannot be read: 10, 12, 16 and the last.
const UNREADABLE: u64 = 4;

#[test]
fn packets_are_understood_or_counted() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: recording a host needs root");
        return;
    }
    let space = Space::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let options = Options {
        parts: [Part::Packets].into(),
        filter: Filter {
            netns: vec![space.inode()],
            ..Filter::default()
        },
        ..Options::default()
    };
    let session = Session::start(&path, &options).unwrap();
    space.send(&packets());
    let manifest = session.stop().unwrap();
    assert_eq!(manifest.sources[0].lost, 0);

    let recording = Recording::open(&path).unwrap();
    let rows = recording.scan::<Packet>().unwrap().map(|b| b.unwrap());
    let rows: Vec<Packet> = rows
        .flat_map(|b| b.rows().map(|(_, r)| r).collect::<Vec<_>>())
        .collect();
    for (i, (_, _, told)) in packets().iter().enumerate() {
        let port = i as u16 + 1;
        let its: Vec<_> = rows.iter().filter(|r| r.src_port == port).collect();
        // On loopback: as it leaves, and as it comes in.
        let expected = if *told { vec![true, false] } else { vec![] };
        let seen: Vec<_> = its.iter().map(|r| r.outgoing).collect();
        assert_eq!(seen, expected, "port {port}");
        for row in its {
            assert_eq!((row.dst_port, row.flags, row.window), (80, SYN, 5));
            assert_eq!(row.payload, if port == 17 { 7 } else { 0 }, "port {port}");
            let six = [4, 5, 6, 7, 9].contains(&port);
            assert_eq!((row.family, row.ttl), if six { (6, 61) } else { (4, 64) });
            let from = if six { "fd00::1" } else { "10.0.0.1" };
            assert_eq!(row.src_addr.to_string(), from);
            let full = ![11, 13, 14, 17, 18].contains(&port);
            assert_eq!(row.tsval, full.then_some(7), "port {port}");
            assert_eq!(row.window_scale, full.then_some(7));
            assert_eq!(row.mss, (full || port == 11).then_some(1460));
        }
    }
    let health = recording.scan::<Health>().unwrap().map(|b| b.unwrap());
    let health: Vec<Health> = health
        .flat_map(|b| b.rows().map(|(_, r)| r).collect::<Vec<_>>())
        .collect();
    let partial: u64 = health
        .iter()
        .filter(|h| h.what.as_str() == "partial")
        .map(|h| h.count)
        .sum();
    assert_eq!(partial, 2 * UNREADABLE);
}

/// A network namespace of the test's own, removed when dropped.
struct Space(String);

impl Space {
    fn new() -> Space {
        let name = format!("tcpwhy-odd-{}", std::process::id());
        ip(&["netns", "add", &name]);
        let space = Space(name);
        ip(&["-n", &space.0, "link", "set", "lo", "up"]);
        space
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    fn inode(&self) -> u32 {
        fs::metadata(self.path()).unwrap().ino() as u32
    }

    /// Sends frames of these types on the loopback inside, with an empty link header.
    fn send(&self, frames: &[(u16, Vec<u8>, bool)]) {
        let namespace = File::open(self.path()).unwrap();
        let send = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            // SAFETY: no pointers; the result is checked.
            let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            assert!(fd >= 0);
            // SAFETY: just opened, and nobody else's.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            // SAFETY: integers only: all zeros are a value.
            let mut lo: libc::sockaddr_ll = unsafe { zeroed() };
            (lo.sll_family, lo.sll_ifindex) = (libc::AF_PACKET as u16, 1);
            for (kind, bytes, _) in frames {
                let frame = [&[0; 12][..], &kind.to_be_bytes(), bytes].concat();
                // SAFETY: the frame and the address live through the call.
                let sent = unsafe {
                    libc::sendto(
                        socket.as_raw_fd(),
                        frame.as_ptr().cast(),
                        frame.len(),
                        0,
                        (&raw const lo).cast(),
                        size_of::<libc::sockaddr_ll>() as u32,
                    )
                };
                assert_eq!(sent, frame.len() as isize);
            }
        };
        std::thread::scope(|scope| scope.spawn(send).join().unwrap());
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success());
}
