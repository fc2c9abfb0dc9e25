//! How long connections wait for accept() between two samples, on the running kernel.

use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use observe::{Filter, Options, Part, Session};
use recording::tables::Listener;
use recording::{SourceName, Verdict};

use crate::common::{Netns, need_root, rows};

#[test]
fn who_waits_between_two_samples_is_seen() {
    need_root();
    let netns = Netns::new();
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (late, at_once) = netns.inside(|| (listen(), listen()));
    let connect = |to: &TcpListener| TcpStream::connect(to.local_addr().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        parts: [Part::Sockets].into(),
        filter: Filter {
            netns: vec![netns.inode],
            ..Filter::default()
        },
        // Nobody samples before the end.
        interval: Duration::from_secs(3_600),
        ..Options::default()
    };
    let session = Session::start(&dir.path().join("r.tcpwhy"), &options).unwrap();
    let began = Instant::now();
    let clients = netns.inside(|| {
        let first = connect(&late);
        let others = [0; 20].map(|_| {
            let client = connect(&at_once);
            at_once.accept().unwrap();
            sleep(Duration::from_millis(100));
            client
        });
        (first, others)
    });
    late.accept().unwrap();
    let waited = began.elapsed();
    let manifest = session.stop().unwrap();
    drop(clients);

    let mut sources = manifest.sources.iter();
    let looked = sources.find(|s| s.name == SourceName::AcceptWaits);
    assert_eq!(looked.unwrap().verdict, Verdict::Attached);
    let samples: Vec<Listener> = rows(&dir);
    let longest = |of: &TcpListener| {
        let port = of.local_addr().unwrap().port();
        let of = samples.iter().filter(|s| s.local_port == port);
        of.clone()
            .for_each(|s| assert_eq!(s.accept_queue, 0, "{s:#?}"));
        let longest = of.filter_map(|s| s.accept_wait_ms).max();
        Duration::from_millis(longest.unwrap().into())
    };
    let seen = longest(&late);
    // Two seconds; a tick and the time before the connection was made are no part of it.
    assert!(seen >= Duration::from_millis(500), "{seen:?} of {waited:?}");
    assert!(seen <= waited, "{seen:?} of {waited:?}");
    // Who is accepted at once may be met by a look, but never for long.
    assert!(longest(&at_once) < seen / 2, "{:?}", longest(&at_once));
}
