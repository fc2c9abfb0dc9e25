//! `--with packets`: control packets with what they offer, in every namespace, however young.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::common::live::{Live, Space};
use crate::common::{need_root, wait_until};
use recording::tables::{Health, Packet};
use rustix::process::Signal;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Waits until the recording has its packet socket in a namespace; others may have theirs.
fn watched(live: &Live, space: &Space) {
    let ours = || {
        let its = space.inside(|| fs::read_to_string("/proc/thread-self/net/packet").unwrap());
        let its = its
            .lines()
            .filter_map(|l| l.split_ascii_whitespace().last());
        let its: Vec<_> = its.map(|inode| format!("socket:[{inode}]")).collect();
        let open = fs::read_dir(format!("/proc/{}/fd", live.pid())).unwrap();
        let open = open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        open.into_iter()
            .any(|to| its.iter().any(|i| to.as_os_str() == i.as_str()))
    };
    wait_until("the namespace is watched", ours);
}

/// A connection within the calling thread's namespace, from SYN to FIN, and one that is refused.
fn traffic(ip: IpAddr) {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let client = TcpStream::connect(to).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    drop(client);
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    drop(server);
    drop(listener);
    TcpStream::connect(SocketAddr::new(ip, 1)).unwrap_err();
}

#[test]
fn a_handshake_is_seen_with_its_options() {
    need_root();
    let before = Space::new("packets-old");
    let live = Live::begin(&["--with", "packets", "--interval", "100ms"]);
    let after = Space::new("packets-young");
    after.sysctl("net.ipv4.tcp_timestamps", "0");
    watched(&live, &after);
    for (space, ip, _, _) in [
        (&before, "127.0.0.1", 4, 65495),
        (&before, "::1", 6, 65476),
        (&after, "127.0.0.1", 4, 65495),
    ] {
        let ip: IpAddr = ip.parse().unwrap();
        space.inside(|| traffic(ip));
    }
    let done = live.end();
    done.assert_whole();
    let seen = &done.manifest().namespaces;
    assert!(seen.iter().any(|n| n.inode == after.inode()));
    let packets: Vec<Packet> = done.rows();

    for (space, ip, family, mss) in [
        (&before, "127.0.0.1", 4, 65495),
        (&before, "::1", 6, 65476),
        (&after, "127.0.0.1", 4, 65495),
    ] {
        let ip: IpAddr = ip.parse().unwrap();
        let its = |p: &&Packet| p.netns == space.inode() && p.family == family;
        let its: Vec<_> = packets.iter().filter(its).collect();
        assert!(
            its.iter()
                .all(|p| p.src_addr.ip() == ip && p.dst_addr.ip() == ip)
        );
        // On loopback each is seen twice: as it leaves, then as it comes in.
        let (out, into): (Vec<&Packet>, Vec<_>) = its.iter().partition(|p| p.outgoing);
        let name = |p: &&Packet| (p.src_port, p.dst_port, p.flags, p.seq);
        assert_eq!(
            out.iter().map(name).collect::<Vec<_>>(),
            into.iter().map(name).collect::<Vec<_>>()
        );
        let flags: Vec<u8> = out.iter().map(|p| p.flags).collect();
        let expected = [SYN, SYN | ACK, FIN | ACK, FIN | ACK, SYN, RST | ACK];
        assert_eq!(flags, expected, "{out:#?}");

        let (syn, answer, refused) = (out[0], out[1], out[5]);
        let timestamps = space.inode() == before.inode();
        for offer in [syn, answer] {
            assert_eq!(offer.mss, Some(mss));
            assert!(offer.window_scale.is_some() && offer.sack_permitted);
            assert_eq!(offer.tsval.is_some(), timestamps);
            assert_eq!((offer.ttl, offer.payload), (64, 0));
        }
        assert_eq!(answer.ack, syn.seq.wrapping_add(1));
        assert_eq!(answer.tsecr, syn.tsval, "the answer echoes the offer");
        assert_eq!((refused.src_port, refused.mss), (1, None));
        assert!(!refused.sack_permitted && refused.window_scale.is_none());
        assert_eq!(out[2].mss, None, "a FIN offers nothing");
    }
}

#[test]
fn a_recording_does_not_keep_a_namespace_alive() {
    need_root();
    let stays = Space::new("packets-stays");
    let goes = Space::new("packets-goes");
    stays.ip(&[
        "link",
        "add",
        "here",
        "type",
        "veth",
        "peer",
        "name",
        "there",
        "netns",
        goes.name(),
    ]);
    let live = Live::begin(&["--with", "packets", "--interval", "1h"]);
    watched(&live, &goes);
    drop(goes);
    // Its end of the pair goes with it, and then ours.
    let gone = || {
        let show = ["-n", stays.name(), "link", "show", "here"];
        !Command::new("ip")
            .args(show)
            .output()
            .unwrap()
            .status
            .success()
    };
    wait_until("the namespace is gone", gone);
    live.end();
}

#[test]
fn packets_that_found_no_room_are_counted() {
    need_root();
    const CONNECTIONS: usize = 200;
    let space = Space::new("packets-full");
    // 4 KiB hold 32 packets, and nobody takes them out.
    let live = Live::begin(&[
        "--with",
        "packets",
        "--ring-kib",
        "4",
        "--netns",
        space.name(),
    ]);
    live.signal(Signal::STOP);
    space.inside(|| {
        let ip = [127, 0, 0, 1].into();
        (0..CONNECTIONS).for_each(|_| traffic(ip));
    });
    live.signal(Signal::CONT);
    let done = live.end();
    let source = done
        .manifest()
        .sources
        .iter()
        .find(|s| s.name.as_str() == "packets");
    let lost = source.unwrap().lost;
    let told = done.rows::<Health>().into_iter();
    let told = told.filter(|h| h.source.as_str() == "packets" && h.what.as_str() == "lost");
    assert_eq!(lost, told.map(|h| h.count).sum::<u64>());
    let kept = done.rows::<Packet>();
    let kept = kept.iter().filter(|p| p.netns == space.inode()).count() as u64;
    // Six control packets of each, seen twice.
    assert!(lost > 0 && kept > 0);
    assert!(
        kept + lost >= 12 * CONNECTIONS as u64,
        "{kept} kept, {lost} lost"
    );
}

#[test]
fn only_the_namespace_asked_for_is_watched() {
    need_root();
    let (one, other) = (Space::new("packets-one"), Space::new("packets-other"));
    let live = Live::begin(&["--with", "packets", "--netns", one.name()]);
    for space in [&one, &other] {
        space.inside(|| traffic([127, 0, 0, 1].into()));
    }
    let done = live.end();
    let packets: Vec<Packet> = done.rows();
    assert_eq!(packets.len(), 12);
    assert!(packets.iter().all(|p| p.netns == one.inode()));
}
