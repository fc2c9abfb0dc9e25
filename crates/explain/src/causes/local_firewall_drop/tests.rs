//! C08 is named when clients suffer from a rule here, and not for strangers that it keeps out.

use recording::tables::Event;
use recording::{EventKind, RetransmitKind};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{CLIENT, Dial, Fate, Fixture, Flow, Listen, SERVER, START_NS, cases, place};

const ID: &str = "local-firewall-drop";

/// A third of 90 connects lose their first SYN to a rule at the server, for 1 s.
pub(crate) fn dropped(reason: &str) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..90u16 {
        let at_ms = 100.0 + f64::from(i) * 50.0;
        let lost = i % 3 == 0;
        let from = format!("10.79.0.2:{}", 40_000 + i);
        f.dial(Dial {
            from: from.clone(),
            at_ms,
            took_ms: if lost { 1_004.0 } else { 0.1 },
            retries: lost.into(),
            rtt_us: 90,
            ends_ms: Some(at_ms + 1_100.0),
            ..Dial::default()
        });
        if lost {
            drop_syn(&mut f, &from, at_ms + 0.05, reason);
        }
    }
    f.events.sort_by_key(|e| e.time_ns);
    f
}

fn drop_syn(f: &mut Fixture, from: &str, at_ms: f64, reason: &str) {
    let (client, client_port, _) = place(from);
    let (server, server_port, family) = place("10.79.0.1:5000");
    f.events.push(Event {
        time_ns: START_NS + (at_ms * 1e6) as u64,
        kind: EventKind::Drop,
        netns: SERVER,
        family,
        local_addr: server,
        local_port: server_port,
        remote_addr: client,
        remote_port: client_port,
        reason: Some(reason.into()),
        location: Some("nft_do_chain".into()),
        flags: Some(2),
        ..Event::default()
    });
}

#[test]
fn clients_here_wait() {
    let f = only(&dropped("NETFILTER_DROP"), ID);
    assert_eq!((f.impact.affected, f.impact.of), (30, 90));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(
        f.evidence[1]
            .says
            .contains("30 by NETFILTER_DROP in nft_do_chain")
    );
    let allow = Change::AllowSyns {
        netns: SERVER,
        at: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(allow));
    assert!(ruled_out(&f, "accept-queue-overflow").contains("by 0"));
}

#[test]
fn an_ebpf_firewall_is_one_too() {
    only(&dropped("TC_INGRESS"), ID);
}

#[test]
fn another_reason_is_no_firewall() {
    only(&dropped("IP_RPFILTER"), "route-or-neighbour-failure");
}

#[test]
fn clients_elsewhere_dropped_and_let_in_by_turns() {
    let mut recording = dropped("NETFILTER_DROP");
    recording.seen_from(SERVER);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, &*f.impact.counted), (30, "SYNs"));
    assert_eq!(f.confidence.level, Level::Medium);
    assert!(f.title.contains("drops SYNs"), "{}", f.title);
    assert_eq!(f.lost_s.seconds(), Some(30.0));
}

#[test]
fn a_client_that_is_banned_had_been_let_in_before() {
    let mut recording = dropped("NETFILTER_DROP");
    recording.seen_from(SERVER);
    let first_ns = recording
        .events
        .iter()
        .map(|e| e.time_ns)
        .min()
        .unwrap_or(0);
    for drop in recording
        .events
        .iter_mut()
        .filter(|e| e.kind == EventKind::Drop)
    {
        // After the last accepted one.
        drop.time_ns = drop.time_ns - first_ns + START_NS + 6_000_000_000;
    }
    recording.events.sort_by_key(|e| e.time_ns);
    assert!(found(&recording).is_empty());
}

#[test]
fn clients_elsewhere_that_a_rule_answers_do_not_come_again() {
    let mut recording = dropped("NETFILTER_DROP");
    let turned_away = |e: &Event| e.local_port % 3 == 1 || e.remote_port % 3 == 1;
    recording
        .events
        .retain(|e| e.kind == EventKind::Drop || !turned_away(e));
    recording.seen_from(SERVER);
    let f = only(&recording, ID);
    assert!(f.title.contains("turns away SYNs"), "{}", f.title);
    assert!(
        f.impact.says.contains("Almost none was retransmitted"),
        "{}",
        f.impact.says
    );
    // From the first to the last, plus the second that the last one waits.
    let lost = f.lost_s.seconds().expect("measured");
    assert!((5.3..5.4).contains(&lost), "{lost}");
}

