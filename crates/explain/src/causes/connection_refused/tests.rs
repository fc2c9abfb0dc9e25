//! C10 is named when nothing listens, and not for a probe or a foreign reset.

use recording::tables::Event;
use recording::{EventKind, SourceName};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number, Role, explain};
use synth::{CLIENT, Dial, Fate, Fixture, HOST, Listen, SERVER, cases};

const ID: &str = "connection-refused";

#[test]
fn both_ends_here() {
    let f = only(&cases::refused(), ID);
    assert_eq!((f.impact.affected, f.impact.of), (300, 300));
    assert_eq!(f.scope.listener, "10.79.0.1:7000");
    assert_eq!((f.scope.role, f.scope.pid), (Role::Client, Some(77)));
    assert_eq!(f.confidence.level, Level::High);
    assert_eq!(number(&f, "median_ms"), &Number::Real(0.05));
    assert!(f.arithmetic.iter().all(|c| c.agrees) && f.arithmetic.len() == 2);
    let start = Change::StartListener {
        at: "10.79.0.1:7000".into(),
    };
    assert_eq!(f.advice[0].change, Some(start));
    assert!(ruled_out(&f, "injected-reset").contains("sent 300 resets"));
}

#[test]
fn only_the_server_here() {
    let mut recording = cases::refused();
    recording.seen_from(SERVER);
    // No client here lacks it.
    assert!(found(&recording).is_empty());
    let notes = explain(&recording.write().unwrap()).unwrap().notes;
    let [note] = &notes[..] else {
        panic!("one note, not {notes:?}")
    };
    assert!(
        note.title.starts_with("Probes of a closed port"),
        "{}",
        note.title
    );
    // A service that existed before is missed.
    recording.listen(Listen {
        at: "10.79.0.1:7000",
        ..Listen::default()
    });
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::High);
}

#[test]
fn only_the_client_here() {
    let mut recording = cases::refused();
    recording.seen_from(CLIENT);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, f.scope.pid), (300, Some(77)));
    assert_eq!(f.confidence.level, Level::Medium);
    assert!(f.ruled_out.iter().all(|r| r.cause != "injected-reset"));
    assert!(
        f.title.starts_with("10.79.0.1:7000 refuses connects"),
        "{}",
        f.title
    );
}

/// As recorded by a kernel without these sources.
fn without(sources: &[&str]) -> Fixture {
    let mut recording = cases::refused();
    for source in &mut recording.manifest.sources {
        if sources.contains(&source.name.as_str()) {
            source.verdict = recording::Verdict::Unsupported("too old".into());
        }
    }
    recording.events.retain(|e| {
        let source = match e.kind.as_str() {
            "reset-sent" => "reset-unmatched",
            other => other,
        };
        !sources.contains(&source)
    });
    recording
}

#[test]
fn before_linux_6_10_the_drop_tells_of_the_refusal() {
    let f = only(&without(&["reset-unmatched"]), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.title.starts_with("Nothing listens on 10.79.0.1:7000"));
    assert!(ruled_out(&f, "injected-reset").contains("sent 300 resets"));
}

#[test]
fn before_linux_5_17_only_the_counter_hints_at_who_refused() {
    let recording = without(&["reset-unmatched", "drop"]);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Medium);
    let because = f.confidence.because.join("; ");
    assert!(because.contains("does not report whether"), "{because}");
    assert!(f.ruled_out.iter().all(|r| r.cause != "injected-reset"));
    let counted = f.evidence.iter().find(|s| s.says.contains("OutRsts"));
    assert!(counted.is_some_and(|s| s.says.contains("300 in")));
}

/// This many connects to a port, this far apart, all refused.
fn knocks(n: u32, every_ms: f64, to: &'static str) -> Fixture {
    let mut f = Fixture::new();
    f.count(HOST, "Tcp.AttemptFails", 0, n.into());
    for i in 0..n {
        f.dial(Dial {
            client: Some(HOST),
            server: Some(HOST),
            from: format!("127.0.0.1:{}", 40_000 + i),
            to,
            at_ms: f64::from(i) * every_ms,
            took_ms: 0.03,
            fate: Fate::Refused,
            ..Dial::default()
        });
    }
    f
}

#[test]
fn a_handful_is_healthy() {
    assert_eq!(found(&knocks(9, 10.0, "127.0.0.1:80")).len(), 0);
    assert_eq!(found(&knocks(2, 2_000.0, "127.0.0.1:80")).len(), 0);
    assert_eq!(found(&knocks(20, 100.0, "127.0.0.1:80")).len(), 1);
}

