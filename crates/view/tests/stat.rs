//! What every view of `stat` prints, word by word, of recordings made for it.

use recording::tables::*;
use recording::{FileKind, Filter, Role, Rows, Table, TcpState, Timed};
use view::{How, Reader, Screen, stat};

use crate::common::*;

const COUNTERS: stat::What = stat::What::Counters {
    all: false,
    errors_only: false,
};
const SOCKETS: stat::What = stat::What::Sockets { all: false };

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
    let what = COUNTERS;
    let text = rec.both(|| stat::view(what.clone(), 0));
    assert!(!text.contains("728004\n") && !text.contains("+728004"));
    insta::assert_snapshot!(text);
}

#[test]
fn counters_at_a_longer_interval_and_a_number_of_reports() {
    let rec = Rec::new().rows(counters());
    let view = || stat::view(COUNTERS, 3 * S);
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
        let recording = rec.open();
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
        epoll_fd: None,
    };
    let on_set = |fd, ms| ThreadSleep {
        epoll_fd: Some(fd),
        ..sleep(1, "epoll_wait", ms)
    };
    let behind = |(fd, kind)| Epoll {
        time_ns: START + S + MS,
        pid: 63_037,
        epoll_fd: 4,
        fd,
        inode: (kind == FileKind::Socket).then_some(u64::from(fd) + 10),
        kind,
        events: 1,
        total: 5,
    };
    let rec = Rec::new()
        .rows([
            thread(1, 1, 150, 812),
            thread(1, 2, 0, 964),
            thread(2, 1, 950, 0),
        ])
        .rows([on_set(7, 300), on_set(4, 500), sleep(1, "nanosleep", 12)])
        .rows(
            [
                (5, FileKind::Socket),
                (6, FileKind::Socket),
                (8, FileKind::Eventfd),
            ]
            .map(behind),
        )
        .rows([Listener {
            time_ns: START,
            netns: HOST,
            inode: Some(15),
            local_addr: addr("0.0.0.0"),
            local_port: 8080,
            ..Listener::default()
        }])
        .rows([socket(0, 6, 50_001)]);
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
        state: TcpState::Established,
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
        state: TcpState::TimeWait,
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
    // TIME_WAIT is counted below, and each is told with --all.
    let view = || stat::view(SOCKETS, 0);
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
fn time_wait_is_counted_by_listener_though_that_is_sampled_later() {
    let waits = |nth: u16| Socket {
        time_ns: START,
        netns: HOST,
        sock: u64::from(nth),
        state: TcpState::TimeWait,
        local_addr: addr("10.0.0.1"),
        local_port: if nth < 20 { 80 } else { 40_000 + nth },
        remote_addr: addr("10.0.0.2"),
        remote_port: if nth < 20 { 50_000 + nth } else { 443 },
        ..Socket::default()
    };
    let listener = Listener {
        time_ns: START + MS,
        netns: HOST,
        sock: 900,
        local_addr: addr("0.0.0.0"),
        local_port: 80,
        ..Listener::default()
    };
    let rec = Rec::new().rows((0..25).map(waits)).rows([listener]);
    let text = rec.show(stat::view(SOCKETS, 0), |_| {});
    assert_eq!(
        text,
        "TIME_WAIT        20 of the listener 0.0.0.0:80 (host)\nTIME_WAIT         5 to 10.0.0.2:443 (host)\n"
    );
    let all = rec.show(stat::view(stat::What::Sockets { all: true }, 0), |_| {});
    assert_eq!(
        all.lines().filter(|l| l.starts_with("TIME_WAIT")).count(),
        25
    );
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
    let accepted = |at_ms| {
        served(established(state(
            at_ms,
            3,
            TcpState::SynRecv,
            TcpState::Established,
        )))
    };
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

/// The destination that is fullest comes last of more than a report holds.
#[test]
fn what_a_report_has_no_room_for_is_said_and_the_largest_is_kept() {
    const HELD: u32 = 1 << 16;
    const MORE: u32 = 2 * HELD + 10;
    let rec = Rec::new().rows((0..=MORE).map(|nth| PortUse {
        time_ns: START + u64::from(nth),
        netns: 7,
        family: 4,
        local_addr: addr("10.0.0.1"),
        remote_addr: std::net::IpAddr::from((0x0a01_0000 + nth).to_be_bytes()).into(),
        remote_port: 80,
        ports_used: if nth == MORE { 28_000 } else { 10 },
        range_low: 32_768,
        range_high: 60_999,
        ..PortUse::default()
    }));
    let text = rec.show(stat::view(stat::What::Ports, 0), |_| {});
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len() as u32, 1 + HELD + 1);
    assert!(lines[1].contains(" 28000 "), "{}", lines[1]);
    let says = format!(
        "{} further rows left out",
        analysis::words::count(u64::from(MORE + 1 - HELD))
    );
    assert!(
        lines[lines.len() - 1].contains(&says),
        "{}",
        lines[lines.len() - 1]
    );
    let json = rec.show(stat::view(stat::What::Ports, 0), |how| how.json = true);
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["type"], &last["of"], &last["rows"]),
        (
            &"left_out".into(),
            &"port_use".into(),
            &(MORE + 1 - HELD).into()
        )
    );
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
        server_time_wait: (to_port == 80).then_some(15_894),
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
    let text = rec.both(|| stat::view(stat::What::Use(stat::Lines::All), 0));
    assert!(!text.contains("1000000.0"), "never since boot: {text}");
    insta::assert_snapshot!(text);
    // As a table: what fails is marked and first, and JSON has every line all the same.
    for lines in [stat::Lines::Reports, stat::Lines::Worst] {
        insta::assert_snapshot!(rec.show(stat::view(stat::What::Use(lines), 0), |_| {}));
    }
    let json = |lines| rec.show(stat::view(stat::What::Use(lines), 0), |how| how.json = true);
    assert_eq!(json(stat::Lines::Worst), json(stat::Lines::All));
}