#[test]
fn strangers_that_are_kept_out_are_no_finding() {
    let mut f = cases::churn();
    for i in 0..500u16 {
        let from = format!("203.0.113.9:{}", 1_000 + i);
        drop_syn(&mut f, &from, f64::from(i) * 10.0, "NETFILTER_DROP");
    }
    f.events.sort_by_key(|e| e.time_ns);
    assert!(found(&f).is_empty());
}

#[test]
fn a_client_that_gave_up_counts() {
    let mut f = dropped("NETFILTER_DROP");
    for i in 0..20u16 {
        let from = format!("10.79.0.2:{}", 50_000 + i);
        let at_ms = 200.0 + f64::from(i);
        f.dial(Dial {
            from: from.clone(),
            at_ms,
            retries: 3,
            fate: Fate::Unanswered,
            ends_ms: Some(at_ms + 3_500.0),
            client: Some(CLIENT),
            ..Dial::default()
        });
        for n in 0..4 {
            drop_syn(
                &mut f,
                &from,
                at_ms + 0.1 + f64::from(n) * 1_000.0,
                "NETFILTER_DROP",
            );
        }
    }
    f.events.sort_by_key(|e| e.time_ns);
    let f = only(&f, ID);
    assert_eq!(f.impact.affected, 50);
    assert!(f.arithmetic[0].agrees, "{:?}", f.arithmetic);
}

/// An upload that loses three packets a second on this host.
pub(crate) fn upload_with_drops() -> Fixture {
    let mut recording = Fixture::new();
    recording.listen(Listen::default());
    recording.flow(Flow {
        again: vec![(RetransmitKind::Fast, 20_000); 3],
        dropped: 3,
        ..Flow::default()
    });
    recording
}

#[test]
fn packets_of_established_connections_are_told_with_the_rules_that_drop_them() {
    let mut recording = upload_with_drops();
    let events = recording.events.iter_mut();
    for event in events.filter(|e| e.kind == EventKind::Drop) {
        event.reason = Some("NETFILTER_DROP".into());
        event.location = Some("nft_do_chain".into());
    }
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.title.contains("packets of connections to"), "{}", f.title);
    assert_eq!(number(&f, "dropped"), &Number::Count(8 * 3));
    assert!(
        f.evidence[0]
            .says
            .contains("NETFILTER_DROP in nft_do_chain")
    );
}

/// A rule that drops what comes in drops acknowledgements as well: for these the server retransmits.
#[test]
fn dropped_acknowledgements_are_missed_by_the_other_end() {
    let mut recording = upload_with_drops();
    let events = recording.events.iter_mut();
    for event in events.filter(|e| e.kind == EventKind::Drop) {
        event.reason = Some("NETFILTER_DROP".into());
    }
    // Each packet is dropped three times, so most were no data of the client.
    let drops = recording.events.iter();
    let drops: Vec<_> = drops
        .filter(|e| e.kind == EventKind::Drop)
        .cloned()
        .collect();
    for drop in drops {
        for after in [1, 2] {
            let mut again = drop.clone();
            again.time_ns += after;
            recording.events.push(again);
        }
    }
    assert!(found(&recording).iter().all(|f| f.cause != ID));
    let resent = recording.events.iter();
    let resent = resent.filter(|e| e.kind == EventKind::Retransmit).cloned();
    let by_server: Vec<_> = resent
        .map(|mut e| {
            std::mem::swap(&mut e.local_addr, &mut e.remote_addr);
            std::mem::swap(&mut e.local_port, &mut e.remote_port);
            let mut ends = recording.sockets.iter();
            let end = ends.find(|s| s.netns == SERVER && s.remote_port == e.remote_port);
            (e.netns, e.sock) = (SERVER, end.map(|s| s.sock));
            e
        })
        .collect();
    recording.events.extend(by_server);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
}

