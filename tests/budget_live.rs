//! `--max-cpu`: what recording may cost, and what is switched off when it costs more.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::live::{Live, Space};
use crate::common::{arg, need_root, run, stdout, wait_until};
use recording::tables::{Health, Request, Sample, Thread};
use recording::{HealthKind, Manifest};

/// Everything that explain records.
const ALL: &str = "waits,threads,requests,profile";

/// Connections that ask once, one after the other, while the body runs.
fn under_load<T>(space: &Space, body: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let listener = space.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let at = listener.local_addr().unwrap();
    let answer = |mut end: TcpStream| {
        let mut request = [0; 4];
        end.read_exact(&mut request).is_ok() && end.write_all(b"pong").is_ok()
    };
    let ask = || {
        let mut end = TcpStream::connect(at).unwrap();
        end.write_all(b"ping").unwrap();
        end.read_to_end(&mut Vec::new()).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            space.inside(|| {
                for end in listener.incoming() {
                    answer(end.unwrap());
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            })
        });
        scope.spawn(|| {
            space.inside(|| {
                while !stop.load(Ordering::Relaxed) {
                    ask();
                }
                // The server looks at `stop` after an answer.
                let _ = TcpStream::connect(at).map(|mut end| end.write_all(b"ping"));
            })
        });
        let told = body();
        stop.store(true, Ordering::Relaxed);
        told
    })
}

#[test]
fn what_costs_too_much_is_switched_off_in_order() {
    need_root();
    let space = Space::new("budget");
    let live = Live::begin(&["--with", ALL, "--max-cpu", "0.1"]);
    under_load(&space, || {
        wait_until("all is switched off", || {
            let manifest = Manifest::read(live.path()).unwrap();
            let mut sources = manifest.sources.iter();
            sources.any(|s| s.name.as_str() == "threads" && s.shed.is_some())
        });
        thread::sleep(Duration::from_millis(1500));
    });
    let done = live.end();
    done.assert_whole();

    let health = done.rows::<Health>();
    let shed: Vec<&Health> = health
        .iter()
        .filter(|h| h.what == HealthKind::Shed)
        .collect();
    let names: Vec<&str> = shed.iter().map(|h| h.source.as_str()).collect();
    assert_eq!(names, ["profile", "requests", "waits", "threads"]);
    assert!(shed.is_sorted_by_key(|h| h.time_ns));
    for row in &shed {
        assert!(row.detail.contains("more than --max-cpu 0.1"), "{row:?}");
    }
    // What was recorded until then is there, and nothing of a second later.
    let late = |shed: &Health| shed.time_ns + 1_000_000_000;
    let times = [
        (done.rows::<Sample>().iter().map(|r| r.time_ns)).collect::<Vec<_>>(),
        (done.rows::<Request>().iter().map(|r| r.time_ns)).collect(),
        (done.rows::<Thread>().iter().map(|r| r.time_ns)).collect(),
    ];
    for (times, shed) in times.iter().zip([shed[0], shed[1], shed[3]]) {
        assert!(!times.is_empty(), "{shed:?}");
        assert!(times.iter().all(|t| *t < late(shed)), "{shed:?}");
    }
    let told = stdout(&run(&["explain", "--full", arg(done.path())]));
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let cannot = told.split("CANNOT TELL").nth(1).expect("it can tell all");
    for source in ["profile", "threads"] {
        let says = format!("the source \"{source}\" was not available (switched off");
        assert!(cannot.contains(&says), "{says}: {told}");
    }
    assert!(told.contains("requests: shed: switched off"), "{told}");
}

#[test]
fn what_costs_little_goes_on() {
    need_root();
    let space = Space::new("thrift");
    let args = ["--with", ALL, "--max-cpu", "50", "--netns", space.name()];
    let live = Live::begin(&args);
    thread::sleep(Duration::from_secs(5));
    let done = live.end();
    let shed = done.manifest().sources.iter().find(|s| s.shed.is_some());
    assert_eq!(shed, None);
    let health = done.rows::<Health>();
    assert!(health.iter().all(|h| h.what != HealthKind::Shed));
}