#[test]
fn a_port_scan_is_not_an_outage() {
    let mut f = Fixture::new();
    for i in 0..200u32 {
        f.dial(Dial {
            client: None,
            from: format!("198.51.100.{}:40000", i),
            to: "10.79.0.1:23",
            at_ms: f64::from(i),
            fate: Fate::Refused,
            ..Dial::default()
        });
    }
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn a_scan_that_comes_again_and_again_is_one_note() {
    // Every two seconds the same ports.
    let scan = |ports: u16, rounds: u16| {
        let mut f = Fixture::new();
        for i in 0..ports * rounds {
            let (round, port) = (i / ports, i % ports);
            let to: &str = format!("10.79.0.1:{}", 1_000 + port).leak();
            f.dial(Dial {
                server: None,
                from: format!("10.79.0.2:{}", 40_000 + i),
                to,
                at_ms: 2_000.0 * f64::from(round) + f64::from(port),
                fate: Fate::Refused,
                ..Dial::default()
            });
        }
        let explained = explain(&f.write().expect("writes")).expect("reads");
        let notes = explained.notes.iter().filter(|n| n.cause == ID);
        let titles: Vec<String> = notes.map(|n| n.title.clone()).collect();
        let found = explained.findings.iter().filter(|f| f.cause == ID);
        (found.count(), titles)
    };
    let note = "A scan: 40 closed ports of 10.79.0.1 were tried.";
    assert_eq!(scan(40, 4), (0, vec![note.to_string()]));
    // Who misses some services comes back to them more often than there are.
    assert_eq!(scan(3, 12), (3, Vec::new()));
}

#[test]
fn a_service_bound_to_another_address_is_pointed_out() {
    let mut f = cases::refused();
    f.listen(Listen {
        at: "127.0.0.1:7000",
        ..Listen::default()
    });
    let f = only(&f, ID);
    assert!(
        f.fix.starts_with("It listens on 127.0.0.1:7000"),
        "{}",
        f.fix
    );
    assert!(f.advice.len() == 2);
}

#[test]
fn a_service_of_the_other_family_is_pointed_out() {
    let listens = |at| {
        let mut f = knocks(30, 10.0, "[::1]:8080");
        f.events.iter_mut().for_each(|event| event.family = 6);
        f.listen(Listen {
            netns: HOST,
            at,
            ..Listen::default()
        });
        only(&f, ID).fix
    };
    let fix =
        "It listens on 0.0.0.0:8080 only: have it listen on [::]:8080 too, or connect over IPv4.";
    assert_eq!(listens("0.0.0.0:8080"), fix);
    assert!(listens("127.0.0.1:8080").starts_with("It listens on 127.0.0.1:8080: bind it"));
}

/// `localhost` is ::1 first, and the service listens on 127.0.0.1 only.
#[test]
fn who_goes_on_to_the_other_family_misses_nothing() {
    let mut f = knocks(30, 130.0, "[::1]:8080");
    assert_eq!(found(&f).len(), 1);
    for i in 0..30 {
        f.dial(Dial {
            client: Some(HOST),
            server: Some(HOST),
            from: format!("127.0.0.1:{}", 50_000 + i),
            to: "127.0.0.1:8080",
            at_ms: f64::from(i) * 130.0 + 0.1,
            took_ms: 0.05,
            ..Dial::default()
        });
    }
    assert!(found(&f).is_empty());
    let notes = explain(&f.write().unwrap()).unwrap().notes;
    let [note] = &notes[..] else {
        panic!("one note, not {notes:?}")
    };
    assert!(note.title.contains("another address"), "{}", note.title);
}

#[test]
fn ipv6_is_written_as_it_is_typed() {
    let mut f = knocks(30, 10.0, "[::1]:8080");
    for event in &mut f.events {
        event.family = 6;
    }
    assert_eq!(only(&f, ID).scope.listener, "[::1]:8080");
}

#[test]
fn a_reset_where_a_listener_is_was_sent_by_another() {
    let mut f = cases::refused();
    // A firewall rejects in front of a listener: no kernel of this host sends a reset.
    f.events.retain(|e| e.netns == CLIENT);
    f.listen(Listen {
        at: "10.79.0.1:7000",
        ..Listen::default()
    });
    only(&f, "injected-reset");
}

#[test]
fn a_reset_by_the_local_firewall_is_not_a_missing_listener() {
    let mut f = cases::refused();
    f.events.retain(|e| e.netns == CLIENT);
    let (to, port, _) = synth::place("10.79.0.1:7000");
    f.events.push(Event {
        time_ns: synth::START_NS + 1,
        kind: EventKind::Drop,
        netns: CLIENT,
        family: 4,
        local_addr: to,
        local_port: port,
        reason: Some("NETFILTER_DROP".into()),
        flags: Some(2),
        ..Event::default()
    });
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn lost_events_lower_the_confidence() {
    let mut recording = cases::refused();
    recording.lose(SourceName::ResetsSent, 5);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
}

/// A program that connects to a place once a second and gets a reset.
fn once_a_second(f: &mut Fixture, to: &'static str, from_port: u32, jitter_ms: f64) {
    for i in 0..9u32 {
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", from_port + i),
            to,
            at_ms: 100.0 + f64::from(i) * 1_000.0 + f64::from(i % 3) * jitter_ms,
            took_ms: 0.5,
            fate: Fate::Refused,
            ..Dial::default()
        });
    }
}