#[test]
fn packets_of_a_translated_connection_are_those_of_both_its_ends() {
    let mut recording = upload_with_drops();
    // The server, and the firewall that drops there, know the client by another address.
    let (translated, ..) = place("192.0.2.1:1");
    let (client, ..) = place("10.79.0.2:1");
    let other = |addr: &mut recording::Addr| {
        if *addr == client {
            *addr = translated;
        }
    };
    for event in &mut recording.events {
        if event.kind == EventKind::Drop {
            event.netns = SERVER;
            event.reason = Some("NETFILTER_DROP".into());
        }
        if event.netns == SERVER {
            other(&mut event.remote_addr);
        }
    }
    for row in &mut recording.sockets {
        // The client's SYN is among what was acknowledged to it.
        let (sent, received) = match row.netns {
            SERVER => (7_001, 9_001),
            _ => (9_000, 7_001),
        };
        (row.snd_isn, row.rcv_isn) = (Some(sent), Some(received));
        if row.netns == SERVER {
            other(&mut row.remote_addr);
        }
    }
    let f = only(&recording, ID);
    assert!(f.title.contains("packets of connections to"), "{}", f.title);
    assert_eq!(number(&f, "dropped"), &Number::Count(8 * 3));
}

/// Uploads to a server here, with rules that drop three packets a second.
fn coming(flow: Flow) -> Fixture {
    let mut recording = Fixture::new();
    recording.listen(Listen::default());
    recording.flow(flow);
    let events = recording.events.iter_mut();
    for event in events.filter(|e| e.kind == EventKind::Drop) {
        event.netns = SERVER;
        event.reason = Some("NETFILTER_DROP".into());
    }
    recording.seen_from(SERVER);
    recording
}

#[test]
fn packets_that_come_from_elsewhere_are_told_though_nobody_here_sends_them_again() {
    let upload = Flow {
        dropped: 3,
        ..Flow::default()
    };
    let f = only(&coming(upload.clone()), ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert!(f.title.contains("packets that come to"), "{}", f.title);
    assert_eq!(number(&f, "dropped"), &Number::Count(8 * 3));
    // A download receives acknowledgements: the next one makes up for a dropped one.
    let download = Flow {
        answers: true,
        ..upload.clone()
    };
    assert!(found(&coming(download)).is_empty());
    let few = Flow {
        dropped: 2,
        ..upload
    };
    assert!(found(&coming(few)).is_empty());
}

/// Ten of 30 connects get no answer: a rule of `netns` drops the SYN-ACKs.
fn answers_dropped(netns: u32, client: Option<u32>) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    let (server, server_port, family) = place("10.79.0.1:5000");
    for i in 0..30u16 {
        let at_ms = 100.0 + f64::from(i) * 50.0;
        let from = format!("10.79.0.2:{}", 40_000 + i);
        let is_lost = i % 3 == 0;
        if !is_lost || client.is_some() {
            f.dial(Dial {
                client,
                server: (!is_lost).then_some(SERVER),
                from: from.clone(),
                at_ms,
                fate: if is_lost {
                    Fate::Unanswered
                } else {
                    Fate::Established
                },
                retries: if is_lost { 2 } else { 0 },
                ends_ms: Some(at_ms + 2_900.0),
                ..Dial::default()
            });
        }
        let (remote, remote_port, _) = place(&from);
        let repeated = Event {
            kind: EventKind::SynAckRetransmit,
            netns: SERVER,
            family,
            local_addr: server,
            local_port: server_port,
            remote_addr: remote,
            remote_port,
            ..Event::default()
        };
        for after_ms in [0.0, 1_000.0, 1_004.0, 2_010.0] {
            let time_ns = START_NS + ((at_ms + after_ms) * 1e6) as u64;
            if is_lost && after_ms > 0.0 {
                f.events.push(Event {
                    time_ns,
                    ..repeated.clone()
                });
            }
            if is_lost {
                // Local is where it goes.
                f.events.push(Event {
                    time_ns: time_ns + 50_000,
                    kind: EventKind::Drop,
                    netns,
                    family,
                    local_addr: remote,
                    local_port: remote_port,
                    remote_addr: server,
                    remote_port: server_port,
                    reason: Some("NETFILTER_DROP".into()),
                    location: Some("nft_do_chain".into()),
                    flags: Some(0x12),
                    ..Event::default()
                });
            }
        }
    }
    f.events.sort_by_key(|e| e.time_ns);
    f
}

