//! C09 is named when SYNs vanish on the way, and not when anything here explains it.

use recording::tables::{Event, Socket};
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, only, ruled_out};
use crate::{Began, Change, Layer, Level};
use synth::{CLIENT, Dial, Fate, Fixture, Listen, SERVER, START_NS, cases, place};

const ID: &str = "path-drops-syn";

/// A third of 90 connects lose their first SYN; `resends` of the others' segments get lost.
fn lost(resends: u32) -> Fixture {
    lost_for(resends, 1_014.0)
}

/// The same, getting through after this many ms.
fn lost_for(resends: u32, late_ms: f64) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..90u16 {
        let at_ms = 100.0 + f64::from(i) * 50.0;
        let lost = i % 3 == 0;
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            at_ms,
            took_ms: if lost { late_ms } else { 10.4 },
            retries: lost.into(),
            resends: if lost { 0 } else { resends },
            ends_ms: Some(at_ms + 1_500.0),
            ..Dial::default()
        });
    }
    f
}

#[test]
fn both_ends_here() {
    let f = only(&lost(0), ID);
    assert_eq!((f.impact.affected, f.impact.of), (30, 90));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.arithmetic.iter().all(|c| c.agrees) && f.arithmetic.len() == 3);
    let pass = Change::PassSyns {
        at: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(pass));
    assert!(ruled_out(&f, "local-firewall-drop").contains("dropped 0 SYNs"));
}

/// A connect that got through before its timer fired was let in by something else.
#[test]
fn what_comes_through_between_the_timeouts_does_not_fit() {
    let recording = lost_for(0, 1_414.0);
    let all = found(&recording);
    let f = all.iter().find(|f| f.cause == ID).expect("it is found");
    let timer = f
        .arithmetic
        .iter()
        .find(|c| c.formula.contains("SYN timer"))
        .expect("there is a check");
    assert_eq!((timer.expected, timer.measured), (30.0, 0.0));
    assert!(!timer.agrees && f.confidence.level != Level::High);
}

/// For several lost SYNs, the advice names what shortens the timer on the running kernel.
#[test]
fn the_timer_is_told_for_the_kernel_that_runs() {
    let advised = |kernel: &str, settings: &[(&str, &str)]| {
        let mut f = lost(0);
        f.manifest.host.kernel = kernel.into();
        for (name, value) in settings {
            f.set(CLIENT, name, value);
        }
        let longest = f.events.iter_mut();
        for event in longest.filter(|e| e.kind == EventKind::Retransmit) {
            event.attempt = Some(3);
        }
        let advice = only(&f, ID).advice;
        let told = |a: &crate::Advice| format!("{} {}", a.action, a.expected);
        advice.iter().map(told).collect::<Vec<_>>().join("\n")
    };
    let says = advised(
        "6.18.44",
        &[
            ("net.ipv4.tcp_syn_linear_timeouts", "0"),
            ("net.ipv4.tcp_rto_max_ms", "120000"),
        ],
    );
    assert!(says.contains("tcp_syn_linear_timeouts=4"), "{says}");
    assert!(says.contains("TIMEOUT_INIT (this kernel, 6.18, has it)"));
    let says = advised("6.1.0", &[]);
    assert!(
        says.contains("needs Linux 6.5, this host runs 6.1"),
        "{says}"
    );
}

#[test]
fn only_the_client_here() {
    let mut recording = lost(0);
    recording.seen_from(CLIENT);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Low);
    assert!(f.title.contains("beyond this host"), "{}", f.title);
}

#[test]
fn a_path_that_loses_everything_is_another_cause() {
    assert!(found(&lost(2)).iter().all(|f| f.cause != ID));
}

#[test]
fn without_drops_it_may_be_this_host() {
    let mut recording = lost(0);
    recording.without(SourceName::Drops);
    let f = only(&recording, ID);
    assert!(
        f.title.contains("on the path or on this host"),
        "{}",
        f.title
    );
    assert_eq!(f.confidence.level, Level::Low);
    assert!(f.ruled_out.iter().all(|r| r.cause != "local-firewall-drop"));
    let look = f.advice[1].command.as_deref();
    assert!(
        look.is_some_and(|c| c.contains("nft list ruleset")),
        "{look:?}"
    );
}