#[test]
fn a_database_that_is_down_and_reconnected_to_once_a_second_is_an_outage() {
    let mut f = Fixture::new();
    for client in 0..5u32 {
        let jitter_ms = 40.0 + 30.0 * f64::from(client);
        once_a_second(&mut f, "10.79.0.9:5432", 40_000 + 100 * client, jitter_ms);
    }
    let outage = only(&f, ID);
    assert_eq!((outage.impact.affected, outage.impact.of), (45, 45));
    // No counter of this host rose.
    assert_eq!(outage.confidence.level, Level::Low);
    // One client that tries again at a fixed interval.
    let mut f = Fixture::new();
    once_a_second(&mut f, "10.79.0.9:5432", 40_000, 0.0);
    only(&f, ID);
    // It asks another place as often, which answers.
    for i in 0..9u32 {
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 50_000 + i),
            to: "10.79.0.9:5433",
            at_ms: 300.0 + f64::from(i) * 1_000.0,
            ends_ms: Some(500.0 + f64::from(i) * 1_000.0),
            ..Dial::default()
        });
    }
    assert!(found(&f).is_empty());
    // One client, whose connection broke.
    let mut f = Fixture::new();
    f.dial(Dial {
        server: None,
        to: "10.79.0.9:5432",
        at_ms: 10.0,
        ends_ms: Some(90.0),
        ..Dial::default()
    });
    once_a_second(&mut f, "10.79.0.9:5432", 41_000, 0.0);
    only(&f, ID);
}

#[test]
fn a_load_balancer_asks_whether_a_backend_is_back() {
    let mut f = Fixture::new();
    once_a_second(&mut f, "10.79.0.9:5432", 40_000, 0.0);
    for i in 0..50u32 {
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 50_000 + i),
            to: "10.79.0.8:5432",
            at_ms: 100.0 + f64::from(i) * 150.0,
            ends_ms: Some(200.0 + f64::from(i) * 150.0),
            ..Dial::default()
        });
    }
    assert!(found(&f).is_empty());
    // The requests that it sends there are no probes: they are irregular.
    once_a_second(&mut f, "10.79.0.9:5432", 41_000, 170.0);
    only(&f, ID);
}

/// Connects of which every `told`-th gets an error; the rest gets no answer for 300 ms.
fn rejected(error: &'static str, told: u32) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..20u32 {
        let at_ms = 100.0 + f64::from(i) * 350.0;
        let (fate, took_ms) = match i % told {
            0 => (Fate::Fails(error), 0.2),
            _ => (Fate::Unanswered, 0.0),
        };
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 40_000 + i),
            to: "10.96.0.10:80",
            at_ms,
            took_ms,
            fate,
            ends_ms: Some(at_ms + 300.0),
            ..Dial::default()
        });
    }
    f.count(CLIENT, "Icmp.InDestUnreachs", 0, 20);
    f
}

#[test]
fn clients_whom_the_other_family_served_lost_nothing() {
    let mut f = Fixture::new();
    for i in 0..20u32 {
        let at_ms = 100.0 + f64::from(i) * 350.0;
        f.dial(Dial {
            server: None,
            from: format!("[2001:db8::2]:{}", 40_000 + i),
            to: "[2001:db8::9]:80",
            at_ms,
            took_ms: 0.2,
            fate: Fate::Fails("ENETUNREACH"),
            ..Dial::default()
        });
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 50_000 + i),
            to: "10.96.0.10:80",
            at_ms: at_ms + 1.0,
            ends_ms: Some(at_ms + 200.0),
            ..Dial::default()
        });
    }
    f.count(CLIENT, "Icmp6.Icmp6InDestUnreachs", 0, 20);
    assert!(found(&f).is_empty(), "{:?}", found(&f));
}

