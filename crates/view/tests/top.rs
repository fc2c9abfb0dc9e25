//! The live screen without a terminal: what keys do, what a window says, what is painted.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use recording::tables::*;
use recording::{Filter, HealthKind, Recording, Role, SourceName, TcpState, Timed};
use synth::cases;
use view::How;
use view::top::*;

use crate::common::*;

/// What a reader has before him.
pub struct Desk {
    pub timeline: Timeline,
    pub findings: Findings,
    pub about: About,
    pub state: State,
}

impl Desk {
    pub fn of(recording: &Recording) -> Desk {
        let timeline = Timeline::read(recording, Filter::default()).unwrap();
        let mut findings = Findings::default();
        let (from, to) = timeline.span();
        findings.explained(explain::explain(recording).unwrap(), from, to, false);
        let about = About {
            host: "box".into(),
            live: false,
            colour: true,
            how: How::of(&recording.manifest),
            failed: Vec::new(),
            health: timeline.health().holes(),
            slowed: timeline.health().slowed(),
        };
        Desk {
            timeline,
            findings,
            about,
            state: State::default(),
        }
    }

    /// Paints it, and checks that keys find what is painted.
    pub fn paint(&mut self, width: u16, height: u16) -> (String, Seen) {
        let snapshot = self
            .timeline
            .snapshot(self.state.cursor_ns, self.state.order);
        let time = (self.timeline.span(), self.timeline.step_ns());
        let picture = Picture::new(
            &self.state,
            &snapshot,
            &self.findings,
            &self.about,
            time,
            width,
        );
        let seen = picture.seen(self.state.focus, width, height);
        self.state.settle(&seen);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| draw(frame, &picture, &self.state, &self.about))
            .unwrap();
        let cells = terminal
            .backend()
            .buffer()
            .content()
            .chunks(usize::from(width).max(1));
        let lines = cells.map(|row| row.iter().map(|c| c.symbol()).collect::<String>());
        let text: Vec<String> = lines.map(|l| l.trim_end().to_string()).collect();
        (text.join("\n"), seen)
    }

    pub fn press(&mut self, keys: &[Key]) -> String {
        for key in keys {
            let (_, seen) = self.paint(120, 40);
            self.state.key(*key, &seen);
        }
        self.paint(120, 40).0
    }
}

pub fn line<'t>(text: &'t str, with: &str) -> &'t str {
    let found = text.lines().find(|l| l.contains(with));
    found.unwrap_or_else(|| panic!("no {with:?} in\n{text}"))
}