#[test]
fn without_retransmissions_nobody_knows() {
    let mut recording = lost(0);
    recording.without(SourceName::Retransmits);
    assert!(found(&recording).is_empty());
}

#[test]
fn what_explains_it_here_is_named_instead() {
    for other in [cases::accept_queue(), cases::syn_queue(), cases::refused()] {
        assert!(found(&other).iter().all(|f| f.cause != ID));
    }
    assert!(found(&cases::churn()).is_empty());
}

/// Connects that waited in SYN_SENT when the recording began, and still do: no event shows them.
fn hanging(n: u16, retransmits: u32) -> Fixture {
    let mut f = Fixture::new();
    let (remote_addr, remote_port, family) = place("192.0.2.9:443");
    for i in 0..n {
        for second in [0, 5, 9] {
            let (local_addr, _, _) = place("10.79.0.2:0");
            f.sockets.push(Socket {
                time_ns: START_NS + second * 1_000_000_000,
                netns: CLIENT,
                sock: 7_000 + u64::from(i),
                inode: Some(7_000 + u64::from(i)),
                family,
                state: TcpState::SynSent,
                local_addr,
                local_port: 40_000 + i,
                remote_addr,
                remote_port,
                congestion: Some("cubic".into()),
                total_retrans: Some(retransmits),
                ..Socket::default()
            });
        }
    }
    f
}

#[test]
fn connects_that_hung_before_the_recording_are_told() {
    let f = only(&hanging(2, 5), ID);
    assert!(
        f.title.starts_with("2 connects to 192.0.2.9:443 hang"),
        "{}",
        f.title
    );
    assert_eq!(f.confidence.level, Level::Low);
    assert_eq!(f.lost_s.seconds(), Some(20.0));
    let since = f.since.expect("a moment");
    assert_eq!(since.began, Began::Before);
}

#[test]
fn a_connect_that_was_never_retransmitted_or_where_others_get_through_does_not_hang() {
    assert!(found(&hanging(2, 0)).is_empty());
    let mut f = hanging(1, 5);
    // Another connect gets through to the same place.
    f.dial(Dial {
        to: "192.0.2.9:443",
        ..Dial::default()
    });
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

#[test]
fn a_frame_for_another_host_was_not_dropped_here() {
    let mut f = lost(0);
    let retries = f.events.iter().filter(|e| e.kind == EventKind::Retransmit);
    let copies = retries.map(|e| Event {
        kind: EventKind::Drop,
        reason: Some("OTHERHOST".into()),
        flags: Some(2),
        local_addr: e.remote_addr,
        local_port: e.remote_port,
        remote_addr: e.local_addr,
        remote_port: e.local_port,
        sock: None,
        state: None,
        ..e.clone()
    });
    let copies: Vec<Event> = copies.collect();
    assert!(copies.len() >= 30);
    f.events.extend(copies);
    only(&f, ID);
}

/// Every n-th connect gets no answer, and is given up after `patience_ms`; the others take 10.4 ms.
fn impatient(n: u16, every: u16, patience_ms: f64) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..n {
        let at_ms = 100.0 + f64::from(i) * 120.0;
        let lost = i % every == 0;
        let (fate, took) = if lost {
            (Fate::Unanswered, patience_ms)
        } else {
            (Fate::Established, 1_000.0)
        };
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 40_000 + i),
            to: "192.0.2.9:443",
            at_ms,
            fate,
            ends_ms: Some(at_ms + took),
            ..Dial::default()
        });
    }
    f
}

#[test]
fn connects_given_up_before_a_syn_is_retransmitted_are_told() {
    let f = only(&impatient(40, 1, 250.0), ID);
    assert_eq!((f.impact.affected, f.impact.of), (40, 40));
    assert_eq!(f.confidence.level, Level::Low);
    let title =
        "SYNs to 192.0.2.9:443 are lost beyond this host: 40 of 40 connects gave up after 250 ms.";
    assert_eq!(f.title, title);
    assert_eq!(f.scope.pid, Some(77));
    assert!(f.lost_s.seconds() > Some(4.0), "{:?}", f.lost_s.seconds());
    // One of five backends behind an address.
    let f = only(&impatient(75, 5, 250.0), ID);
    assert_eq!((f.impact.affected, f.impact.of), (15, 75));
    assert!(found(&impatient(3, 1, 900.0)).is_empty(), "for too short");
}

