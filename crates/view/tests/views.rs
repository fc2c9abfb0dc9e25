//! What every view of `trace` and `stat` prints, word by word, of recordings made for it.

use std::net::IpAddr;

use recording::tables::*;
use recording::{Addr, FORMAT, Filter, Manifest, Namespace, Recording, Rows, Table, Writer};
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr;
use view::{How, Reader, Screen, stat, trace};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const START: u64 = 5_000 * S;
const HOST: u32 = 4_026_531_840;
/// A name that would clear the screen and write backwards.
const HOSTILE: &str = "e\x1b[2Jvil\u{202e}\n";

/// A recording being made.
struct Rec {
    dir: TempDir,
    writer: Writer,
}

impl Rec {
    fn new() -> Rec {
        let dir = tempfile::tempdir().unwrap();
        let namespace = |inode, name: &str| Namespace {
            inode,
            name: name.into(),
        };
        let manifest = Manifest {
            format: FORMAT,
            complete: true,
            start_ns: START,
            end_ns: START + 10 * S,
            clock_offset_ns: 1_700_000_000 * S as i64,
            namespaces: vec![namespace(HOST, "host"), namespace(7, HOSTILE)],
            ..Manifest::default()
        };
        let writer = Writer::create(&dir.path().join("r.tcpwhy"), &manifest).unwrap();
        Rec { dir, writer }
    }

    fn rows<T: Table>(self, rows: impl IntoIterator<Item = T>) -> Rec {
        let mut table = self.writer.table::<T>().unwrap();
        for row in rows {
            table.push(row).unwrap();
        }
        table.seal().unwrap();
        self
    }

    fn show(&self, view: Box<dyn view::View>, change: impl FnOnce(&mut How)) -> String {
        self.limited(view, None, change)
    }

    fn limited(
        &self,
        mut view: Box<dyn view::View>,
        most: Option<u64>,
        change: impl FnOnce(&mut How),
    ) -> String {
        let recording = Recording::open(&self.dir.path().join("r.tcpwhy")).unwrap();
        let mut how = How::of(&recording.manifest);
        change(&mut how);
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, &how).at_most(most);
        let mut reader = Reader::new(&mut *view);
        let mut rows = Rows::of(&recording, &reader.tables()).unwrap();
        reader.show(&mut rows, u64::MAX, &mut screen).unwrap();
        reader.end(&mut screen).unwrap();
        let text = String::from_utf8(out).unwrap();
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(how.json || !text.contains(acts), "{text:?}");
        for line in text.lines().filter(|_| how.json) {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(
                value["type"].is_string() && value["unix_ns"].is_i64() || value["type"] == "rank"
            );
        }
        if let Some(width) = how.width {
            assert!(text.lines().all(|l| l.width() <= width), "{text}");
        }
        text
    }

    /// The text, and the first two lines of JSON.
    fn both(&self, view: impl Fn() -> Box<dyn view::View>) -> String {
        let text = self.show(view(), |_| {});
        self.show(view(), |how| how.width = Some(60));
        let json = self.show(view(), |how| how.json = true);
        let json: String = json.lines().take(2).map(|l| format!("{l}\n")).collect();
        format!("{text}\n{json}")
    }
}

fn addr(text: &str) -> Addr {
    text.parse::<IpAddr>().unwrap().into()
}

fn event(at_ms: u64, kind: &str, sock: u64) -> Event {
    Event {
        time_ns: START + at_ms * MS,
        kind: kind.into(),
        netns: HOST,
        sock: Some(sock),
        family: 4,
        local_addr: addr("10.0.0.1"),
        local_port: 40_000,
        remote_addr: addr("10.0.0.2"),
        remote_port: 80,
        ..Event::default()
    }
}

fn state(at_ms: u64, sock: u64, old: &str, new: &str) -> Event {
    Event {
        old_state: Some(old.into()),
        state: Some(new.into()),
        ..event(at_ms, "state", sock)
    }
}

