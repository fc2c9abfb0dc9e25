//! What every view of `trace` prints, word by word, of recordings made for it.

use recording::tables::*;
use recording::{CallKind, EventKind, Filter, RetransmitKind, TcpState, Transport, Waker};
use view::trace;

use crate::common::*;

fn listen(at_ms: u64) -> Event {
    Event {
        pid: Some(812),
        comm: Some("nginx".into()),
        cgroup: Some(6),
        backlog: Some(128),
        remote_addr: addr("0.0.0.0"),
        remote_port: 0,
        local_addr: addr("0.0.0.0"),
        local_port: 80,
        ..state(at_ms, 900, TcpState::Close, TcpState::Listen)
    }
}

/// One connection that loses its first SYN and retransmits a segment that had not left, one that is refused.
fn story() -> Vec<Event> {
    let retransmit = |at_ms, state: TcpState, kind: RetransmitKind, attempt| Event {
        state: Some(state),
        retransmit_kind: Some(kind),
        attempt: Some(attempt),
        seq: Some(4_000_000_000),
        cwnd: Some(1),
        rtt_us: Some(0),
        retransmits: Some(attempt),
        send_error: Some("0".into()),
        ..event(at_ms, EventKind::Retransmit, 1)
    };
    let synack = served(Event {
        state: Some(TcpState::NewSynRecv),
        attempt: Some(1),
        ..event(900, EventKind::SynAckRetransmit, 2)
    });
    let mut opened = established(state(1_010, 1, TcpState::SynSent, TcpState::Established));
    opened.retransmits = Some(1);
    let mut accepted = served(established(state(
        1_009,
        3,
        TcpState::SynRecv,
        TcpState::Established,
    )));
    accepted.cookie = Some(true);
    let reset = Event {
        state: Some(TcpState::SynSent),
        remote_port: 81,
        ..event(2_001, EventKind::ResetReceived, 4)
    };
    let sent = Event {
        sock: None,
        state: None,
        reason: Some("NO_SOCKET".into()),
        flags: Some(2),
        seq: Some(9),
        local_addr: addr("10.0.0.2"),
        local_port: 81,
        remote_addr: addr("10.0.0.1"),
        remote_port: 40_001,
        ..event(2_000, EventKind::ResetSent, 0)
    };
    let drop = Event {
        kind: EventKind::Drop,
        location: Some("tcp_v4_rcv".into()),
        ..sent.clone()
    };
    let refused = |e: Event| Event {
        remote_port: 81,
        ..e
    };
    vec![
        listen(0),
        connect(0, 1),
        synack,
        retransmit(1_000, TcpState::SynSent, RetransmitKind::Rto, 1),
        accepted,
        opened,
        Event {
            send_error: Some("EBUSY".into()),
            ..retransmit(1_300, TcpState::Established, RetransmitKind::Tlp, 1)
        },
        refused(connect(1_999, 4)),
        drop,
        sent,
        reset,
        refused(state(2_001, 4, TcpState::SynSent, TcpState::Close)),
        connect(2_100, 5),
        Event {
            local_port: 0,
            ..state(2_102, 5, TcpState::SynSent, TcpState::Close)
        },
        state(3_000, 1, TcpState::Established, TcpState::FinWait1),
        state(3_001, 1, TcpState::FinWait1, TcpState::FinWait2),
        state(3_002, 1, TcpState::FinWait2, TcpState::Close),
        served(state(3_002, 3, TcpState::LastAck, TcpState::Close)),
    ]
}

macro_rules! golden {
    ($($name:ident, $what:expr;)+) => {$(
        #[test]
        fn $name() {
            let rec = Rec::new().rows(story());
            insta::assert_snapshot!(rec.both(|| trace::view($what)));
        }
    )+};
}
golden! {
    retransmits, trace::What::Retransmits;
    resets, trace::What::Resets;
    handshakes, trace::What::Handshakes;
    drops, trace::What::Drops;
    states, trace::What::States;
    timeline, trace::What::Timeline;
    connects_by_events, trace::What::Connects;
    accepts_by_events, trace::What::Accepts(false);
}

