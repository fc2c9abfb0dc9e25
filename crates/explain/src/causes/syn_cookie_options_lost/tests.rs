//! C06 is named when cookies cost options, and not when they cost none.

use recording::tables::Event;
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out, sysctls};
use crate::{Change, Level, Number, explain};
use synth::{CLIENT, Dial, Fixture, Listen, SERVER, cases};

const ID: &str = "syn-cookie-options-lost";

#[test]
fn both_ends_here() {
    let f = only(&cases::syn_cookies(), ID);
    assert_eq!((f.impact.affected, f.impact.of), (92, 98));
    assert_eq!((f.scope.pid, f.scope.backlog), (Some(812), Some(5)));
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert_eq!(f.confidence.level, Level::High);
    assert_eq!(f.impact.throughput_ratio, Some(0.0504));
    assert_eq!(f.impact.cwnd_ratio, Some(0.03929));
    assert_eq!(number(&f, "tcp_timestamps"), &Number::Count(0));
    assert_eq!(number(&f, "arrived_at_once"), &Number::Count(98));
    let timestamps = "net.ipv4.tcp_timestamps=1".to_string();
    assert_eq!(
        sysctls(&f),
        [(SERVER, timestamps.clone()), (CLIENT, timestamps)]
    );
    let backlog = Change::Backlog {
        listener: "10.79.0.1:5000".into(),
        value: 1_024,
    };
    assert_eq!(f.advice[0].change, Some(backlog));
    assert!(f.arithmetic.iter().all(|c| c.agrees) && f.arithmetic.len() == 2);
    assert!(ruled_out(&f, "middlebox-strips-options").contains("92 connections"));
}

#[test]
fn a_host_that_always_sends_cookies_is_told_so() {
    let mut recording = cases::syn_cookies();
    recording.set(SERVER, "net.ipv4.tcp_syncookies", "2");
    let f = only(&recording, ID);
    assert_eq!(
        f.fix,
        "Set net.ipv4.tcp_syncookies=1, set net.ipv4.tcp_timestamps=1, and reconnect the clients."
    );
    let says: Vec<_> = f.evidence.iter().map(|s| s.says.as_str()).collect();
    let always = "net.ipv4.tcp_syncookies=2: every SYN is answered by a cookie";
    assert!(says.iter().any(|s| s.starts_with(always)), "{says:#?}");
    assert_eq!(
        sysctls(&f)[0],
        (SERVER, "net.ipv4.tcp_syncookies=1".to_string())
    );
    assert_eq!(
        f.advice[0]
            .command
            .as_deref()
            .map(|c| c.contains("tcp_syncookies=1")),
        Some(true)
    );
}

#[test]
fn only_the_server_here() {
    let mut recording = cases::syn_cookies();
    recording.seen_from(SERVER);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, f.impact.of), (92, 98));
    assert_eq!(f.confidence.level, Level::High);
    // The server receives: the rates are its own, congestion windows are the senders'.
    assert_eq!(f.impact.throughput_ratio, Some(0.0504));
    assert_eq!(f.impact.cwnd_ratio, None);
}

#[test]
fn a_client_alone_cannot_blame_cookies() {
    let mut recording = cases::syn_cookies();
    recording.seen_from(CLIENT);
    let f = only(&recording, "middlebox-strips-options");
    assert_eq!(f.confidence.level, Level::Low);
    assert!(
        f.ruled_out.iter().all(|r| r.cause != ID),
        "{:?}",
        f.ruled_out
    );
    let because = f.confidence.because.join("; ");
    assert!(
        because.contains("syn-cookie-options-lost could not be ruled out"),
        "{because}"
    );
}

#[test]
fn one_slow_connection_among_ten_is_enough() {
    let f = only(&one_among(10), ID);
    assert_eq!((f.impact.affected, f.impact.of), (1, 10));
}

/// Uploads, the last of which came from a cookie.
fn one_among(n: u16) -> Fixture {
    let mut f = Fixture::new();
    f.set(SERVER, "net.ipv4.tcp_timestamps", "0");
    f.listen(Listen {
        backlog: 5,
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.SyncookiesRecv", 0, 1);
    for i in 1..=n {
        let cookie = i == n;
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            cookie: Some(cookie),
            options: [!cookie, !cookie, false],
            sends: if cookie { 6_000_000 } else { 60_000_000 },
            rate: if cookie { 6_000_000 } else { 60_000_000 },
            ..Dial::default()
        });
    }
    f
}