#[test]
fn dropped_answers_to_syns_are_told() {
    let f = only(&answers_dropped(CLIENT, Some(CLIENT)), ID);
    let says = "A firewall here drops the answers of 10.79.0.1:5000 to SYNs: 40 packets, 10 of 30 connects got none.";
    assert_eq!(f.title, says);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.scope.netns.inode, CLIENT);
    let pass = Change::PassPackets {
        netns: Some(CLIENT),
        at: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(pass));
    // By a rule of the server's host, whose clients are elsewhere.
    let f = only(&answers_dropped(SERVER, None), ID);
    assert_eq!(f.scope.netns.inode, SERVER);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
}

/// One SYN-ACK in three is dropped, and the connect gets through with the next: it is told all the same, and a SYN-ACK
/// that comes once more after that is missed by nobody.
#[test]
fn dropped_answers_to_connects_that_get_through_later_are_told() {
    let late = |dropped_after_ms: f64| {
        let mut f = Fixture::new();
        f.listen(Listen::default());
        let (server, server_port, family) = place("10.79.0.1:5000");
        for i in 0..60u16 {
            let at_ms = 100.0 + f64::from(i) * 50.0;
            let from = format!("10.79.0.2:{}", 40_000 + i);
            let is_lost = i % 3 == 0;
            f.dial(Dial {
                from: from.clone(),
                at_ms,
                took_ms: if is_lost { 1_004.0 } else { 0.1 },
                retries: is_lost.into(),
                rtt_us: 90,
                ends_ms: Some(at_ms + 2_000.0),
                ..Dial::default()
            });
            let (remote, remote_port, _) = place(&from);
            if is_lost {
                f.events.push(Event {
                    time_ns: START_NS + ((at_ms + dropped_after_ms) * 1e6) as u64,
                    kind: EventKind::Drop,
                    netns: CLIENT,
                    family,
                    local_addr: remote,
                    local_port: remote_port,
                    remote_addr: server,
                    remote_port: server_port,
                    reason: Some("NETFILTER_DROP".into()),
                    location: Some("nft_do_chain".into()),
                    flags: Some(0x12),
                    ..Event::default()
                });
            }
        }
        f.events.sort_by_key(|e| e.time_ns);
        f
    };
    let f = only(&late(0.1), ID);
    let says = "A firewall here drops the answers of 10.79.0.1:5000 to SYNs: 20 packets, 20 of 60 connects got none.";
    assert_eq!(f.title, says);
    assert!(found(&late(1_500.0)).iter().all(|f| f.cause != ID));
}

/// A packet that its own rules drop is not retransmitted by the kernel's count: the drops are all there is.
#[test]
fn answers_that_never_left_are_told_from_the_server_alone() {
    let mut f = answers_dropped(SERVER, None);
    f.events.retain(|e| e.kind != EventKind::SynAckRetransmit);
    let f = only(&f, ID);
    let says = "A firewall here drops the answers of 10.79.0.1:5000 to SYNs: 40 packets.";
    assert_eq!(f.title, says);
}

/// Three connections of the client hang, and a router's rule drops each retransmission.
fn hung(reason: &str) -> Fixture {
    let mut f = cases::silent();
    each_drop_of_retransmissions(&mut f, ROUTER, reason);
    f
}

/// A namespace without an end.
pub(crate) const ROUTER: u32 = 4_026_539_999;

/// A namespace drops everything that an end retransmits.
pub(crate) fn each_drop_of_retransmissions(f: &mut Fixture, netns: u32, reason: &str) {
    let resent = f.events.iter().filter(|e| e.kind == EventKind::Retransmit);
    let drops: Vec<Event> = resent
        .map(|e| Event {
            time_ns: e.time_ns + 10_000,
            kind: EventKind::Drop,
            netns,
            family: e.family,
            local_addr: e.remote_addr,
            local_port: e.remote_port,
            remote_addr: e.local_addr,
            remote_port: e.local_port,
            reason: Some(reason.into()),
            location: Some("nft_do_chain".into()),
            flags: Some(0x18),
            ..Event::default()
        })
        .collect();
    f.events.extend(drops);
    f.events.sort_by_key(|e| e.time_ns);
}

