//! Recordings that no kernel makes: explain must answer, never panic, and stand by its evidence.

use explain::{Explanation, explain};
use proptest::prelude::*;
use recording::tables::{Counter, Event, Listener, Process, Setting, Socket};
use recording::{Addr, EventKind, RetransmitKind, TcpState, Text};
use synth::{CLIENT, Fixture, SERVER, START_NS, cases};

const STATES: &[&str] = &[
    "CLOSE",
    "SYN_SENT",
    "SYN_RECV",
    "ESTABLISHED",
    "LISTEN",
    "FIN_WAIT2",
    "TIME_WAIT",
    "?",
];
const KINDS: &[&str] = &[
    "state",
    "retransmit",
    "synack-retransmit",
    "reset-sent",
    "reset-received",
    "drop",
    "new",
];
const REASONS: &[&str] = &[
    "NO_SOCKET",
    "TCP_LISTEN_OVERFLOW",
    "NETFILTER_DROP",
    "QDISC_DROP",
    "\u{1b}[2J",
];
const RESENT: &[&str] = &["fast", "rack", "tlp", "rto", "?"];
const COUNTERS: &[&str] = &[
    "ListenOverflows",
    "ListenDrops",
    "TCPReqQFullDrop",
    "TCPReqQFullDoCookies",
    "SyncookiesRecv",
];
const SETTINGS: &[&str] = &[
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_max_syn_backlog",
    "net.core.somaxconn",
];

fn text(of: &'static [&'static str]) -> impl Strategy<Value = Text> {
    prop::sample::select(of).prop_map(Text::from)
}

fn state() -> impl Strategy<Value = TcpState> {
    text(STATES).prop_map(TcpState::from)
}

/// Mostly a number from a few, so that rows meet; sometimes any.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..6, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn small() -> impl Strategy<Value = u32> {
    value().prop_map(|v| v as u32)
}

fn netns() -> impl Strategy<Value = u32> {
    prop::sample::select(&[SERVER, CLIENT, 0][..])
}

fn place() -> impl Strategy<Value = (Addr, u16)> {
    let addrs = [
        "10.79.0.1",
        "10.79.0.2",
        "127.0.0.1",
        "0.0.0.0",
        "::",
        "::1",
    ];
    let addr = prop::sample::select(addrs.map(String::from).to_vec());
    (addr, prop::sample::select(&[0u16, 80, 5000][..])).prop_map(|(addr, port)| {
        let ip: std::net::IpAddr = addr.parse().expect("an address");
        (ip.into(), port)
    })
}

prop_compose! {
    fn event()(
        time_ns in prop_oneof![any::<u64>(), START_NS..START_NS + 10_000_000_000],
        kind in text(KINDS).prop_map(EventKind::from),
        netns in netns(),
        sock in prop::option::of(0u64..6),
        (local_addr, local_port) in place(),
        (remote_addr, remote_port) in place(),
        (state, old_state) in (prop::option::of(state()), prop::option::of(state())),
        reason in prop::option::of(text(REASONS)),
        flags in prop::option::of(prop::sample::select(&[2u8, 16, 18, 20, 255][..])),
        (cookie, sack, scale) in (any::<Option<bool>>(), any::<Option<bool>>(), any::<Option<bool>>()),
        (rtt, cwnd, bytes) in (prop::option::of(small()), prop::option::of(small()), any::<Option<u64>>()),
        (resent, seq) in (prop::option::of(text(RESENT).prop_map(RetransmitKind::from)), prop::option::of(small())),
        (pid, family) in (prop::option::of(small()), any::<u8>()),
    ) -> Event {
        Event {
            time_ns, kind, netns, sock, local_addr, local_port, remote_addr, remote_port,
            state, old_state, reason, flags, cookie, sack, window_scaling: scale,
            timestamps: scale.map(|s| !s), rtt_us: rtt, cwnd, retransmits: cwnd,
            retransmit_kind: resent, seq,
            attempt: rtt, bytes_acked: bytes, bytes_received: bytes, backlog: rtt,
            pid, comm: pid.map(|_| Text::from("\u{202e}x")), family,
            ..Event::default()
        }
    }
}

prop_compose! {
    fn socket()(
        time_ns in any::<u64>(),
        netns in netns(),
        sock in 0u64..6,
        state in state(),
        (local_addr, local_port) in place(),
        (remote_addr, remote_port) in place(),
        options in any::<Option<bool>>(),
        (small, big) in (small(), any::<u64>()),
        (sent, queued, mss) in (small(), small(), small()),
    ) -> Socket {
        Socket {
            time_ns, netns, sock, state, local_addr, local_port, remote_addr, remote_port,
            congestion: options.map(|_| Text::from("cubic")),
            sack: options, window_scaling: options, timestamps: options,
            rtt_us: Some(small), cwnd: Some(small), snd_wnd: Some(small),
            bytes_acked: Some(big), bytes_received: Some(big / 2), busy_us: Some(big / 3),
            rwnd_limited_us: Some(big), min_rtt_us: Some(queued), rttvar_us: Some(sent),
            snd_mss: Some(mss), rcv_mss: Some(mss), unacked: Some(queued),
            notsent_bytes: Some(small), recv_queue: Some(queued), rcv_wnd: Some(small),
            rto_count: Some(queued as u8), backoff: Some(sent as u8), rto_us: Some(big as u32),
            send_queue: Some(sent), pmtu: Some(mss), delivered: Some(queued), sacked: Some(small),
            data_segs_out: Some(sent), dsack_dups: Some(mss), reord_seen: Some(small),
            ..Socket::default()
        }
    }
}