#[test]
fn filters_ask_for_the_owner_not_for_the_row() {
    let rec = Rec::new().rows(story());
    let lines = |what: trace::What, filter: Filter| {
        let text = rec.show(trace::view(what), |how| how.filter = filter);
        text.lines().count().saturating_sub(1)
    };
    let pid = |pid| Filter {
        pids: vec![pid],
        ..Filter::default()
    };
    assert_eq!(lines(trace::What::Retransmits, pid(77)), 2);
    assert_eq!(lines(trace::What::Retransmits, pid(812)), 1, "the SYN-ACK");
    assert_eq!(lines(trace::What::Retransmits, pid(1)), 0);
    let comm = Filter {
        comms: vec!["nginx".into()],
        cgroups: vec![6],
        ..Filter::default()
    };
    assert_eq!(lines(trace::What::Handshakes, comm), 1);
    let port = Filter {
        ports: vec![81],
        ..Filter::default()
    };
    assert_eq!(lines(trace::What::Resets, port.clone()), 2);
    assert_eq!(lines(trace::What::Retransmits, port), 0);
    let addr = Filter {
        addrs: vec!["10.0.0.0/30".parse().unwrap()],
        netns: vec![HOST],
        ..Filter::default()
    };
    assert_eq!(lines(trace::What::Retransmits, addr), 3);
    let elsewhere = Filter {
        netns: vec![1],
        ..Filter::default()
    };
    assert_eq!(lines(trace::What::States, elsewhere), 0);
}

fn call(at_us: u64, call: CallKind, sock: u64) -> Call {
    Call {
        time_ns: START + at_us * 1_000,
        pid: 77,
        tid: 77,
        comm: "curl".into(),
        netns: HOST,
        call,
        duration_ns: 250_000,
        sock: Some(sock),
        family: 4,
        local_addr: addr("10.0.0.1"),
        local_port: 40_000,
        remote_addr: addr("10.0.0.2"),
        remote_port: 80,
        ..Call::default()
    }
}

#[test]
fn connects_with_their_calls() {
    let ok = Call {
        port_search_ns: Some(219_000),
        result: Some(0),
        ..call(1_010_050, CallKind::Connect, 1)
    };
    let refused = Call {
        error: Some("ECONNREFUSED".into()),
        remote_port: 81,
        ..call(2_001_040, CallKind::Connect, 4)
    };
    let no_port = Call {
        error: Some("EADDRNOTAVAIL".into()),
        ..call(2_102_100, CallKind::Connect, 5)
    };
    let no_route = Call {
        error: Some("ENETUNREACH".into()),
        local_port: 0,
        remote_addr: addr("10.66.0.1"),
        // An id that was another socket's a moment ago.
        ..call(2_500_000, CallKind::Connect, 5)
    };
    let rec = Rec::new().rows(story());
    let rec = rec.rows([ok, refused, no_port, no_route]);
    insta::assert_snapshot!(rec.both(|| trace::view(trace::What::Connects)));
}

#[test]
fn accepts_with_their_calls() {
    // The socket of the call is the listener's.
    let accept = |at_us| Call {
        pid: 813,
        comm: "nginx".into(),
        local_addr: addr("10.0.0.2"),
        local_port: 80,
        remote_addr: addr("10.0.0.1"),
        remote_port: 40_000,
        ..call(at_us, CallKind::Accept, 900)
    };
    let failed = |at_us, error: &str| Call {
        error: Some(error.into()),
        remote_addr: addr("0.0.0.0"),
        remote_port: 0,
        ..accept(at_us)
    };
    let accepted = accept(1_500_000);
    let again = failed(1_600_000, "EAGAIN");
    let no_files = failed(1_700_000, "EMFILE");
    let rec = Rec::new().rows(story());
    let rec = rec.rows([accepted, again, no_files]);
    insta::assert_snapshot!(rec.both(|| trace::view(trace::What::Accepts(true))));
    let waits = rec.both(|| trace::view(trace::What::AcceptWaits));
    insta::assert_snapshot!("waits_for_accept", waits);
}