/// 16 of 700 connects lose a SYN and wait for most of the time: the share of the connects hides it.
#[test]
fn few_connects_that_take_most_of_the_time_are_told() {
    let mostly_well = |late: u16, took_ms: f64, lasts_ms: f64| {
        let mut f = Fixture::new();
        for i in 0..700u16 {
            let at_ms = 100.0 + f64::from(i) * 10.0;
            let is_late = i < late;
            f.dial(Dial {
                server: None,
                from: format!("10.79.0.2:{}", 40_000 + i),
                to: "192.0.2.9:443",
                at_ms,
                took_ms: if is_late { took_ms } else { 0.3 },
                rtt_us: 300,
                retries: is_late.into(),
                ends_ms: Some(at_ms + if is_late { took_ms } else { 0.3 } + lasts_ms),
                ..Dial::default()
            });
        }
        f
    };
    let f = only(&mostly_well(16, 1_014.0, 0.3), ID);
    assert_eq!((f.impact.affected, f.impact.of), (16, 700));
    assert_eq!(f.confidence.level, Level::Low);
    // Two are chance, however long the others take.
    assert!(found(&mostly_well(2, 1_014.0, 0.3)).is_empty());
}

#[test]
fn three_in_vain_over_two_seconds_are_told() {
    let mut f = Fixture::new();
    for i in 0..3u16 {
        let at_ms = 100.0 + f64::from(i) * 2_000.0;
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 40_000 + i),
            to: "192.0.2.9:443",
            at_ms,
            fate: Fate::Unanswered,
            ends_ms: Some(at_ms + 900.0),
            ..Dial::default()
        });
    }
    only(&f, ID);
    // One connect each to that many addresses is a scan.
    let (addr, _, _) = place("192.0.2.10:0");
    let mut nth = 0;
    for event in &mut f.events {
        if event.old_state == Some(TcpState::Close) {
            nth += 1;
        }
        if nth % 2 == 0 {
            event.remote_addr = addr;
        }
    }
    assert!(found(&f).is_empty());
}

#[test]
fn who_did_not_wait_for_the_answer_lost_no_syn() {
    // The round trip is 10.4 ms; across an ocean, loss cannot be told from distance.
    assert!(found(&impatient(40, 2, 25.0)).is_empty());
    assert!(found(&impatient(40, 1, 60.0)).is_empty());
    // Answers that come too late find no socket.
    let mut f = impatient(40, 1, 150.0);
    let ended = f.events.iter().filter(|e| e.state == Some(TcpState::Close));
    let resets = ended.map(|e| Event {
        time_ns: e.time_ns + 1_000_000,
        kind: EventKind::ResetSent,
        reason: Some("NO_SOCKET".into()),
        flags: Some(0x12),
        sock: None,
        state: None,
        old_state: None,
        ..e.clone()
    });
    let resets: Vec<Event> = resets.collect();
    f.events.extend(resets);
    assert!(found(&f).is_empty());
}

/// Connects to one port of a distant host, every other of which loses its SYN, and as many lose data; and to another
/// port.
fn two_ports(other_loses: bool) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..160u32 {
        let at_ms = 100.0 + f64::from(i) * 40.0;
        for (base, to, loses) in [
            (30_000, "192.0.2.9:443", true),
            (40_000, "192.0.2.9:80", other_loses),
        ] {
            let late = loses && i % 2 == 0;
            let took_ms = if late { 1_010.0 } else { 10.0 };
            f.dial(Dial {
                server: None,
                from: format!("10.79.0.2:{}", base + i),
                to,
                at_ms,
                took_ms,
                retries: late.into(),
                resends: late.into(),
                sends: 2_000,
                ends_ms: Some(at_ms + took_ms + 50.0),
                ..Dial::default()
            });
        }
    }
    f
}