#[test]
fn a_host_of_many_resources_fits_a_screen() {
    let resource = |nth: u64, aspect: &str, metric: &str, value, limit| Resource {
        time_ns: START,
        resource: "network".into(),
        instance: format!("an-interface-with-a-long-name-{nth}").into(),
        aspect: aspect.into(),
        metric: metric.into(),
        value,
        unit: "count".into(),
        limit,
        ..Resource::default()
    };
    let zero = (0..30).map(|nth| resource(nth, "errors", "rx_errors", 0.0, None));
    let used = (30..60).map(|nth| resource(nth, "utilisation", "queued", nth as f64, Some(60.0)));
    let rec = Rec::new().rows(zero.chain(used));
    let text = rec.show(stat::view(stat::What::Use(stat::Lines::Worst), 0), |how| {
        how.width = Some(80)
    });
    assert!(text.lines().count() < 24, "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let first = text.lines().nth(2).unwrap();
    assert!(
        first.contains("name-59") && first.contains("59 of 60"),
        "{text}"
    );
    assert!(
        text.contains("11 further in use, 30 where everything is zero"),
        "{text}"
    );
}

#[test]
fn an_empty_recording_shows_nothing() {
    let rec = Rec::new();
    for what in [
        SOCKETS,
        stat::What::Use(stat::Lines::Reports),
        stat::What::Cpus,
    ] {
        assert_eq!(rec.show(stat::view(what, 0), |_| {}), "");
    }
}

#[test]
fn requests_and_what_their_time_went_with() {
    let of = |s: u64, role: Role, exchanges: u64| Request {
        time_ns: START + s * S,
        netns: HOST,
        role,
        addr: "10.79.0.1".parse::<std::net::IpAddr>().unwrap().into(),
        port: 5432,
        exchanges,
        one_in: 1,
        ..Request::default()
    };
    let rec = Rec::new().rows(vec![
        Request {
            unread_ns: 100 * MS,
            think_ns: 300 * MS,
            think_runqueue_ns: 200 * MS,
            ..of(1, Role::Server, 20)
        },
        Request {
            await_ns: 380 * MS,
            repair_ns: 20 * MS,
            retransmits: 1,
            open: Some(0),
            ..of(1, Role::Client, 20)
        },
        // Answers that nobody asked for.
        Request {
            think_ns: 40 * MS,
            pushed: 4,
            ..of(2, Role::Server, 20)
        },
        Request {
            open: Some(2),
            unanswered: 1,
            ..of(3, Role::Client, 0)
        },
    ]);
    let took = |s: u64, role: Role, at_least_ns: u64, count: u64| RequestTime {
        time_ns: START + s * S,
        netns: HOST,
        role,
        addr: "10.79.0.1".parse::<std::net::IpAddr>().unwrap().into(),
        port: 5432,
        what: Timed::Response,
        at_least_ns,
        below_ns: Some(at_least_ns + at_least_ns / 100),
        count,
    };
    let rec = rec.rows(vec![
        took(1, Role::Server, 5 * MS, 19),
        took(1, Role::Server, 300 * MS, 1),
        // Of these nobody knows which answers which.
        took(2, Role::Server, 2 * MS, 20),
    ]);
    insta::assert_snapshot!(rec.both(|| stat::view(stat::What::Requests, 0)));
    // Nothing that counts up is left out of reports that are further apart.
    insta::assert_snapshot!(rec.show(stat::view(stat::What::Requests, 2 * S), |_| {}));
}
