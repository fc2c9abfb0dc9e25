//! A sample of a socket is of a moment at which it was there: not of one after its end.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use observe::{Filter, Options, Part, Session};
use recording::TcpState;
use recording::tables::{Event, Socket};

use crate::common::{Netns, need_root, rows};

const PORT: u16 = 7000;
/// Each leaves a TIME_WAIT, and what a walk passes over takes it time.
const CONNECTIONS: u32 = 12_000;

#[test]
fn no_sample_is_of_a_socket_that_has_ended() {
    need_root();
    let netns = Netns::new();
    // No port is taken twice: a pair of ports is one connection.
    assert!(netns.set("net/ipv4/tcp_tw_reuse", "0"));
    let listener = netns.inside(|| TcpListener::bind(("127.0.0.1", PORT)).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        parts: [Part::Events, Part::Sockets].into(),
        filter: Filter {
            netns: vec![netns.inode],
            ..Filter::default()
        },
        interval: Duration::from_millis(100),
        ..Options::default()
    };
    let session = Session::start(&dir.path().join("r.tcpwhy"), &options).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                let (mut accepted, _) = listener.accept().unwrap();
                accepted.write_all(b"x").unwrap();
                // The client ends it, and its port is the one that stays.
                assert_eq!(accepted.read(&mut [0]).unwrap(), 0);
            }
        });
        netns.inside(|| {
            for _ in 0..CONNECTIONS {
                let mut client = TcpStream::connect(("127.0.0.1", PORT)).unwrap();
                client.read_exact(&mut [0]).unwrap();
            }
        });
    });
    session.stop().unwrap();

    let events: Vec<Event> = rows(&dir);
    let ends = events
        .iter()
        .filter(|e| e.state == Some(TcpState::Close))
        .map(|e| ((e.sock, e.local_port, e.remote_port), e.time_ns));
    let ends: BTreeMap<_, _> = ends.collect();
    let samples: Vec<Socket> = rows(&dir);
    // TIME_WAIT is what stays after the end.
    let samples = samples.iter().filter(|s| s.congestion.is_some());
    let mut known = 0;
    for s in samples {
        let Some(end_ns) = ends.get(&(Some(s.sock), s.local_port, s.remote_port)) else {
            continue;
        };
        known += 1;
        assert!(
            s.time_ns <= *end_ns,
            "sampled {} ns after its end: {s:?}",
            s.time_ns - end_ns
        );
    }
    assert!(known > 0, "some of them were sampled");
}
