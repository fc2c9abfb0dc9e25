//! Lockstep is told where an application's window or its words limit a stream, and not where TCP or the path do.

use recording::tables::{Request, Socket};
use synth::{CLIENT, Fixture, Flow, Listen, SERVER, START_NS};

use crate::{NotTcp, TimeOf, explain};

/// A stream of 5.04 MB/s over 10.4 ms, seen from both its ends, and so many words per second that come back. Of each
/// sample of its sender `change` makes what it shows.
fn stream(answers: bool, words: u32, change: impl Fn(&mut Socket)) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.flow(Flow {
        answers,
        rate: 5_040_000,
        back: u64::from(words) * 26,
        rtt_us: [11_300, 900, 10_400],
        unacked: 40,
        unsent: 0,
        cwnd: 125,
        ..Flow::default()
    });
    let sends = if answers { SERVER } else { CLIENT };
    for (second, row) in f.sockets.iter_mut().enumerate() {
        let second = second as u32 / 2 + 1;
        if row.netns == sends {
            row.data_segs_in = Some(second * words);
            change(row);
        } else {
            row.data_segs_out = Some(second * words);
        }
    }
    f
}

fn told(f: &Fixture) -> Option<NotTcp> {
    let explained = explain(&f.write().unwrap()).unwrap();
    assert!(explained.findings.is_empty(), "{:#?}", explained.findings);
    explained.summary.not_tcp
}

#[test]
fn a_window_of_the_application_is_told_with_what_it_lets_pass() {
    let told = told(&stream(false, 96, |_| {})).expect("a window of 64 kB");
    assert_eq!(told.whose, TimeOf::RoundTrips);
    let says = "sends 52,416 bytes per round trip of 10.4 ms to 10.79.0.1:5000, 40.3 Mbit/s on each connection: ";
    assert!(told.says.contains(says), "{}", told.says);
}

#[test]
fn a_server_that_waits_for_the_next_word_is_told_likewise() {
    let told = told(&stream(true, 77, |_| {})).expect("a window of 64 kB");
    assert_eq!((told.whose, told.share), (TimeOf::RoundTrips, 0.8008));
    assert!(told.says.contains(" at 10.79.0.1:5000"), "{}", told.says);
}

#[test]
fn what_the_path_or_the_windows_limit_is_not() {
    // Nothing comes back, or much more often than once in a round trip.
    assert_eq!(told(&stream(false, 0, |_| {})), None);
    assert_eq!(told(&stream(false, 300, |_| {})), None);
    // It has more to send, or the congestion window is full.
    assert_eq!(
        told(&stream(false, 96, |s| s.notsent_bytes = Some(60_000))),
        None
    );
    assert_eq!(told(&stream(false, 96, |s| s.cwnd = Some(40))), None);
    // A word to each of its messages, which are short.
    assert_eq!(
        told(&stream(false, 96, |s| s.bytes_acked = Some(300_000))),
        None
    );
    // It pauses.
    assert_eq!(
        told(&stream(false, 96, |s| s.busy_us = s.busy_us.map(|us| us / 4))),
        None
    );
}

#[test]
fn a_client_alone_needs_requests_that_waited_for_the_network() {
    let asks = |await_ms: u64, receive_ms: u64| {
        let mut f = stream(true, 96, |_| {});
        let server = f.sockets.iter().find(|s| s.netns == SERVER).unwrap();
        let addr = server.local_addr;
        f.requests.push(Request {
            time_ns: START_NS + 9_000_000_000,
            netns: CLIENT,
            role: recording::Role::Client,
            addr,
            port: 5000,
            exchanges: 300,
            overlapped: 200,
            await_ns: 300 * await_ms * 1_000_000,
            think_ns: 300 * receive_ms * 1_000_000,
            one_in: 1,
            ..Request::default()
        });
        f.seen_from(CLIENT);
        told(&f).filter(|t| t.whose == TimeOf::RoundTrips)
    };
    let told = asks(10, 0).expect("each waits a round trip");
    assert!(told.says.contains("receives 53,149 bytes"), "{}", told.says);
    assert_eq!(asks(10, 60), None);
}
