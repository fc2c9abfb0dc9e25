//! C23 is named when unread data closes the window, and not for a small buffer or a long queue.

use crate::causes::testing::{found, number, only};
use crate::{Change, Level, Number};
use synth::{CLIENT, SERVER, cases};

const ID: &str = "slow-reader";

#[test]
fn both_ends_here() {
    let f = only(&cases::slow_reader(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.scope.pid), (2, Some(812)));
    assert_eq!(number(&f, "unread_bytes"), &Number::Count(80_000));
    assert!(
        f.evidence
            .iter()
            .any(|s| s.says.contains("clock_nanosleep"))
    );
    assert!(f.evidence.iter().any(|s| s.says.contains("16 of 16")));
    let faster = Change::ReadFaster {
        listener: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(faster));
}

#[test]
fn a_reader_that_limits_itself_is_told_with_the_option_that_says_so() {
    let mut recording = cases::slow_reader();
    // Its first 80 kB filled its buffer: it read less than came.
    let f = only(&recording, ID);
    let rate = |f: &crate::Finding| f.title.split(" takes ").nth(1).unwrap().to_string();
    let each = "9.65 Mbit/s per transfer (median);";
    assert!(rate(&f).starts_with(each), "{}", f.title);
    for process in recording.processes.iter_mut().filter(|p| p.pid == 812) {
        process.cmdline = "/usr/bin/curl --limit-rate 1M http://10.79.0.1:5000/".into();
    }
    let f = only(&recording, ID);
    let fix = "Raise --limit-rate 1M in the command line of iperf3: it limits itself.";
    assert_eq!(f.fix, fix);
    assert!(
        f.evidence
            .iter()
            .any(|s| s.says.contains("--limit-rate 1M"))
    );
}

#[test]
fn the_receiver_alone_tells_by_its_window() {
    let mut recording = cases::slow_reader();
    for socket in recording.sockets.iter_mut().filter(|s| s.netns == SERVER) {
        socket.rcv_wnd = Some(0);
    }
    recording.seen_from(SERVER);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    // An open window: data unread for 100 ms, on a path of a few ms, shows that the reader is behind, not that the
    // senders wait.
    for socket in &mut recording.sockets {
        socket.rcv_wnd = Some(50_000);
    }
    assert_eq!(only(&recording, ID).confidence.level, Level::Low);
    // At a hundred times the rate, it is taken within a millisecond.
    for socket in &mut recording.sockets {
        socket.bytes_received = socket.bytes_received.map(|bytes| bytes * 100);
    }
    assert!(found(&recording).is_empty());
}

/// On a host with many namespaces the reader may be sampled once; its sender's wait is counted all the time.
#[test]
fn one_sample_of_the_reader_is_enough_where_its_sender_is_here() {
    let mut recording = cases::slow_reader();
    let last = recording.sockets.iter().filter(|s| s.netns == SERVER);
    let last = last.map(|s| s.time_ns).max().unwrap();
    recording
        .sockets
        .retain(|s| s.netns != SERVER || s.time_ns == last);
    only(&recording, ID);
    recording.seen_from(SERVER);
    assert!(found(&recording).is_empty());
}

/// A window that is filled once per round trip, over connections that are idle in between: what one sample found unread
/// was about to be read.
#[test]
fn pauses_of_the_sender_are_not_the_readers() {
    let mut recording = cases::slow_reader();
    let at_server = recording.sockets.iter().filter(|s| s.netns == SERVER);
    let last = at_server.map(|s| s.time_ns).max().unwrap();
    for socket in recording.sockets.iter_mut() {
        if socket.netns == SERVER && socket.time_ns != last {
            socket.recv_queue = Some(0);
        }
    }
    only(&recording, ID);
    // The same bytes in a twentieth of the time: 24 MB/s, of the 32 MB/s that the window lets pass.
    for socket in recording.sockets.iter_mut().filter(|s| s.netns == CLIENT) {
        socket.busy_us = socket.busy_us.map(|us| us / 20);
        socket.rwnd_limited_us = socket.rwnd_limited_us.map(|us| us / 20);
    }
    assert!(found(&recording).is_empty());
}