#[test]
fn one_port_that_suffers_alone_is_no_path() {
    let f = only(&two_ports(false), ID);
    assert!(f.title.contains("leaves SYNs unanswered"), "{}", f.title);
    let mut steps = f.evidence.iter();
    assert!(steps.any(|s| {
        s.says
            .contains("0 of 160 connects to other ports of that host")
    }));
    assert!(f.fix.contains("accept queue"), "{}", f.fix);
    assert_eq!((f.layer, f.confidence.level), (Layer::Peer, Level::Low));
    // Where both suffer, it is not the port.
    let both = found(&two_ports(true));
    assert!(!both.is_empty());
    assert!(
        both.iter()
            .all(|f| !f.title.contains("leaves SYNs unanswered"))
    );
}

/// Connects of which `lost` get no answer, though the listener repeats its SYN-ACKs for them; the others are accepted.
fn one_way(client: Option<u32>, lost: u16, of: u16) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.count(SERVER, "TcpExt.TCPTimeouts", 0, i64::from(lost));
    let (server, port, family) = place("10.79.0.1:5000");
    for i in 0..of {
        let at_ms = 100.0 + f64::from(i) * 50.0;
        let from = format!("10.79.0.2:{}", 40_000 + i);
        let is_lost = i < lost;
        let fate = if is_lost {
            Fate::Unanswered
        } else {
            Fate::Established
        };
        let server_end = if is_lost { None } else { Some(SERVER) };
        if !is_lost || client.is_some() {
            f.dial(Dial {
                client,
                server: server_end,
                from: from.clone(),
                at_ms,
                fate,
                retries: if is_lost { 2 } else { 0 },
                ends_ms: Some(at_ms + 2_900.0),
                ..Dial::default()
            });
        }
        let (remote, remote_port, _) = place(&from);
        // One by its timer, two because the SYN came again.
        for after_ms in [1_000.0, 1_004.0, 2_010.0] {
            if is_lost {
                f.events.push(Event {
                    time_ns: START_NS + ((at_ms + after_ms) * 1e6) as u64,
                    kind: EventKind::SynAckRetransmit,
                    netns: SERVER,
                    family,
                    local_addr: server,
                    local_port: port,
                    remote_addr: remote,
                    remote_port,
                    ..Event::default()
                });
            }
        }
    }
    f.events.sort_by_key(|e| e.time_ns);
    f
}

#[test]
fn answers_that_get_lost_are_told_from_either_side() {
    let both = only(&one_way(Some(CLIENT), 10, 30), ID);
    let says = "SYN-ACKs from 10.79.0.1:5000 are lost on the way back: 10 of 30 connects got none in time.";
    assert_eq!(both.title, says);
    assert_eq!(both.confidence.level, Level::High, "{:?}", both.confidence);
    assert!(
        both.impact.says.ends_with("10 gave up."),
        "{}",
        both.impact.says
    );
    assert!(ruled_out(&both, "local-firewall-drop").contains("dropped 0 answers"));
    // Of clients elsewhere it is known that their SYNs came again.
    let server = only(&one_way(None, 10, 30), ID);
    let says = "SYN-ACKs from 10.79.0.1:5000 are lost on the way back: 20 SYNs came again.";
    assert_eq!(server.title, says);
    assert_eq!(
        server.confidence.level,
        Level::Medium,
        "{:?}",
        server.confidence
    );
    assert_eq!((server.impact.affected, server.impact.of), (20, 40));
    assert_eq!(server.lost_s.seconds(), Some(20.0));
}

/// What the listener's own timer repeats is of SYNs that nobody misses: forged ones never come again.
/// The kernel counts the SYN-ACKs that it repeated on the socket that is accepted: no data was lost.
#[test]
fn repeated_answers_are_no_lost_data() {
    let counted = |at_first: u32, at_the_end: u32| {
        let mut f = one_way(None, 10, 60);
        let accepted = |e: &&mut Event| e.kind == EventKind::State && e.netns == SERVER;
        for end in f.events.iter_mut().filter(accepted) {
            let again = match end.state {
                Some(TcpState::Established) => at_first,
                _ => at_the_end,
            };
            end.retransmits = Some(again);
        }
        f
    };
    assert!(
        found(&counted(2, 2))
            .iter()
            .any(|f| f.title.contains("SYN-ACKs"))
    );
    let data_too = found(&counted(2, 5));
    assert!(data_too.iter().all(|f| !f.title.contains("SYN-ACKs")));
}

