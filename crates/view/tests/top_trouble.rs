//! The live screen when something is wrong: what is told first, whole, and without making anything up.

use recording::TcpState;
use recording::tables::*;
use synth::cases;
use view::top::*;

use crate::common::*;
use crate::top::{Desk, hostile, line};

#[test]
fn a_finding_is_told_whole_with_what_to_do() {
    let written = cases::syn_cookies().write().unwrap();
    let mut desk = Desk::of(&written.recording);
    let finding = desk.findings.cases[0].finding.clone();
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (width, height) in [(80, 24), (120, 40), (70, 20)] {
        let (text, _) = desk.paint(width, height);
        assert!(text.contains("SINCE SURE   FINDING"), "{text}");
        let said = one_line(&text);
        let title = format!("{} · {}", finding.layer, finding.title);
        assert!(said.contains(&one_line(&title)), "{title}\n{text}");
        let advice = &finding.advice[0];
        let kind = if advice.only_looks() { "look:" } else { "fix:" };
        let begins: String = advice.command.as_ref().unwrap().chars().take(20).collect();
        assert!(line(&text, kind).contains(&begins), "{text}");
        assert!(text.contains("do:"), "{text}");
    }
    // It fits where the screen is far too small, too.
    let (text, _) = desk.paint(30, 8);
    assert!(text.contains("1 Findings"), "{text}");
}

#[test]
fn the_command_of_the_finding_is_copied() {
    let written = cases::syn_cookies().write().unwrap();
    let mut desk = Desk::of(&written.recording);
    let command = desk.findings.cases[0].finding.advice[0].command.clone();
    let command = command.expect("its first advice has a command");
    // From the list, wherever the keys go to, and from the open case.
    for keys in [&[][..], &[Key::Char('2')], &[Key::Char('1'), Key::Enter]] {
        desk.press(keys);
        let (_, seen) = desk.paint(120, 40);
        assert_eq!(desk.state.key(Key::Char('y'), &seen), Effect::Copy);
        assert_eq!(desk.findings.command(&desk.state, &seen), Ok(&*command));
    }
    let (_, seen) = desk.paint(120, 40);
    desk.findings.cases.clear();
    assert!(desk.findings.command(&desk.state, &seen).is_err());
    desk.state = State::default();
    let (_, seen) = desk.paint(120, 40);
    assert!(desk.findings.command(&desk.state, &seen).is_err());
}

#[test]
fn what_came_of_it_is_said_until_the_next_key() {
    let mut desk = Desk::of(&hostile());
    let (_, seen) = desk.paint(120, 40);
    assert_eq!(desk.state.key(Key::Char('w'), &seen), Effect::Save);
    assert_eq!(desk.state.key(Key::Char('r'), &seen), Effect::Report);
    desk.state.status = Some(format!("wrote {HOSTILE}"));
    let said = desk.press(&[]);
    assert!(line(&said, "wrote").contains("\\x1b"), "{said}");
    let after = desk.press(&[Key::Char('x')]);
    assert!(
        !after.contains("wrote") && after.contains("q quit"),
        "{after}"
    );
    // While a filter is typed they are letters.
    desk.press(&[Key::Char('/'), Key::Char('w'), Key::Char('y'), Key::Enter]);
    assert_eq!(desk.state.filter, "wy");
}

#[test]
fn connects_under_way_count_with_what_they_took_so_far() {
    let syn = |ms, sock| state(ms, sock, TcpState::Close, TcpState::SynSent);
    let done = |ms, sock| state(ms, sock, TcpState::SynSent, TcpState::Established);
    let rec = Rec::new()
        .rows((0..5).flat_map(|i| [syn(9_100 + i, i), done(9_101 + i, i)]))
        // Three of which one ends only after five seconds.
        .rows([syn(2_000, 11), done(7_000, 11)])
        .rows([syn(7_000, 12), syn(8_000, 13)]);
    let mut desk = Desk::of(&rec.open());
    let title = |text: &str| line(text, "2 Connections").to_string();
    let end = title(&desk.press(&[]));
    assert!(end.contains("2 pending, oldest 3.0 s"), "{end}");
    assert!(end.contains("p50 1.") && end.contains("p99 5.0 s"), "{end}");
    let opened = desk.press(&[Key::Char('2'), Key::Enter]);
    assert!(opened.contains("2, the oldest for 3.0 s"), "{opened}");
    // Four seconds earlier another one was under way.
    let left = [Key::Esc, Key::Left, Key::Left, Key::Left, Key::Left];
    let earlier = title(&desk.press(&left));
    assert!(earlier.contains("1 pending, oldest 4.0 s"), "{earlier}");
}