prop_compose! {
    fn listener()(
        (time_ns, netns, sock) in (any::<u64>(), netns(), 0u64..4),
        (local_addr, local_port) in place(),
        (accept_queue, backlog, syn_queue) in (small(), small(), small()),
        (drops, young, warned) in (small(), small(), any::<bool>()),
    ) -> Listener {
        Listener {
            time_ns, netns, sock, inode: Some(sock), local_addr, local_port, accept_queue,
            backlog, syn_queue, syn_queue_young: young, drops: drops.saturating_mul(20),
            synflood_warned: warned,
            ..Listener::default()
        }
    }
}

prop_compose! {
    fn counter()(
        time_ns in any::<u64>(),
        netns in netns(),
        name in text(COUNTERS),
        value in prop_oneof![0i64..500, any::<i64>()],
        delta in prop::option::of(prop_oneof![0i64..500, any::<i64>()]),
    ) -> Counter {
        Counter { time_ns, netns, group: "TcpExt".into(), name, value, delta }
    }
}

prop_compose! {
    fn setting()(
        netns in netns(),
        name in text(SETTINGS),
        value in prop_oneof![Just("0".to_string()), Just("1".to_string()), ".*"],
    ) -> Setting {
        Setting { time_ns: 0, netns, name, value: value.into() }
    }
}

prop_compose! {
    fn process()(time_ns in any::<u64>(), pid in small(), state in ".", user_ms in any::<u64>()) -> Process {
        Process { time_ns, pid, state: state.into(), user_ms, system_ms: user_ms, ..Process::default() }
    }
}

/// No finding may have been withheld: what a cause says must hold for any rows.
fn withheld(e: &Explanation) -> Vec<&str> {
    let says = e.summary.health.iter().map(|n| &*n.says);
    says.filter(|s| s.contains("internal error")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_rows_have_an_explanation(
        events in prop::collection::vec(event(), 0..120),
        sockets in prop::collection::vec(socket(), 0..40),
        listeners in prop::collection::vec(listener(), 0..20),
        counters in prop::collection::vec(counter(), 0..30),
        settings in prop::collection::vec(setting(), 0..10),
        processes in prop::collection::vec(process(), 0..10),
        (start_ns, end_ns, offset) in (any::<u64>(), any::<u64>(), any::<i64>()),
    ) {
        let mut f = Fixture::new();
        f.events = events;
        f.sockets = sockets;
        f.listeners = listeners;
        f.counters.extend(counters);
        f.settings.extend(settings);
        f.processes = processes;
        f.manifest.start_ns = start_ns;
        f.manifest.end_ns = end_ns;
        f.manifest.clock_offset_ns = offset;
        let e = explain(&f.write().unwrap()).expect("its form is sound");
        prop_assert_eq!(withheld(&e), Vec::<&str>::new());
        prop_assert!(serde_json::to_string(&e).is_ok());
    }

    #[test]
    fn a_real_fault_among_noise_is_still_named(
        noise in prop::collection::vec(event(), 0..60),
        samples in prop::collection::vec(socket(), 0..30),
        which in 0usize..5,
    ) {
        let (mut f, planted) = match which {
            0 => (cases::syn_cookies(), "syn-cookie-options-lost"),
            1 => (cases::accept_queue(), "accept-queue-overflow"),
            2 => (cases::syn_queue(), "syn-queue-overflow"),
            3 => (cases::stripped(), "middlebox-strips-options"),
            _ => (cases::refused(), "connection-refused"),
        };
        f.events.extend(noise);
        f.sockets.extend(samples);
        let e = explain(&f.write().unwrap()).expect("its form is sound");
        prop_assert!(e.findings.iter().any(|f| f.cause == planted));
        prop_assert_eq!(withheld(&e), Vec::<&str>::new());
    }
}

#[test]
fn a_damaged_segment_is_an_error_that_names_the_file() {
    let written = cases::refused().write().expect("writes");
    let segment = written.recording.dir().join("event/000001.parquet");
    let bytes = std::fs::read(&segment).expect("it is there");
    std::fs::write(&segment, &bytes[..bytes.len() / 2]).expect("it can be cut");
    let says = explain(&written.recording)
        .expect_err("it is damaged")
        .to_string();
    assert!(
        says.contains("event/000001.parquet") && says.lines().count() == 1,
        "{says}"
    );
}

#[test]
fn an_empty_recording_has_no_finding() {
    let mut f = Fixture::new();
    f.settings.clear();
    f.counters.clear();
    let e = explain(&f.write().unwrap()).expect("it is sound");
    assert_eq!((e.findings.len(), e.summary.events), (0, 0));
}