#[test]
fn look_alikes_are_not_it() {
    // The window is small and the reader keeps up: its buffer is too small.
    let mut small = cases::slow_reader();
    for socket in small.sockets.iter_mut().filter(|s| s.netns == SERVER) {
        socket.recv_queue = Some(0);
    }
    assert!(found(&small).is_empty());
    // Unread data, but nothing waits for the window.
    let mut open = cases::slow_reader();
    for socket in open.sockets.iter_mut().filter(|s| s.netns == CLIENT) {
        socket.rwnd_limited_us = Some(0);
    }
    assert!(found(&open).is_empty());
    only(&cases::bloated(), "bufferbloat");
    assert!(found(&cases::bulk()).is_empty());
}

/// The sender alone, at a rate compared with what its peer's window lets pass.
fn sender_alone(spare: f64) -> synth::Fixture {
    let mut recording = cases::slow_reader();
    recording.seen_from(CLIENT);
    for socket in &mut recording.sockets {
        let rtt_s = f64::from(socket.min_rtt_us.unwrap_or(20_000)) / 1e6;
        // What one sender of the case sends in a second.
        let rate = socket.bytes_acked.unwrap_or(0) as f64 / 8.0;
        socket.snd_wnd = Some((rate * rtt_s * spare) as u32);
    }
    recording
}

#[test]
fn the_sender_alone_tells_a_slow_reader_from_a_small_window() {
    let f = only(&sender_alone(20.0), ID);
    assert_eq!(f.confidence.level, Level::Medium);
    assert!(f.title.contains("reads too slowly"), "{}", f.title);
    assert!(matches!(
        f.advice[0].change,
        Some(Change::ReadFaster { .. })
    ));
    // Its window is not far wider than what passes, and a queue stands: neither applies.
    assert!(found(&sender_alone(1.5)).is_empty());
    let mut empty = sender_alone(1.0);
    for socket in &mut empty.sockets {
        socket.rtt_us = socket.min_rtt_us;
    }
    only(&empty, "receive-buffer-small");
    // It has something to send, and waits for something else.
    let mut open = sender_alone(20.0);
    for socket in &mut open.sockets {
        socket.rwnd_limited_us = Some(0);
    }
    assert!(found(&open).is_empty());
}

#[test]
fn who_reads_a_gigabit_a_second_is_not_slow() {
    let is_found = |times: u64, side: Option<u32>| {
        let mut f = if side.is_some() {
            sender_alone(20.0)
        } else {
            cases::slow_reader()
        };
        for s in &mut f.sockets {
            s.bytes_received = s.bytes_received.map(|n| n * times);
            s.bytes_acked = s.bytes_acked.map(|n| n * times);
            s.snd_wnd = s.snd_wnd.map(|n| n.saturating_mul(times as u32));
        }
        found(&f).iter().any(|f| f.cause == ID)
    };
    for side in [None, Some(CLIENT)] {
        assert!(is_found(1, side));
        assert!(!is_found(2_000, side), "{side:?}");
    }
}

#[test]
fn who_passes_on_what_it_reads_is_not_slow_where_nobody_takes_it() {
    let mut f = cases::slow_reader();
    let rate = f.sockets.iter().filter_map(|s| s.bytes_received).max();
    // A client elsewhere, to which the same process passes what it reads.
    f.flow(synth::Flow {
        from: "203.0.113.7:50000".into(),
        answers: true,
        rate: rate.unwrap_or(0) / 8,
        ..synth::Flow::default()
    });
    let told = crate::explain(&f.write().unwrap()).unwrap().findings;
    assert!(told.iter().all(|f| f.cause.as_str() != ID), "{told:?}");
}