#[test]
fn connections_older_than_the_recording_are_covered_by_the_counters_since_boot() {
    let mut f = Fixture::new();
    f.set(SERVER, "net.ipv4.tcp_timestamps", "0");
    f.listen(Listen {
        at: "[::]:8000",
        backlog: 5,
        warned: true,
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.SyncookiesRecv", 7, 0);
    f.count(SERVER, "TcpExt.TCPReqQFullDoCookies", 9, 0);
    for i in 0..4u16 {
        let bad = i == 0;
        f.dial(Dial {
            client: None,
            from: format!("[fe80::{i}]:55000"),
            to: "[fe80::ffff]:8000",
            older: true,
            options: [!bad, !bad, false],
            sends: 80_000_000,
            rate: if bad { 5_000_000 } else { 400_000_000 },
            at_ms: -10_000.0,
            ..Dial::default()
        });
    }
    // With the receiver's one sample alone, no rate is known: give it a second one.
    let later: Vec<_> = f
        .sockets
        .iter()
        .cloned()
        .map(|mut s| {
            s.time_ns += 1_000_000_000;
            s.bytes_received = s.bytes_received.map(|b| b + 5_000_000);
            s
        })
        .collect();
    f.sockets.extend(later);
    let f = only(&f, ID);
    assert_eq!((f.impact.affected, f.impact.of), (1, 4));
    assert_eq!(f.confidence.level, Level::Medium);
    assert_eq!(f.scope.listener, "[::]:8000");
}

#[test]
fn without_kernel_symbols_the_counters_cover_them_with_less_confidence() {
    let mut recording = cases::syn_cookies();
    for event in &mut recording.events {
        event.cookie = None;
    }
    let f = only(&recording, ID);
    assert_eq!(f.impact.affected, 92);
    assert_eq!(f.confidence.level, Level::Medium);
}

#[test]
fn with_timestamps_cookies_cost_nothing() {
    let mut recording = cases::syn_cookies();
    for event in &mut recording.events {
        if event.sack.is_some() {
            event.sack = Some(true);
            event.window_scaling = Some(true);
            event.timestamps = Some(true);
        }
    }
    for socket in &mut recording.sockets {
        socket.sack = Some(true);
        socket.window_scaling = Some(true);
        socket.timestamps = Some(true);
    }
    assert_eq!(found(&recording).len(), 0);
}

#[test]
fn short_connections_do_not_notice() {
    let mut f = Fixture::new();
    f.set(SERVER, "net.ipv4.tcp_timestamps", "0");
    f.listen(Listen {
        backlog: 5,
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.SyncookiesRecv", 0, 50);
    for i in 0..50u16 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            cookie: Some(true),
            options: [false, false, false],
            ends_ms: Some(150.0),
            ..Dial::default()
        });
    }
    assert_eq!(found(&f).len(), 0);
    let notes = explain(&f.write().unwrap()).unwrap().notes;
    let [note] = &notes[..] else {
        panic!("{notes:#?}");
    };
    assert_eq!(note.cause, ID);
    let lost = "50 of 50 connections lost SACK and window scaling to SYN cookies.";
    assert!(note.title.ends_with(lost), "{}", note.title);
    assert_eq!(note.because, super::TOO_SHORT);
}

#[test]
fn lost_events_lower_the_confidence() {
    let mut recording = cases::syn_cookies();
    recording.lose(SourceName::States, 1_234);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Medium);
    assert!(
        f.confidence
            .because
            .iter()
            .any(|b| b.contains("1,234 records"))
    );
}

#[test]
fn counters_that_contradict_lower_the_confidence() {
    let mut recording = cases::syn_cookies();
    recording.counters.retain(|c| &*c.name != "SyncookiesRecv");
    recording.count(SERVER, "TcpExt.SyncookiesRecv", 0, 10);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Low);
    assert!(f.arithmetic.iter().any(|c| !c.agrees));
}

/// A full accept queue also drops the last ACKs of requests: those are not returned cookies.
#[test]
fn only_dropped_acks_that_bring_a_cookie_count_against_those_that_came_back() {
    let mut recording = cases::syn_cookies();
    drop_acks(&mut recording, 200, "TCP_LISTEN_OVERFLOW", "tcp_v4_rcv");
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.arithmetic);
    assert_eq!(f.arithmetic[0].expected, 92.0);

    drop_acks(&mut recording, 30, "NO_SOCKET", "cookie_v4_check");
    let f = only(&recording, ID);
    assert_eq!(f.arithmetic[0].expected, 62.0);
    recording.counters.retain(|c| &*c.name != "SyncookiesRecv");
    recording.count(SERVER, "TcpExt.SyncookiesRecv", 0, 122);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.arithmetic);
}

/// Last ACKs of handshakes that its listener dropped.
fn drop_acks(f: &mut Fixture, count: u64, reason: &str, location: &str) {
    let (local_addr, local_port, _) = synth::place("10.79.0.1:5000");
    let (remote_addr, ..) = synth::place("10.79.0.2:0");
    f.events.extend((0..count).map(|i| Event {
        time_ns: synth::START_NS + 150_000_000 + i,
        kind: EventKind::Drop,
        netns: SERVER,
        family: 4,
        local_addr,
        local_port,
        remote_addr,
        remote_port: 50_000 + i as u16,
        state: Some(TcpState::Listen),
        reason: Some(reason.into()),
        location: Some(location.into()),
        flags: Some(16),
        ..Event::default()
    }));
}

#[test]
fn without_listener_samples_the_address_is_still_named() {
    let mut recording = cases::syn_cookies();
    recording.without(SourceName::Sockets);
    let f = only(&recording, ID);
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert_eq!((f.scope.backlog, f.scope.pid), (None, None));
    assert_eq!(f.confidence.level, Level::Medium);
}

#[test]
fn somaxconn_that_would_cut_the_backlog_is_raised_too() {
    let mut recording = cases::syn_cookies();
    recording.set(SERVER, "net.core.somaxconn", "128");
    let f = only(&recording, ID);
    assert!(sysctls(&f).contains(&(SERVER, "net.core.somaxconn=1024".into())));
}