/// Ten seconds in which everything has a name that would act on a terminal.
pub fn hostile() -> Recording {
    let rec = Rec::new()
        .rows((0..10).map(|i| connect(i * 1000, i)))
        .rows((0..10).map(|i| Holder {
            time_ns: START + i * S,
            inode: i,
            pid: 9,
            comm: HOSTILE.into(),
            fd: 3,
        }))
        .rows((0..10).map(|i| Listener {
            time_ns: START + i * S,
            netns: 7,
            sock: 5,
            inode: Some(1),
            local_addr: addr("::1"),
            local_port: 80,
            accept_queue: 6,
            backlog: 5,
            drops: i as u32 * 10,
            ..Listener::default()
        }))
        .rows((0..10).map(|i| Socket {
            time_ns: START + i * S,
            netns: HOST,
            sock: 3,
            inode: Some(2),
            state: TcpState::Established,
            local_addr: addr("10.0.0.1"),
            remote_addr: addr("10.0.0.2"),
            remote_port: 443,
            congestion: Some(HOSTILE.into()),
            cwnd: Some(10),
            rtt_us: Some(41_000),
            bytes_acked: Some(i * 125_000),
            total_retrans: Some(i as u32),
            send_queue: Some(1),
            ..Socket::default()
        }))
        .rows((1..10).map(|i| Request {
            time_ns: START + i * S,
            netns: 7,
            role: Role::Server,
            addr: addr("::1"),
            port: 80,
            exchanges: 10,
            open: Some(i),
            think_ns: S / 2,
            think_alone_ns: S / 2,
            think_cpu_ns: S / 4,
            think_runqueue_ns: S / 4,
            accept_ns: S / 4,
            repair_ns: S / 4,
            ..Request::default()
        }))
        .rows((1..10).map(|i| RequestTime {
            time_ns: START + i * S,
            netns: 7,
            role: Role::Server,
            addr: addr("::1"),
            port: 80,
            what: Timed::Response,
            at_least_ns: 100_000_000,
            below_ns: Some(100_000_000),
            count: 10,
        }))
        .rows((1..10).map(|i| Exchange {
            time_ns: START + i * S,
            began_ns: START + i * S - S / 2,
            netns: 7,
            role: Role::Server,
            local_addr: addr("::1"),
            local_port: 80,
            remote_addr: addr("::1"),
            remote_port: 9_999,
            tid: Some(10),
            comm: Some(HOSTILE.into()),
            think_ns: S / 4,
            accept_ns: S / 4,
            ..Exchange::default()
        }))
        .rows([Wait {
            time_ns: START + S - S / 4,
            tid: 10,
            waited_ns: S / 8,
            syscall: Some("futex".into()),
            ..Wait::default()
        }])
        .rows((1..10).map(|i| Thread {
            time_ns: START + i * S,
            interval_ns: S,
            pid: 9,
            tid: 10,
            comm: HOSTILE.into(),
            user_ns: S / 4,
            stopped_ns: S / 4,
            sleep_ns: S / 2,
            ..Thread::default()
        }))
        .rows([Frame {
            time_ns: START,
            frame: 1,
            function: HOSTILE.into(),
            ..Frame::default()
        }])
        .rows([Stack {
            time_ns: START,
            stack: 4,
            depth: 0,
            frame: 1,
        }])
        .rows((0..10).map(|i| Sample {
            time_ns: START + i * S,
            kernel_stack: Some(4),
            ..Sample::default()
        }))
        .rows([Health {
            time_ns: START,
            source: SourceName::Unknown(HOSTILE.into()),
            what: HealthKind::Lost,
            count: 17,
            detail: "the ring was full".into(),
        }]);
    let opened = rec.open();
    // The directory must outlive the test; the system's temporary files are swept.
    std::mem::forget(rec);
    opened
}

#[test]
fn what_is_sampled_less_often_is_said_and_is_no_hole() {
    let rec = Rec::new().rows([Health {
        time_ns: START,
        source: SourceName::Sockets,
        what: HealthKind::Slowed,
        count: 0,
        detail: "a walk over the sockets takes 40 ms of CPU: once every 4 s".into(),
    }]);
    let text = Desk::of(&rec.open()).press(&[]);
    assert!(!text.contains("not whole"), "{text}");
    assert!(text.contains("sockets slowed: a walk"), "{text}");
}

#[test]
fn interfaces_are_told_with_what_they_lose_first() {
    let counter = |s: u64, instance: &str, metric: &str, value: f64| Resource {
        time_ns: START + s * S,
        netns: HOST,
        resource: "network".into(),
        instance: instance.into(),
        aspect: "utilisation".into(),
        metric: metric.into(),
        value,
        unit: "count".into(),
        cumulative: true,
        ..Resource::default()
    };
    let rec = Rec::new().rows((0..10).flat_map(|i| {
        let rows = [
            counter(i, "eth0", "rx_bytes", 1e9 + i as f64 * 1.25e6),
            counter(i, "eth0", "rx_packets", i as f64 * 1_000.0),
            counter(i, "lan", "tx_bytes", i as f64 * 1e3),
            counter(i, "lan", "tx_dropped", i as f64 * 20.0),
            counter(i, "idle", "rx_bytes", 5.0),
        ];
        rows.into_iter()
    }));
    let text = Desk::of(&rec.open()).press(&[]);
    let head = line(&text, "eth0@host");
    assert!(
        head.trim_start().starts_with("lan@host LOST 18.0/s"),
        "{text}"
    );
    // Nine seconds of ten have a difference, none of what was counted before.
    assert!(head.contains("eth0@host rx 9.0Mbit/s 900p/s"), "{text}");
    assert!(!text.contains("idle@host"), "{text}");
}