#[test]
fn forged_syns_are_no_clients() {
    let mut f = one_way(None, 10, 30);
    f.raise(SERVER, "TcpExt.TCPTimeouts", 20);
    assert!(found(&f).is_empty());
    let mut f = one_way(None, 10, 30);
    f.count(SERVER, "TcpExt.SyncookiesSent", 0, 5_000);
    assert!(found(&f).iter().all(|f| f.cause != ID), "a flood");
    let mut f = one_way(None, 10, 30);
    f.count(SERVER, "TcpExt.ListenDrops", 0, 30);
    assert!(found(&f).iter().all(|f| f.cause != ID), "its queue is full");
}

/// Where data is lost as well, packets of every kind are.
#[test]
fn a_path_that_loses_data_too_is_not_the_way_back() {
    let one_way = one_way(Some(CLIENT), 10, 30);
    let mut f = one_way.clone();
    for i in 30..60u16 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            at_ms: 100.0 + f64::from(i) * 50.0,
            resends: 2,
            ends_ms: Some(8_000.0),
            ..Dial::default()
        });
    }
    f.events.sort_by_key(|e| e.time_ns);
    assert!(found(&one_way).iter().any(|f| f.title.contains("SYN-ACKs")));
    assert!(found(&f).iter().all(|f| !f.title.contains("SYN-ACKs")));
}

/// One connect to a dead place, for so many seconds, and what becomes of it.
fn one_connect(seconds: f64, fate: Fate) -> Fixture {
    let mut f = Fixture::new();
    f.dial(Dial {
        server: None,
        to: "192.0.2.9:443",
        fate,
        retries: 2,
        ends_ms: Some(100.0 + seconds * 1_000.0),
        ..Dial::default()
    });
    f
}

#[test]
fn one_that_hung_for_three_seconds_and_gave_up_is_told() {
    let f = only(&one_connect(3.2, Fate::Unanswered), ID);
    assert_eq!(
        f.title,
        "1 connect to 192.0.2.9:443 gave up: no answer for 3.2 s."
    );
    assert!(found(&one_connect(2.2, Fate::Unanswered)).is_empty());
}

#[test]
fn one_connect_of_the_command_is_enough() {
    let of_command = |fate| {
        let mut f = one_connect(2.2, fate);
        f.manifest.command_line = ["tcpwhy", "explain", "--", "curl"].map(String::from).into();
        f
    };
    assert_eq!(only(&of_command(Fate::Unanswered), ID).scope.pid, Some(77));
    for fate in [Fate::Refused, Fate::Fails("EHOSTUNREACH")] {
        let f = only(&of_command(fate), "connection-refused");
        assert!(
            f.asked && f.title.contains("1 of 1 connects"),
            "{}",
            f.title
        );
        assert!(found(&one_connect(2.2, fate)).is_empty(), "{fate:?}");
    }
}

/// Every connect loses its first SYN and none its second, in a namespace that offers ECN.
fn first_always_lost(ecn: u64) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..20u16 {
        let at_ms = 100.0 + f64::from(i) * 300.0;
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            at_ms,
            took_ms: 1_010.0,
            retries: 1,
            rtt_us: 90,
            ends_ms: Some(at_ms + 1_100.0),
            ..Dial::default()
        });
    }
    f.set(CLIENT, "net.ipv4.tcp_ecn", &ecn.to_string());
    f.seen_from(CLIENT);
    f
}

#[test]
fn the_first_syn_always_lost_and_the_second_never_is_what_it_offers() {
    for (ecn, offers) in [(1, true), (3, true), (0, false), (2, false)] {
        let f = only(&first_always_lost(ecn), ID);
        assert_eq!(
            f.title.starts_with("SYNs that offer ECN to"),
            offers,
            "{ecn}: {}",
            f.title
        );
        let set = f.advice[0].action.contains("tcp_ecn=2");
        assert_eq!(set, offers, "{}", f.advice[0].action);
        assert_eq!(f.fix.contains("ECE"), offers, "{}", f.fix);
    }
}