#[test]
fn icmp_refuses_and_is_rationed() {
    for told in [1, 4] {
        let f = only(&rejected("ECONNREFUSED", told), ID);
        assert_eq!((f.impact.affected, f.impact.of), (20, 20));
        assert_eq!(f.confidence.level, Level::Medium);
        let title =
            "ICMP reports 10.96.0.10:80 unreachable: 20 of 20 connects failed (ECONNREFUSED).";
        assert_eq!(f.title, title);
        assert!(f.arithmetic.iter().all(|c| c.agrees));
    }
}

/// A packet to the place of `rejected` that was dropped here.
fn dropped(nth: u64, netns: u32, reason: &str) -> Event {
    let (local_addr, local_port, _) = synth::place("10.96.0.10:80");
    Event {
        time_ns: synth::START_NS + nth,
        kind: EventKind::Drop,
        netns,
        family: 4,
        local_addr,
        local_port,
        reason: Some(reason.into()),
        flags: Some(2),
        ..Event::default()
    }
}

#[test]
fn a_rule_here_rejects_for_a_service_without_endpoints() {
    let mut f = rejected("ECONNREFUSED", 4);
    f.events
        .extend((0..20).map(|i| dropped(i, HOST, "NETFILTER_DROP")));
    let f = only(&f, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(
        f.title.starts_with("A firewall here rejects connects"),
        "{}",
        f.title
    );
    assert!(matches!(
        f.advice[0].change,
        Some(Change::AllowSyns { netns: HOST, .. })
    ));
}

#[test]
fn a_next_hop_that_does_not_answer() {
    let mut f = rejected("EHOSTUNREACH", 1);
    f.events
        .extend((0..20).map(|i| dropped(i, CLIENT, "NEIGH_FAILED")));
    let f = only(&f, ID);
    assert!(
        f.title
            .starts_with("The next hop to 10.96.0.10:80 does not"),
        "{}",
        f.title
    );
}

#[test]
fn two_errors_or_a_few_among_many_connects_are_no_finding() {
    let mut few = rejected("EHOSTUNREACH", 1);
    few.events.truncate(4);
    assert!(found(&few).is_empty());
    // Timeouts of the kernel are not errors that another host sent.
    assert!(
        found(&rejected("ETIMEDOUT", 1))
            .iter()
            .all(|f| f.cause != ID)
    );
}

#[test]
fn an_error_that_its_program_has_fetched_shows_by_the_icmp_messages() {
    let without_names = |mut f: Fixture| {
        f.events.iter_mut().for_each(|e| e.error = None);
        f
    };
    let f = only(&without_names(rejected("ECONNREFUSED", 4)), ID);
    assert_eq!((f.impact.affected, f.impact.of), (20, 20));
    assert_eq!(f.confidence.level, Level::Medium);
    // Without them it is unknown: the program may have given up.
    let mut f = without_names(rejected("ECONNREFUSED", 1));
    f.counters.clear();
    assert!(found(&f).is_empty());
}

#[test]
fn the_icmp_messages_of_a_namespace_are_its_own_and_those_of_ipv4() {
    let fetched = |mut f: Fixture| {
        f.events.iter_mut().for_each(|e| e.error = None);
        f
    };
    // Those of another namespace, which got no messages, gave up.
    let mut f = rejected("ECONNREFUSED", 1);
    for i in 0..20u32 {
        f.dial(Dial {
            client: Some(HOST),
            server: None,
            from: format!("10.79.0.3:{}", 40_000 + i),
            to: "10.96.0.10:80",
            at_ms: 120.0 + f64::from(i) * 350.0,
            took_ms: 0.2,
            fate: Fate::Fails("ECONNREFUSED"),
            ..Dial::default()
        });
    }
    let f = only(&fetched(f), ID);
    assert_eq!((f.impact.affected, f.impact.of), (20, 20));
    assert_eq!(f.scope.netns.inode, CLIENT);
    // What IPv4 received says nothing about IPv6.
    let mut f = Fixture::new();
    f.count(CLIENT, "Icmp.InDestUnreachs", 0, 20);
    for i in 0..20u32 {
        f.dial(Dial {
            server: None,
            from: format!("[2001:db8::2]:{}", 40_000 + i),
            to: "[2001:db8::9]:80",
            at_ms: 100.0 + f64::from(i) * 350.0,
            took_ms: 0.2,
            fate: Fate::Fails("ECONNREFUSED"),
            ..Dial::default()
        });
    }
    let named = only(&f, ID);
    assert_eq!(named.impact.affected, 20, "the kernel says so");
    assert!(found(&fetched(f)).is_empty());
}