#[test]
fn timewait_accepted_and_refused() {
    let tuple = |e: Event, port| Event {
        remote_port: port,
        ..served(e)
    };
    let syn = |at_ms, port, reason: &str| Event {
        state: Some(TcpState::TimeWait),
        reason: Some(reason.into()),
        location: Some("tcp_v4_rcv".into()),
        flags: Some(2),
        seq: Some(123),
        ..tuple(event(at_ms, EventKind::Drop, 50), port)
    };
    let closes = |at_ms, port| tuple(state(at_ms, 60, TcpState::FinWait2, TcpState::Close), port);
    let again = |at_ms, port| {
        tuple(
            established(state(at_ms, 61, TcpState::SynRecv, TcpState::Established)),
            port,
        )
    };
    let fin = Event {
        flags: Some(17),
        ..syn(1_450, 40_002, "NOT_SPECIFIED")
    };
    let events = vec![
        listen(0),
        closes(1_000, 40_000),
        closes(1_001, 40_001),
        closes(1_002, 40_002),
        closes(1_003, 40_003),
        // The socket made way.
        again(1_400, 40_000),
        // Refused; what comes after the reset that followed met nothing.
        syn(1_401, 40_001, "NOT_SPECIFIED"),
        again(1_411, 40_001),
        syn(1_402, 40_002, "TCP_RFC7323_TW_PAWS"),
        fin,
        // Older than a minute: no TIME_WAIT socket is left.
        again(62_000, 40_003),
        // Not closed by this side: no TIME_WAIT socket was here.
        again(62_001, 40_004),
        // In TIME_WAIT when the recording began, says a sample.
        again(1_500, 40_005),
    ];
    let sample = Socket {
        time_ns: START,
        netns: HOST,
        sock: 70,
        state: TcpState::TimeWait,
        local_addr: addr("10.0.0.2"),
        local_port: 80,
        remote_addr: addr("10.0.0.1"),
        remote_port: 40_005,
        ..Socket::default()
    };
    let rec = Rec::new().rows(events).rows([sample]);
    insta::assert_snapshot!(rec.both(|| trace::view(trace::What::TimeWait)));
}

#[test]
fn wakeups_with_the_stack_and_the_segment() {
    let wait = |at_ms, waited_ns| Wait {
        time_ns: START + at_ms * MS,
        pid: 21_912,
        tid: 21_913,
        comm: HOSTILE.into(),
        netns: HOST,
        state: "S".into(),
        syscall: Some("epoll_wait".into()),
        fd: Some(4),
        waited_ns,
        runqueue_ns: Some(12_345),
        waker: Waker::Softirq,
        waker_tid: 12,
        waker_comm: "ksoftirqd/0".into(),
        waker_stack: Some(3),
        ..Wait::default()
    };
    let by_segment = Wait {
        cause_sock: Some(1),
        cause_family: 4,
        cause_local_addr: addr("127.0.0.1"),
        cause_local_port: 7000,
        cause_remote_addr: addr("127.0.0.1"),
        cause_remote_port: 4000,
        cause_attempt: Some(1),
        cause_sender_state: Some(TcpState::SynSent),
        cause_sent_ago_ns: Some(164_321),
        cause_retransmit_kind: Some(RetransmitKind::Rto),
        slept_stack: Some(6),
        ..wait(1_000, 1_003_456_789)
    };
    let by_timer = Wait {
        waker: Waker::Timer,
        waker_stack: Some(5),
        slept_stack: Some(6),
        ..wait(900, 20 * MS)
    };
    // The server's answer wakes the client.
    let by_answer = Wait {
        cause_local_port: 4000,
        cause_remote_port: 7000,
        cause_answer: Some(true),
        time_ns: START + 1_050 * MS,
        waker_stack: None,
        ..by_segment.clone()
    };
    let by_task = Wait {
        waker: Waker::Task,
        waker_comm: "redis".into(),
        waker_stack: Some(4),
        ..wait(1_100, 11 * MS)
    };
    let plain = Wait {
        cause_attempt: Some(0),
        cause_sender_state: None,
        cause_sent_ago_ns: None,
        time_ns: START + 1_200 * MS,
        waker_stack: None,
        ..by_segment.clone()
    };
    let frames = [
        "ep_poll_callback",
        "sock_def_readable",
        "tcp_v4_rcv",
        "hrtimer_wakeup",
        "__schedule",
        "ep_poll",
    ];
    let frame = |(i, name): (usize, &&str)| Frame {
        time_ns: START + 9 * S,
        frame: i as u64,
        function: (**name).into(),
        module: "kernel".into(),
        offset: 0x10 * i as u64,
    };
    let rec = Rec::new()
        .rows([
            by_timer,
            by_segment,
            by_answer,
            by_task,
            plain,
            wait(1_300, 9 * MS),
        ])
        .rows(frames.iter().enumerate().map(frame))
        .rows((0..3).rev().map(|depth| Stack {
            // Told late: a stack is known before the first wait that refers to it is shown.
            time_ns: START + 9 * S,
            stack: 3,
            depth,
            frame: depth.into(),
        }))
        .rows(
            [(5, 0, 3), (6, 0, 4), (6, 1, 5)].map(|(stack, depth, frame)| Stack {
                time_ns: START + 9 * S,
                stack,
                depth,
                frame,
            }),
        );
    insta::assert_snapshot!(rec.both(|| trace::view(trace::What::Wakeups(10 * MS))));
}