fn connect(at_ms: u64, sock: u64) -> Event {
    Event {
        pid: Some(77),
        comm: Some(HOSTILE.into()),
        cgroup: Some(5),
        local_port: 0,
        ..state(at_ms, sock, "CLOSE", "SYN_SENT")
    }
}

fn established(e: Event) -> Event {
    Event {
        sack: Some(true),
        window_scaling: Some(true),
        timestamps: Some(false),
        mss: Some(1460),
        rtt_us: Some(90),
        cwnd: Some(10),
        retransmits: Some(0),
        ..e
    }
}

/// The server's side: its ends are the other way round.
fn served(e: Event) -> Event {
    Event {
        local_addr: e.remote_addr,
        local_port: 80,
        remote_addr: e.local_addr,
        remote_port: 40_000,
        ..e
    }
}

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
        ..state(at_ms, 900, "CLOSE", "LISTEN")
    }
}

/// One connection that loses its first SYN and a segment, one that is refused.
fn story() -> Vec<Event> {
    let retransmit = |at_ms, state: &str, kind: &str, attempt| Event {
        state: Some(state.into()),
        retransmit_kind: Some(kind.into()),
        attempt: Some(attempt),
        seq: Some(4_000_000_000),
        cwnd: Some(1),
        rtt_us: Some(0),
        retransmits: Some(attempt),
        ..event(at_ms, "retransmit", 1)
    };
    let synack = served(Event {
        state: Some("NEW_SYN_RECV".into()),
        attempt: Some(1),
        ..event(900, "synack-retransmit", 2)
    });
    let mut opened = established(state(1_010, 1, "SYN_SENT", "ESTABLISHED"));
    opened.retransmits = Some(1);
    let mut accepted = served(established(state(1_009, 3, "SYN_RECV", "ESTABLISHED")));
    accepted.cookie = Some(true);
    let reset = Event {
        state: Some("SYN_SENT".into()),
        remote_port: 81,
        ..event(2_001, "reset-received", 4)
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
        ..event(2_000, "reset-sent", 0)
    };
    let drop = Event {
        kind: "drop".into(),
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
        retransmit(1_000, "SYN_SENT", "rto", 1),
        accepted,
        opened,
        retransmit(1_300, "ESTABLISHED", "tlp", 1),
        refused(connect(1_999, 4)),
        drop,
        sent,
        reset,
        refused(state(2_001, 4, "SYN_SENT", "CLOSE")),
        connect(2_100, 5),
        Event {
            local_port: 0,
            ..state(2_102, 5, "SYN_SENT", "CLOSE")
        },
        state(3_000, 1, "ESTABLISHED", "FIN_WAIT1"),
        state(3_001, 1, "FIN_WAIT1", "FIN_WAIT2"),
        state(3_002, 1, "FIN_WAIT2", "CLOSE"),
        served(state(3_002, 3, "LAST_ACK", "CLOSE")),
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

fn call(at_us: u64, call: &str, sock: u64) -> Call {
    Call {
        time_ns: START + at_us * 1_000,
        pid: 77,
        tid: 77,
        comm: "curl".into(),
        netns: HOST,
        call: call.into(),
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
        ..call(1_010_050, "connect", 1)
    };
    let refused = Call {
        error: Some("ECONNREFUSED".into()),
        remote_port: 81,
        ..call(2_001_040, "connect", 4)
    };
    let no_port = Call {
        error: Some("EADDRNOTAVAIL".into()),
        ..call(2_102_100, "connect", 5)
    };
    let no_route = Call {
        error: Some("ENETUNREACH".into()),
        local_port: 0,
        remote_addr: addr("10.66.0.1"),
        // An id that was another socket's a moment ago.
        ..call(2_500_000, "connect", 5)
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
        ..call(at_us, "accept", 900)
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
}

#[test]
fn timewait_accepted_and_refused() {
    let tuple = |e: Event, port| Event {
        remote_port: port,
        ..served(e)
    };
    let syn = |at_ms, port, reason: &str| Event {
        state: Some("TIME_WAIT".into()),
        reason: Some(reason.into()),
        location: Some("tcp_v4_rcv".into()),
        flags: Some(2),
        seq: Some(123),
        ..tuple(event(at_ms, "drop", 50), port)
    };
    let closes = |at_ms, port| tuple(state(at_ms, 60, "FIN_WAIT2", "CLOSE"), port);
    let again = |at_ms, port| {
        tuple(
            established(state(at_ms, 61, "SYN_RECV", "ESTABLISHED")),
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
        state: "TIME_WAIT".into(),
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
        waker: "softirq".into(),
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
        cause_sender_state: Some("SYN_SENT".into()),
        cause_sent_ago_ns: Some(164_321),
        ..wait(1_000, 1_003_456_789)
    };
    let by_task = Wait {
        waker: "task".into(),
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
    let frames = ["ep_poll_callback", "sock_def_readable", "tcp_v4_rcv"];
    let frame = |(i, name): (usize, &&str)| Frame {
        time_ns: START + 9 * S,
        frame: i as u64,
        function: (**name).into(),
        module: "kernel".into(),
        offset: 0x10 * i as u64,
    };
    let rec = Rec::new()
        .rows([by_segment, by_task, plain, wait(1_300, 9 * MS)])
        .rows(frames.iter().enumerate().map(frame))
        .rows((0..3).rev().map(|depth| Stack {
            // Told late: a stack is known before the first wait that refers to it is shown.
            time_ns: START + 9 * S,
            stack: 3,
            depth,
            frame: depth.into(),
        }));
    insta::assert_snapshot!(rec.both(|| trace::view(trace::What::Wakeups(10 * MS))));
}

fn counter(at_s: u64, netns: u32, name: &str, value: i64, delta: Option<i64>) -> Counter {
    let (group, name) = name.split_once('.').unwrap();
    let late = if group == "TcpExt" { 80_000 } else { 0 };
    Counter {
        time_ns: START + at_s * S + u64::from(netns != HOST) * 3 * MS + late,
        netns,
        group: group.into(),
        name: name.into(),
        value,
        delta,
    }
}

/// Two namespaces over eight seconds; in the other one resets follow retransmissions.
fn counters() -> Vec<Counter> {
    let mut rows = Vec::new();
    let moves = [0, 5, 1, 7, 0, 2, 6, 0];
    let (mut retrans, mut resets) = (100, 40);
    for s in 0..8 {
        let first = s == 0;
        let delta = |d: i64| (!first).then_some(d);
        let moved = moves[s as usize];
        rows.push(counter(s, HOST, "Tcp.InSegs", 728_004, delta(0)));
        rows.push(counter(s, 7, "Tcp.InSegs", 9, delta(0)));
        retrans += moved;
        resets += moved * 2;
        if first || moved != 0 {
            rows.push(counter(s, 7, "Tcp.OutRsts", resets, delta(moved * 2)));
            rows.push(counter(s, 7, "TcpExt.TCPSynRetrans", retrans, delta(moved)));
        }
    }
    rows.push(counter(3, HOST, "TcpExt.NotToldBefore", 3, Some(3)));
    rows.push(counter(0, HOST, "Tcp.CurrEstab", 4, None));
    rows.push(counter(3, HOST, "Tcp.CurrEstab", 2, Some(-2)));
    rows
}

#[test]
fn counters_move_and_are_never_told_since_boot() {
    let rec = Rec::new().rows(counters());
    let what = stat::What::Counters { all: false };
    let text = rec.both(|| stat::view(what.clone(), 0));
    assert!(!text.contains("728004\n") && !text.contains("+728004"));
    insta::assert_snapshot!(text);
}

#[test]
fn counters_at_a_longer_interval_and_a_number_of_reports() {
    let rec = Rec::new().rows(counters());
    let view = || stat::view(stat::What::Counters { all: false }, 3 * S);
    insta::assert_snapshot!(rec.limited(view(), Some(1), |_| {}));
    let all = rec.show(view(), |_| {});
    let sum: i64 = all
        .lines()
        .filter(|l| l.contains("TCPSynRetrans"))
        .map(|l| l.split_whitespace().nth(4).unwrap().parse::<i64>().unwrap())
        .sum();
    assert_eq!(
        sum, 21,
        "no interval is left out but the last, unfinished one: {all}"
    );
}

#[test]
fn counters_ranked_by_how_they_move_with_one() {
    let rec = Rec::new().rows(counters());
    let rank = |name: &str| {
        let name = name.to_string();
        stat::view(stat::What::Rank { name, all: false }, 0)
    };
    insta::assert_snapshot!(rec.both(|| rank("TCPSynRetrans")));
    assert_eq!(
        rec.show(rank("TcpExt.TCPSynRetrans"), |_| {}),
        rec.show(rank("TCPSynRetrans"), |_| {})
    );
}

#[test]
fn ranking_needs_intervals_and_a_counter_that_moved() {
    let fails = |rows: Vec<Counter>, name: &str| {
        let rec = Rec::new().rows(rows);
        let recording = Recording::open(&rec.dir.path().join("r.tcpwhy")).unwrap();
        let how = How::of(&recording.manifest);
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, &how);
        let name = name.to_string();
        let mut view = stat::view(stat::What::Rank { name, all: false }, 0);
        let mut reader = Reader::new(&mut *view);
        let mut rows = Rows::of(&recording, &reader.tables()).unwrap();
        reader.show(&mut rows, u64::MAX, &mut screen).unwrap();
        match reader.end(&mut screen) {
            Err(view::Error::Output(e)) => e.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let few = counters().into_iter().filter(|c| c.time_ns < START + 3 * S);
    assert!(fails(few.collect(), "TCPSynRetrans").contains("at least 5 intervals"));
    assert!(fails(counters(), "NoSuch").contains("no counter \"NoSuch\" moved"));
}

#[test]
fn cpus_and_interrupts() {
    let cpu = |s: u64, cpu, user_ms: u64, idle_ms, packets| Cpu {
        time_ns: START + s * S,
        cpu,
        user_ms: 1_000_000 + user_ms,
        softirq_ms: s * 100,
        idle_ms,
        softnet_processed: Some(packets),
        softnet_dropped: (cpu == 0).then_some(3 * s),
        ..Cpu::default()
    };
    let irq = |s: u64, line: &str, count| Interrupt {
        time_ns: START + s * S + MS,
        cpu: 1,
        kind: if line == "NET_RX" { "softirq" } else { "irq" }.into(),
        line: line.into(),
        device: if line == "24" { HOSTILE } else { "" }.into(),
        count,
    };
    let rec = Rec::new()
        .rows([
            cpu(0, 0, 0, 5_000, 10),
            cpu(0, 1, 0, 5_000, 0),
            cpu(1, 0, 400, 5_500, 1_010),
            cpu(1, 1, 0, 5_900, 0),
            cpu(2, 0, 400, 6_400, 1_010),
            cpu(2, 1, 900, 5_900, 500),
        ])
        .rows([
            irq(0, "24", 1_000),
            irq(0, "NET_RX", 50),
            irq(1, "24", 4_584),
            irq(2, "LOC", 250),
            irq(2, "NET_RX", 51),
        ]);
    insta::assert_snapshot!(rec.both(|| stat::view(stat::What::Cpus, 0)));
    insta::assert_snapshot!(rec.both(|| stat::view(stat::What::Interrupts, 0)));
}

#[test]
fn threads_and_where_they_sleep() {
    let thread = |s: u64, tid, user_ms: u64, sleep_ms: u64| Thread {
        time_ns: START + s * S,
        interval_ns: S,
        pid: 63_037,
        tid,
        comm: if tid == 2 { HOSTILE } else { "node" }.into(),
        user_ns: user_ms * MS,
        system_ns: 36 * MS,
        runqueue_ns: (964 - user_ms - sleep_ms) * MS,
        sleep_ns: sleep_ms * MS,
        voluntary: 300,
        involuntary: 2,
        ..Thread::default()
    };
    let sleep = |s: u64, syscall: &str, ms: u64| ThreadSleep {
        time_ns: START + s * S,
        pid: 63_037,
        tid: 1,
        syscall: syscall.into(),
        sleep_ns: ms * MS,
        count: 100,
    };
    let rec = Rec::new()
        .rows([
            thread(1, 1, 150, 812),
            thread(1, 2, 0, 964),
            thread(2, 1, 950, 0),
        ])
        .rows([sleep(1, "epoll_wait", 800), sleep(1, "nanosleep", 12)]);
    let what = |sleeps| stat::What::Threads { all: false, sleeps };
    insta::assert_snapshot!(rec.both(|| stat::view(what(true), 0)));
    let plain = rec.show(stat::view(what(false), 0), |_| {});
    assert!(!plain.contains("epoll_wait"));
    let filter = Filter {
        comms: vec!["nobody".into()],
        ..Filter::default()
    };
    assert_eq!(
        rec.show(stat::view(what(true), 0), |h| h.filter = filter),
        ""
    );
}

fn socket(s: u64, sock: u64, local_port: u16) -> Socket {
    Socket {
        time_ns: START + s * S,
        netns: if sock == 2 { 7 } else { HOST },
        sock,
        inode: Some(sock + 10),
        family: 4,
        state: "ESTABLISHED".into(),
        local_addr: addr("10.0.0.1"),
        local_port,
        remote_addr: addr("10.0.0.2"),
        remote_port: 80,
        congestion: Some("cubic".into()),
        ca_state: Some("Loss".into()),
        sack: Some(true),
        window_scaling: Some(true),
        timestamps: Some(false),
        snd_wscale: Some(7),
        rcv_wscale: Some(10),
        rto_us: Some(204_000),
        ato_us: Some(40_000),
        rtt_us: Some(541),
        rttvar_us: Some(200),
        snd_mss: Some(1440),
        cwnd: Some(10),
        snd_ssthresh: Some(21),
        bytes_acked: Some(123_456),
        pacing_rate: Some(31_941_000),
        busy_us: Some(900_000),
        rwnd_limited_us: Some(729_000),
        retrans: Some(1),
        total_retrans: Some(3),
        recv_queue: Some(0),
        send_queue: Some(14_400),
        min_rtt_us: Some(80),
        ..Socket::default()
    }
}

#[test]
fn sockets_as_ss_shows_them() {
    let waits = Socket {
        time_ns: START,
        netns: HOST,
        sock: 3,
        state: "TIME_WAIT".into(),
        local_addr: addr("::1"),
        local_port: 80,
        remote_addr: addr("::1"),
        remote_port: 50_000,
        ..Socket::default()
    };
    let holder = |inode, pid, comm: &str| Holder {
        time_ns: START + MS,
        inode,
        pid,
        comm: comm.into(),
        fd: 3,
    };
    let rec = Rec::new()
        .rows([
            socket(0, 1, 40_000),
            socket(0, 2, 40_002),
            waits,
            socket(1, 1, 40_000),
        ])
        .rows([holder(11, 77, "curl"), holder(12, 78, HOSTILE)]);
    let view = || stat::view(stat::What::Sockets, 0);
    insta::assert_snapshot!(rec.both(view));
    let once = rec.limited(view(), Some(1), |_| {});
    assert_eq!(once.lines().filter(|l| l.contains("40000")).count(), 1);
    let filter = Filter {
        pids: vec![78],
        ..Filter::default()
    };
    let one = rec.show(view(), |how| how.filter = filter);
    assert_eq!(
        one.lines().filter(|l| l.starts_with("ESTABLISHED")).count(),
        1
    );
    let json = rec.show(view(), |how| how.json = true);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    for column in Socket::INFO.columns {
        assert!(first.get(column.name).is_some(), "{}", column.name);
    }
}

#[test]
fn listeners_with_their_queues() {
    let listener = |s: u64, accept_queue, drops| Listener {
        time_ns: START + s * S,
        netns: HOST,
        sock: 900,
        inode: Some(10),
        family: 4,
        local_addr: addr("0.0.0.0"),
        local_port: 80,
        accept_queue,
        backlog: 128,
        syn_queue: 3,
        syn_queue_young: 1,
        drops,
        synflood_warned: s > 0,
        ..Listener::default()
    };
    let accepted = |at_ms| served(established(state(at_ms, 3, "SYN_RECV", "ESTABLISHED")));
    let rec = Rec::new()
        .rows([
            listener(0, 0, 7),
            listener(1, 129, 107),
            listener(2, 5, 107),
        ])
        .rows((0..50).map(|i| accepted(100 + i)))
        .rows([Holder {
            time_ns: START,
            inode: 10,
            pid: 812,
            comm: HOSTILE.into(),
            fd: 6,
        }]);
    insta::assert_snapshot!(rec.both(|| stat::view(stat::What::Listeners { events: true }, 0)));
}

#[test]
fn ports_tables_and_the_checklist() {
    let ports = |to_port, used| PortUse {
        time_ns: START + u64::from(to_port) * 1_000,
        netns: 7,
        family: 4,
        local_addr: addr("10.0.0.1"),
        remote_addr: addr("10.0.0.2"),
        remote_port: to_port,
        ports_used: used,
        time_wait: used - 10,
        established: 10,
        range_low: 32_768,
        range_high: 60_999,
        reserved: 0,
    };
    let size = |netns, structure: &str, entries, buckets, limit| TableSize {
        time_ns: START + u64::from(netns == 0),
        netns,
        structure: structure.into(),
        entries,
        buckets,
        limit,
        longest_chain: None,
        bytes: Some(64 * entries),
    };
    let resource = |s: u64, name: &str, aspect: &str, metric: &str, value, limit| Resource {
        time_ns: START + s * S,
        netns: 0,
        resource: name.into(),
        instance: if name == "network" { "eth0" } else { "" }.into(),
        aspect: aspect.into(),
        metric: metric.into(),
        value,
        unit: if name == "memory" { "bytes" } else { "count" }.into(),
        cumulative: name == "network",
        limit,
    };
    let memory = |s, used| resource(s, "memory", "utilisation", "used", used, Some(4e9));
    let drops = |s, n| resource(s, "network", "errors", "rx_dropped", n, None);
    let rec = Rec::new()
        .rows([ports(80, 11_000), ports(81, 28_232), ports(82, 20_000)])
        .rows([
            size(0, "ehash", 24_973_067, Some(256), None),
            size(7, HOSTILE, 120_000, None, Some(131_072)),
            size(7, "requests", 0, None, None),
        ])
        .rows([
            drops(0, 1e6),
            memory(0, 1e9),
            memory(1, 3e9),
            drops(1, 1e6 + 25.0),
            // Not told while it does not change: the rate is that of the last second.
            memory(5, 3e9),
            memory(6, 3e9),
            drops(6, 1e6 + 32.0),
        ]);
    insta::assert_snapshot!(rec.both(|| stat::view(stat::What::Ports, 0)));
    insta::assert_snapshot!(rec.both(|| stat::view(stat::What::Tables, 0)));
    let text = rec.both(|| stat::view(stat::What::Use, 0));
    assert!(!text.contains("1000000.0"), "never since boot: {text}");
    insta::assert_snapshot!(text);
}

#[test]
fn an_empty_recording_shows_nothing() {
    let rec = Rec::new();
    for what in [stat::What::Sockets, stat::What::Use, stat::What::Cpus] {
        assert_eq!(rec.show(stat::view(what, 0), |_| {}), "");
    }
    assert_eq!(rec.show(trace::view(trace::What::Connects), |_| {}), "");
}