#[test]
fn a_window_says_what_was_in_it() {
    let mut desk = Desk::of(&hostile());
    let text = desk.press(&[]);
    let words = |with: &str| -> Vec<String> {
        line(&text, with)
            .split_whitespace()
            .map(String::from)
            .collect()
    };
    assert_eq!(words("opened")[..4], ["opened", "1.0", "1.0", "10"]);
    // Six wait where five may; drops rose by ten a second since the window's first sample.
    let listener = words("6/5");
    assert_eq!(listener[2], "6/5", "{text}");
    assert!(listener.contains(&"90".to_string()), "{text}");
    // 125,000 bytes a second.
    assert!(line(&text, "10.0.0.2:443").contains("1.0Mbit/s"), "{text}");
    assert!(line(&text, "10.0.0.2:443").contains("41.0 ms"), "{text}");
    // A quarter of the nine seconds of which it was told: of ten.
    assert!(line(&text, "UUUU").contains("22.5"), "{text}");
    assert!(text.contains("lost 17 records"), "{text}");
    assert_eq!(desk.timeline.span(), (START, START + 10 * S));
}

#[test]
fn the_cursor_shows_an_earlier_window() {
    let mut desk = Desk::of(&hostile());
    let end = desk.press(&[]);
    let earlier = desk.press(&[Key::FarLeft, Key::Right]);
    assert_eq!(desk.state.cursor_ns, Some(START + 2 * S));
    assert_ne!(end.lines().next(), earlier.lines().next());
    let opened = line(&earlier, "opened");
    assert!(opened.split_whitespace().nth(3) == Some("2"), "{opened}");
    assert_eq!(desk.press(&[Key::End]), end);
    // Going forward to the end is being there.
    assert_eq!(desk.press(&[Key::Left, Key::Right]), end);
    assert_eq!(desk.state.cursor_ns, None);
}

#[test]
fn each_key_does_what_help_says() {
    use Key::*;
    let mut desk = Desk::of(&hostile());
    for (i, (pane, name)) in Pane::ALL.into_iter().enumerate() {
        desk.press(&[Char(char::from(b'1' + i as u8))]);
        assert_eq!(desk.state.focus, pane, "{name}");
    }
    desk.press(&[Tab]);
    assert_eq!(desk.state.focus, Pane::Findings);
    desk.press(&[BackTab]);
    assert_eq!(desk.state.focus, Pane::Functions);
    desk.press(&[Char('2'), Down, Char('j'), Down, Up, Char('k')]);
    assert_eq!(desk.state.selected(Pane::Connections), 1);
    desk.press(&[Char('G')]);
    assert_eq!(desk.state.selected(Pane::Connections), SHOWN.len() - 1);
    desk.press(&[PageUp, PageUp, PageUp]);
    assert_eq!(desk.state.selected(Pane::Connections), 0);
    desk.press(&[PageDown]);
    assert!(desk.state.selected(Pane::Connections) > 0);
    desk.press(&[Char('g')]);
    // Each pane opens something of its own, and Esc closes it.
    let opens = [
        ('2', "last minute"),
        ('3', "SLOWEST REQUESTS AND THEIR THREADS"),
        ('4', "of 5 wait for accept()"),
        ('5', "AS ss -tin SHOWS IT"),
        ('6', "ITS LONG WAITS"),
        ('7', "CALLED BY"),
    ];
    for (pane, says) in opens {
        let open = desk.press(&[Char(pane), Enter]);
        assert!(open.contains(says), "{open}");
        let closed = desk.press(&[if pane == '2' { Esc } else { Backspace }]);
        assert!(closed.contains("2 Connections"), "{closed}");
    }
    assert!(desk.press(&[Char('?')]).contains("KEYS"));
    assert!(desk.press(&[Char('?')]).contains("2 Connections"));
    let orders = [
        SocketOrder::Rtt,
        SocketOrder::Retrans,
        SocketOrder::Slow,
        SocketOrder::Queue,
        SocketOrder::Trouble,
    ];
    for order in orders {
        desk.press(&[Char('s')]);
        assert_eq!(desk.state.order, order);
    }
    desk.press(&[Char('p')]);
    assert_eq!(desk.state.cursor_ns, Some(START + 10 * S));
    desk.press(&[Char(' ')]);
    assert_eq!(desk.state.cursor_ns, None);
    desk.press(&[Home]);
    assert_eq!(desk.state.cursor_ns, Some(START + S));
    desk.press(&[Char(']'), Char('[')]);
    assert_eq!(desk.state.cursor_ns, Some(START + S));
    let (_, seen) = desk.paint(80, 24);
    assert_eq!(desk.state.key(Char('x'), &seen), Effect::Nothing);
    assert_eq!(desk.state.key(Char('q'), &seen), Effect::Quit);
}