#[test]
fn a_rule_that_drops_what_hangs_is_the_finding_whatever_the_count() {
    for side in [None, Some(CLIENT)] {
        let mut f = hung("NETFILTER_DROP");
        if let Some(side) = side {
            // The rule is in the namespace that is seen.
            for event in f.events.iter_mut().filter(|e| e.kind == EventKind::Drop) {
                event.netns = side;
            }
            f.seen_from(side);
        }
        let f = only(&f, ID);
        assert!(f.title.contains("3 connections hang"), "{}", f.title);
        assert!(f.lost_s.seconds() > Some(15.0), "{:?}", f.lost_s.seconds());
        assert!(f.since.is_some());
    }
}

/// A router that has neither end: the same packet is dropped as often as it is sent.
#[test]
fn a_router_sees_who_hangs_by_what_it_drops_again() {
    let routed = |flags: u8, seq: fn(u32) -> u32| {
        let mut f = hung("NETFILTER_DROP");
        for (nth, event) in (0..).zip(f.events.iter_mut()) {
            event.netns = if event.kind == EventKind::Drop {
                ROUTER
            } else {
                event.netns
            };
            (event.flags, event.seq) = (Some(flags), Some(seq(nth)));
        }
        f.seen_from(ROUTER);
        f
    };
    let f = only(&routed(0x18, |_| 7), ID);
    assert!(f.title.contains("3 connections hang"), "{}", f.title);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    // It goes on: each time another one. And nobody waits for a FIN.
    assert!(found(&routed(0x18, |nth| nth)).is_empty());
    assert!(found(&routed(0x11, |_| 7)).is_empty());
    // Strangers whom a rule is meant to keep out look the same.
    let syns = routed(0x02, |_| 7);
    assert!(found(&syns).is_empty());
    let explained = crate::explain(&syns.write().expect("writes")).expect("reads");
    let notes: Vec<_> = explained.notes.iter().map(|n| n.cause).collect();
    assert_eq!(notes, [ID]);
}

#[test]
fn a_rule_of_the_output_leaves_nothing_in_flight() {
    let held = |room: u32| {
        let mut f = hung("NETFILTER_DROP");
        for event in f.events.iter_mut().filter(|e| e.kind == EventKind::Drop) {
            event.netns = CLIENT;
        }
        f.seen_from(CLIENT);
        // The transmit fails, so that the kernel retransmits nothing: it probes.
        f.events.retain(|e| e.kind != EventKind::Retransmit);
        for row in f.sockets.iter_mut().filter(|s| s.rto_count.is_some()) {
            (row.rto_count, row.unacked, row.ca_state) = (None, Some(0), Some("Open".into()));
            (row.notsent_bytes, row.snd_wnd, row.probes) = (Some(100), Some(room), Some(3));
        }
        f
    };
    let f = only(&held(64_000), ID);
    assert!(f.title.contains("3 connections hang"), "{}", f.title);
    assert!(f.lost_s.seconds() > Some(15.0), "{:?}", f.lost_s.seconds());
    // The peer's window is closed.
    assert!(found(&held(0)).iter().all(|f| f.cause != ID));
}

#[test]
fn a_rule_that_drops_something_else_of_them_is_not_it() {
    let mut f = hung("NETFILTER_DROP");
    let mut kept = 0;
    f.events.retain(|e| {
        kept += u32::from(e.kind == EventKind::Drop);
        e.kind != EventKind::Drop || kept == 1
    });
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

#[test]
fn a_rule_that_drops_what_offers_ecn_is_told_by_what_it_drops() {
    let mut f = dropped("NETFILTER_DROP");
    // Those that pass do not offer it.
    for event in f.events.iter_mut().filter(|e| e.kind == EventKind::Drop) {
        event.flags = Some(0xc2);
    }
    let mixed = only(&f, ID);
    assert!(!mixed.title.contains("ECN"), "others pass: {}", mixed.title);
    f.events.retain(|e| {
        (e.local_port % 3 == 1 || e.remote_port % 3 == 1)
            || e.local_port == 5000 && e.remote_port == 0
    });
    let f = only(&f, ID);
    assert!(f.title.contains("drops SYNs that offer ECN"), "{}", f.title);
    assert!(!f.fix.contains("raise"), "{}", f.fix);
}