/// A connection that is well, sampled at a time.
fn sampled(i: u64, sock: u64) -> Socket {
    Socket {
        time_ns: START + i * S,
        netns: HOST,
        sock,
        inode: Some(sock),
        state: TcpState::Established,
        local_addr: addr("10.0.0.1"),
        remote_addr: addr("10.0.0.2"),
        remote_port: 1_000 + sock as u16,
        congestion: Some("cubic".into()),
        ca_state: Some("Open".into()),
        cwnd: Some(10),
        rtt_us: Some(900_000),
        rttvar_us: Some(1),
        min_rtt_us: Some(800_000),
        bytes_acked: Some(i),
        ..Socket::default()
    }
}

#[test]
fn sockets_in_trouble_come_first_and_nothing_is_made_up() {
    let all = |i: u64| {
        let well = sampled(i, 1);
        let waits = Socket {
            recv_queue: Some(10),
            last_data_recv_ms: Some(5_000),
            inode: None,
            ..sampled(i, 2)
        };
        let loses = Socket {
            total_retrans: Some(i as u32),
            ca_state: Some("Loss".into()),
            ..sampled(i, 3)
        };
        // Its SYN was sent twice, and answered in the last second: one octet, and one tick.
        let late = Socket {
            state: if i < 9 {
                TcpState::SynSent
            } else {
                TcpState::Established
            },
            bytes_acked: Some(u64::from(i == 9)),
            rtt_us: Some(1_000),
            rttvar_us: Some(500),
            min_rtt_us: Some(1_000),
            ..sampled(i, 4)
        };
        [well, waits, loses, late]
    };
    let rec = Rec::new()
        .rows((0..10).flat_map(all))
        .rows([1, 3, 4].map(|inode| Holder {
            time_ns: START,
            inode,
            pid: 7,
            comm: "app".into(),
            fd: 3,
        }));
    let mut desk = Desk::of(&rec.open());
    let (text, _) = desk.paint(200, 50);
    let at = |port: &str| text.lines().position(|l| l.contains(port)).unwrap();
    let order = [at(":1003 "), at(":1002 "), at(":1001 "), at(":1004 ")];
    assert!(order.is_sorted(), "{text}");
    let cells = |port: &str| -> Vec<&str> { line(&text, port).split_whitespace().collect() };
    assert!(
        cells(":1003 ").windows(2).any(|c| c == ["Loss", "cubic"]),
        "{text}"
    );
    assert!(line(&text, ":1002 ").contains("not accepted"), "{text}");
    // REMOTE, LOCAL, RTT, RETRANS, RETRANS_TOTAL, CWND, RATE
    let late = cells(":1004 ");
    assert_eq!((late[2], late[6]), ("-", "-"), "{text}");
    assert!(line(&text, ":1001 ").contains("900 ms"), "{text}");
}

#[test]
fn threads_that_are_kept_from_work_come_first_and_ours_last() {
    let thread = |pid: u32, comm: &str| Thread {
        time_ns: START + 5 * S,
        interval_ns: S,
        pid,
        tid: pid,
        comm: comm.into(),
        ..Thread::default()
    };
    let rec = Rec::new().rows([
        // Busy for a whole second, of ten.
        Thread {
            user_ns: S,
            ..thread(20, "busy")
        },
        // Lived for a fiftieth of one, and did nothing but work.
        Thread {
            interval_ns: S / 50,
            user_ns: S / 50,
            ..thread(21, "brief")
        },
        Thread {
            time_ns: START + 9 * S,
            interval_ns: 3 * S,
            stopped_ns: 2 * S,
            sleep_ns: S,
            ..thread(22, "stopped")
        },
        Thread {
            runqueue_ns: S,
            ..thread(23, "starved")
        },
        Thread {
            user_ns: S,
            ..thread(30, "tcpwhy")
        },
        Thread {
            tid: 31,
            system_ns: S,
            ..thread(30, "sampler")
        },
    ]);
    let text = Desk::of(&rec.open()).press(&[]);
    let names = [
        "stopped",
        "starved",
        "busy",
        "brief",
        "tcpwhy    ",
        "tcpwhy:sampler",
    ];
    let at = names.map(|name| text.lines().position(|l| l.contains(name)));
    assert!(at.is_sorted() && at[0].is_some(), "{at:?}\n{text}");
    assert!(
        line(&text, "brief").contains(" 0.2 "),
        "of the window\n{text}"
    );
    assert!(!line(&text, "brief").contains("100.0"), "{text}");
}

#[test]
fn a_listener_is_of_those_who_accept() {
    let rec = Rec::new()
        .rows([9, 10, 11].map(|pid| Holder {
            time_ns: START,
            inode: 1,
            pid,
            comm: "nginx".into(),
            fd: 3,
        }))
        .rows([10, 11].map(|pid| Process {
            time_ns: START,
            pid,
            ppid: 9,
            ..Process::default()
        }))
        .rows([Listener {
            time_ns: START + S,
            netns: HOST,
            sock: 5,
            inode: Some(1),
            local_addr: addr("10.0.0.1"),
            local_port: 80,
            backlog: 5,
            ..Listener::default()
        }]);
    let text = Desk::of(&rec.open()).press(&[]);
    assert!(line(&text, "10.0.0.1:80").contains("nginx 10 +1"), "{text}");
}