#[test]
fn an_empty_recording_shows_nothing() {
    let connects = trace::view(trace::What::Connects);
    assert_eq!(Rec::new().show(connects, |_| {}), "");
}

#[test]
fn a_time_line_shows_packets_with_what_they_offer_and_the_calls() {
    let syn = Packet {
        time_ns: START + 5,
        netns: HOST,
        ifindex: 1,
        outgoing: true,
        family: 4,
        src_addr: addr("10.0.0.1"),
        src_port: 40_000,
        dst_addr: addr("10.0.0.2"),
        dst_port: 80,
        flags: 2,
        seq: 7,
        mss: Some(1_460),
        window_scale: Some(7),
        sack_permitted: true,
        tsval: Some(1),
        ..Packet::default()
    };
    let stripped = Packet {
        time_ns: START + 6,
        outgoing: false,
        window_scale: None,
        sack_permitted: false,
        ..syn.clone()
    };
    let call = Call {
        time_ns: START + 7,
        pid: 77,
        tid: 77,
        comm: "wrk".into(),
        netns: HOST,
        call: CallKind::Connect,
        duration_ns: 1_030_000_000,
        error: Some("ETIMEDOUT".into()),
        sock: Some(1),
        local_addr: addr("10.0.0.1"),
        local_port: 40_000,
        remote_addr: addr("10.0.0.2"),
        remote_port: 80,
        ..Call::default()
    };
    let rec = Rec::new().rows([syn, stripped]).rows([call]);
    let text = rec.show(trace::view(trace::What::Timeline), |_| {});
    for says in [
        "-> 10.0.0.2:80           SYN seq 7 offers mss:1460 ts sack wscale:7",
        "<- 10.0.0.1:40000        SYN seq 7 offers mss:1460 ts",
        "wrk             10.0.0.1:40000           10.0.0.2:80           connect() returned ETIMEDOUT after 1.03 s",
    ] {
        assert!(text.contains(says), "{says:?} in {text}");
    }
    let asked = Filter {
        pids: vec![1],
        ..Filter::default()
    };
    let text = rec.show(trace::view(trace::What::Timeline), |how| how.filter = asked);
    assert_eq!(text.lines().count(), 0, "{text}");
}

fn late(at_ms: u64, gap: Gap) -> Gap {
    Gap {
        time_ns: START + at_ms * MS,
        netns: HOST,
        family: 4,
        local_addr: addr("10.0.0.1"),
        local_port: 5405,
        remote_addr: addr("10.0.0.2"),
        remote_port: 5405,
        cpu: 23,
        every_ns: 1_000 * MS,
        deviation_ns: 2 * MS,
        gap_ns: 4_400 * MS,
        pid: Some(812),
        comm: Some("corosync".into()),
        cgroup: Some(6),
        ..gap
    }
}

/// One in softirq for most of the time, one idle, one that was not read; the last has not come.
#[test]
fn gaps_have_what_their_cpu_did() {
    let gaps = [
        late(
            7_000,
            Gap {
                protocol: Transport::Udp,
                ..Gap::default()
            },
        ),
        Gap {
            cpu: 2,
            protocol: Transport::Tcp,
            ..late(7_500, Gap::default())
        },
        Gap {
            cpu: 3,
            pid: None,
            comm: None,
            protocol: Transport::Udp,
            pending: true,
            ..late(9_000, Gap::default())
        },
    ];
    let cpus = (0..=9u64).flat_map(|second| {
        [(2, 0), (23, 980 * second)].map(|(cpu, softirq_ms)| Cpu {
            time_ns: START + second * S,
            cpu,
            softirq_ms,
            idle_ms: second * 1_000 - softirq_ms,
            ..Cpu::default()
        })
    });
    let regular = Heartbeat {
        time_ns: START + 9 * S,
        regular: 14,
    };
    let rec = Rec::new().rows(gaps).rows(cpus).rows([regular]);
    insta::assert_snapshot!(rec.both(|| trace::view(trace::What::Gaps)));
    let asked = Filter {
        ports: vec![1],
        ..Filter::default()
    };
    let text = rec.show(trace::view(trace::What::Gaps), |how| how.filter = asked);
    assert_eq!(text, "no gap in 14 regular flows\n");
    let json = rec.show(trace::view(trace::What::Gaps), |how| how.json = true);
    assert!(
        json.lines().last().unwrap().contains("\"heartbeats\""),
        "{json}"
    );
}
