//! All parts count from one moment: nothing that happened before it is in a recording, however long attaching took.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use observe::{Error, Filter, Options, Part, Session};
use recording::tables::{
    Counter, Event, InterfaceAddress, Packet, Request, Resource, Sample, Socket, Thread, Wait,
};
use recording::{Manifest, Table};

use crate::common::{Netns, need_root, rows};

const PORT: u16 = 7100;
/// All parts attach within seconds, however busy the host is.
const LONG: Duration = Duration::from_secs(60);

fn options(parts: impl IntoIterator<Item = Part>, netns: &Netns) -> Options {
    Options {
        parts: parts.into_iter().collect(),
        filter: Filter {
            netns: vec![netns.inode],
            ..Filter::default()
        },
        interval: Duration::from_millis(100),
        wait_over: Duration::ZERO,
        ..Options::default()
    }
}

/// When the rows of a table were taken.
fn times<T: Table>(dir: &tempfile::TempDir) -> Vec<u64> {
    rows::<T>(dir).iter().map(T::time_ns).collect()
}

#[track_caller]
fn within<T: Table>(manifest: &Manifest, dir: &tempfile::TempDir) {
    let (times, table) = (times::<T>(dir), T::INFO.name);
    assert!(!times.is_empty(), "{table}: no rows");
    let first = times.iter().min().unwrap();
    let early = manifest.start_ns.saturating_sub(*first);
    assert_eq!(early, 0, "{table}: ns before the recording began");
}

#[test]
fn nothing_from_before_the_recording_began_is_in_it() {
    need_root();
    let netns = Netns::new();
    let listener = netns.inside(|| TcpListener::bind(("127.0.0.1", PORT)).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let all = Part::to_explain().chain([Part::Packets]);
    let done = AtomicBool::new(false);
    let manifest = thread::scope(|scope| {
        // Connections and requests all the time, also while the parts attach.
        scope.spawn(|| {
            use std::io::{Read, Write};
            while !done.load(Ordering::Relaxed) {
                let (mut accepted, _) = listener.accept().unwrap();
                while accepted.read(&mut [0]).is_ok_and(|n| n > 0) {
                    thread::sleep(Duration::from_millis(2));
                    accepted.write_all(b"x").unwrap();
                }
            }
        });
        scope.spawn(|| {
            netns.inside(|| {
                use std::io::{Read, Write};
                while !done.load(Ordering::Relaxed) {
                    let mut client = TcpStream::connect(("127.0.0.1", PORT)).unwrap();
                    for _ in 0..20 {
                        client.write_all(b"x").unwrap();
                        client.read_exact(&mut [0]).unwrap();
                    }
                }
                // The one that accepts looks once more.
                drop(TcpStream::connect(("127.0.0.1", PORT)).unwrap());
            });
        });
        thread::sleep(Duration::from_millis(200));
        let asked_ns = recording::monotonic_ns();
        let session = Session::start(&dir.path().join("r.tcpwhy"), &options(all, &netns));
        let session = session.inspect(|session| {
            // Its clock starts when all have attached, not when that was asked for.
            let waited_ns = session.manifest().start_ns.saturating_sub(asked_ns);
            assert!(u128::from(waited_ns) >= session.attaching().as_nanos());
            while session.lasts() < Duration::from_secs(2) {
                thread::sleep(Duration::from_millis(50));
            }
        });
        let stopped = session.and_then(Session::stop);
        done.store(true, Ordering::Relaxed);
        stopped.unwrap()
    });
    within::<Event>(&manifest, &dir);
    within::<Packet>(&manifest, &dir);
    within::<Socket>(&manifest, &dir);
    within::<Counter>(&manifest, &dir);
    within::<InterfaceAddress>(&manifest, &dir);
    within::<Resource>(&manifest, &dir);
    within::<Wait>(&manifest, &dir);
    within::<Thread>(&manifest, &dir);
    within::<Sample>(&manifest, &dir);
    within::<Request>(&manifest, &dir);
    let start_ns = manifest.start_ns;
    for e in rows::<Event>(&dir) {
        let began = [e.connect_ns, e.established_ns].into_iter().flatten().min();
        assert!(began.is_none_or(|began| began >= start_ns), "{e:?}");
    }
    for t in rows::<Thread>(&dir) {
        assert!(t.time_ns - t.interval_ns >= start_ns, "{t:?}");
    }
    for w in rows::<Wait>(&dir) {
        assert!(w.time_ns - w.waited_ns >= start_ns, "{w:?}");
    }
    // A request takes 2 ms at least: no more of them are told than that leaves room for.
    let lasted_ms = (manifest.end_ns - start_ns) / 1_000_000;
    let server = |r: &Request| r.port == PORT && r.role == recording::Role::Server;
    let told: u64 = rows(&dir)
        .iter()
        .filter(|r| server(r))
        .map(|r| r.exchanges)
        .sum();
    assert!(
        (1..=lasted_ms / 2).contains(&told),
        "{told} in {lasted_ms} ms"
    );
}

#[test]
fn who_wants_the_end_does_not_wait_for_what_attaches() {
    need_root();
    let netns = Netns::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let stop = Arc::new(AtomicBool::new(true));
    let began = Instant::now();
    let options = Options {
        stop: stop.clone(),
        ..options(Part::to_explain(), &netns)
    };
    let started = Session::start(&path, &options);
    assert!(matches!(started, Err(Error::Stopped)));
    assert!(began.elapsed() < LONG);
    assert!(!path.exists(), "nothing is left");
    stop.store(false, Ordering::Relaxed);
    // Elsewhere: what was attaching ends in its own time.
    let session = Session::start(&dir.path().join("again.tcpwhy"), &options).unwrap();
    assert!(session.attaching() > Duration::ZERO && session.attaching() < LONG);
    session.stop().unwrap();
}