#[test]
fn a_filter_is_typed_and_undone() {
    let mut desk = Desk::of(&hostile());
    let type_in = |text: &str| -> Vec<Key> {
        let mut keys = vec![Key::Char('/')];
        keys.extend(text.chars().map(Key::Char));
        keys
    };
    let typing = desk.press(&type_in("443q"));
    assert!(typing.contains("show only lines with: 443q_"), "{typing}");
    let shown = desk.press(&[Key::Backspace, Key::Enter]);
    assert!(
        shown.contains("10.0.0.2:443") && !shown.contains("[::1]:80"),
        "{shown}"
    );
    assert!(shown.contains("only \"443\""), "{shown}");
    assert!(desk.press(&[Key::Esc]).contains("[::1]:80"));
    desk.press(&type_in("zz"));
    assert!(
        desk.press(&[Key::Esc]).contains("[::1]:80"),
        "Esc takes back what was typed"
    );
}

#[test]
fn whose_time_requests_took_is_told_by_service() {
    let mut desk = Desk::of(&hostile());
    let text = desk.press(&[]);
    let cells: Vec<&str> = line(&text, "server").split_whitespace().collect();
    // 90 in 10 s, 100 ms each; three quarters the application's, one TCP's.
    assert_eq!(
        cells,
        [
            "server", "[::1]:80", "9.0", "100", "ms", "100", "ms", "75.0", "25.0", "0.0", "50.0",
            "25.0", "25.0", "25.0", "0.0", "0.0", "0.0"
        ],
        "{text}"
    );
    let opened = desk.press(&[Key::Char('3'), Key::Enter]);
    for says in [
        "answers at [::1]:80",
        "90 in 10 s: 9.0 per second",
        "9 for a second or longer",
        "p50 100 ms, p90 100 ms, p99 100 ms",
        "application       75 %: service time 50 %",
        "TCP               25 %: repairing losses 25 %",
        "its thread slept 125 ms in futex",
    ] {
        assert!(opened.contains(says), "{says}\n{opened}");
    }
    // A second and a half after the beginning: the first of them.
    let earlier = desk.press(&[Key::Esc, Key::Home]);
    assert!(line(&earlier, "server").contains(" 10.0 "), "{earlier}");
}

#[test]
fn a_finding_opens_as_its_case() {
    let written = cases::syn_cookies().write().unwrap();
    let mut desk = Desk::of(&written.recording);
    let text = desk.press(&[]);
    let title = &desk.findings.cases[0].finding.title;
    let begins: String = title.chars().take(40).collect();
    assert!(line(&text, "high").contains(&begins), "{text}");
    let case = desk.press(&[Key::Enter]);
    assert!(case.contains("WHAT TO DO"), "{case}");
    let end = desk.press(&[Key::End]);
    assert!(end.contains("HOW TO CHECK"), "{end}");
}

#[test]
fn every_size_is_painted_and_nothing_acts_on_the_terminal() {
    let mut desk = Desk::of(&hostile());
    for colour in [true, false] {
        desk.about.colour = colour;
        for (width, height) in [
            (80, 24),
            (200, 50),
            (40, 10),
            (1, 1),
            (1, 40),
            (300, 1),
            (0, 0),
        ] {
            for keys in [
                vec![],
                vec![Key::Char('3'), Key::Enter],
                vec![Key::Char('5'), Key::Enter],
                vec![Key::Char('?')],
            ] {
                desk.state = State::default();
                for key in keys {
                    let (_, seen) = desk.paint(width, height);
                    desk.state.key(key, &seen);
                }
                let (text, _) = desk.paint(width, height);
                assert!(
                    !text.contains(|c: char| c.is_control() && c != '\n'),
                    "{text:?}"
                );
                assert!(!text.contains('\u{202e}'), "{text:?}");
            }
        }
    }
    desk.state = State::default();
    let (text, _) = desk.paint(80, 24);
    for pane in [
        "1 Findings",
        "2 Connections",
        "3 Requests",
        "4 Listeners",
        "6 Threads",
    ] {
        assert!(text.contains(pane), "{text}");
    }
    let (text, _) = desk.paint(40, 10);
    assert!(text.contains("1 Findings"), "{text}");
}

