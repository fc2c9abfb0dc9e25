//! Packets begin before the events and end after them: no connection that is told lacks its SYN.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use observe::{Filter, Options, Part, Session};
use recording::TcpState;
use recording::tables::{Event, Packet};

use crate::common::{Netns, need_root, rows};

const SYN: u8 = 2;
const PORT: u16 = 7000;
const S: u64 = 1_000_000_000;

#[test]
fn every_connect_that_is_told_has_its_syn() {
    need_root();
    let netns = Netns::new();
    let listener = netns.inside(|| TcpListener::bind(("127.0.0.1", PORT)).unwrap());
    let stop = AtomicBool::new(false);
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        // Connections without a pause, before the recorder begins and after it ends.
        scope.spawn(|| {
            netns.inside(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
                    drop(listener.accept().unwrap());
                }
            });
        });
        let options = Options {
            parts: [Part::Events, Part::Packets].into(),
            filter: Filter {
                netns: vec![netns.inode],
                ..Filter::default()
            },
            ..Options::default()
        };
        let session = Session::start(&dir.path().join("r.tcpwhy"), &options).unwrap();
        thread::sleep(Duration::from_millis(200));
        session.stop().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    let packets: Vec<Packet> = rows(&dir);
    let syns = packets.iter().filter(|p| p.flags == SYN && p.outgoing);
    let syns: BTreeSet<(u64, u16)> = syns.map(|p| (p.time_ns / S, p.src_port)).collect();
    let events: Vec<Event> = rows(&dir);
    // One that the end of the recording cut off before connect() had chosen a port has none.
    let of_clients = events
        .iter()
        .filter(|e| e.remote_port == PORT && e.local_port != 0)
        // Of one that is older than the recording only the end is told.
        .filter(|e| e.connect_ns.is_some() || e.state == Some(TcpState::SynSent));
    let mut told = 0;
    for event in of_clients {
        told += 1;
        // None lives for a second.
        let second = event.time_ns / S;
        let near = [second - 1, second, second + 1];
        let seen = near.iter().any(|s| syns.contains(&(*s, event.local_port)));
        assert!(seen, "no SYN of {event:?}");
    }
    assert!(told > 100, "{told}");
}