#[test]
fn an_empty_recording_is_a_sensible_screen() {
    let rec = Rec::new();
    let mut desk = Desk::of(&rec.open());
    let text = desk.press(&[]);
    assert!(text.contains("No cause found"), "{text}");
    // What has no lines takes no room, unless it is asked for.
    for (key, pane, says) in [
        ('3', "3 Requests", "`--with requests`"),
        ('4', "4 Listeners", "Nothing listens."),
        ('5', "5 Sockets", "No connection"),
        ('6', "6 Threads", "`--with threads`"),
        ('7', "7 Functions", "`--with profile`"),
    ] {
        assert!(!text.contains(pane), "{text}");
        let asked = desk.press(&[Key::Char(key)]);
        assert!(asked.contains(pane) && asked.contains(says), "{asked}");
    }
}

fn any_key() -> impl Strategy<Value = Key> {
    use Key::*;
    prop_oneof![
        prop::sample::select(vec![
            Enter, Esc, Backspace, Tab, BackTab, Up, Down, Left, Right, FarLeft, FarRight, PageUp,
            PageDown, Home, End,
        ]),
        prop::sample::select("1234567jkgGsp/?[] qzéwry".chars().collect::<Vec<_>>()).prop_map(Char),
    ]
}

proptest! {
    /// Whatever is pressed on whatever is seen: the selection and the cursor stay where something is.
    #[test]
    fn no_key_leads_astray(
        keys in prop::collection::vec((any_key(), prop::array::uniform7(0usize..5), 0usize..20), 0..60),
        span in (0u64..100, 0u64..100),
    ) {
        let mut state = State::default();
        let span = (span.0 * S, (span.0 + span.1) * S);
        for (key, sizes, page) in keys {
            let targets = sizes.map(|n| (0..n as u64).map(|i| Target::Socket(1, i)).collect::<Vec<_>>());
            let seen = Seen { targets, page, lines: page * 2, span, step_ns: S };
            if state.key(key, &seen) == Effect::Quit {
                break;
            }
            for (pane, _) in Pane::ALL {
                let n = seen.targets[pane as usize].len();
                prop_assert!(state.selected(pane) < n.max(1));
            }
            if let Some(cursor) = state.cursor_ns {
                prop_assert!((span.0..=span.1.max(span.0)).contains(&cursor));
            }
            if let Some((_, scroll)) = state.open {
                prop_assert!(scroll <= seen.lines);
            }
        }
    }

    /// Rows may claim any time and any number.
    #[test]
    fn any_row_finds_a_place(
        events in prop::collection::vec((any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>()), 0..20),
        listeners in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>()), 0..20),
        threads in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
        sockets in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 0..20),
    ) {
        let rec = Rec::new()
            .rows(events.iter().map(|(time_ns, connect_ns, established_ns)| Event {
                time_ns: *time_ns,
                connect_ns: *connect_ns,
                established_ns: *established_ns,
                ..state(0, 1, TcpState::Close, TcpState::SynSent)
            }))
            .rows(listeners.iter().map(|(time_ns, queue, backlog)| Listener {
                time_ns: *time_ns,
                accept_queue: *queue,
                backlog: *backlog,
                drops: *queue,
                ..Listener::default()
            }))
            .rows(threads.iter().map(|(time_ns, interval_ns, ns)| Thread {
                time_ns: *time_ns,
                interval_ns: *interval_ns,
                user_ns: *ns,
                system_ns: *ns,
                ..Thread::default()
            }))
            .rows(sockets.iter().map(|(time_ns, bytes, n)| Socket {
                time_ns: *time_ns,
                bytes_acked: Some(*bytes),
                bytes_received: Some(*bytes),
                rtt_us: Some(*n),
                cwnd: Some(*n),
                total_retrans: Some(*n),
                send_queue: Some(*n),
                recv_queue: Some(*n),
                ..Socket::default()
            }));
        let timeline = Timeline::read(&rec.open(), Filter::default()).unwrap();
        let about = About {
            host: String::new(),
            live: true,
            colour: false,
            how: How::of(&rec.open().manifest),
            failed: Vec::new(),
            health: None,
            slowed: None,
        };
        let mut desk = Desk { timeline, findings: Findings::default(), about, state: State::default() };
        for key in ['3', '4', '5', '6'] {
            desk.press(&[Key::Char(key), Key::Enter]);
            desk.press(&[Key::Esc, Key::Char('s')]);
        }
    }
}
