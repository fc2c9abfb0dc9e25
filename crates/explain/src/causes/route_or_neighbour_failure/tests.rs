//! C36 is named by the kernel's reasons for its drops.

use crate::causes::local_firewall_drop::tests::{dropped, upload_with_drops};
use crate::causes::testing::{found, only, ruled_out, sysctls};
use crate::{Change, Level};
use recording::tables::{Call, Event};
use recording::{CallKind, EventKind, Ran, counter};
use synth::{CLIENT, Dial, Fate, Fixture, Listen, SERVER, START_NS, Task, place};

const ID: &str = "route-or-neighbour-failure";

#[test]
fn the_reverse_path() {
    let mut strict = dropped("IP_RPFILTER");
    strict.raise(SERVER, counter::IP_REVERSE_PATH_FILTER, 30);
    let all = found(&strict);
    let f = all.iter().find(|f| f.cause == ID).expect("found");
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.impact.affected, 30);
    assert_eq!(
        sysctls(f),
        [(SERVER, "net.ipv4.conf.all.rp_filter=2".to_string())]
    );
    assert_eq!(all.len(), 1, "{:?}", all[1].cause);
    // Clients elsewhere waited for their timers, one for each SYN.
    assert!(f.lost_s.seconds() >= Some(30.0), "{:?}", f.lost_s.seconds());
    // The counter does not show it.
    let f = only(&dropped("IP_RPFILTER"), ID);
    assert_ne!(f.confidence.level, Level::High);
}

#[test]
fn no_route_and_no_neighbour() {
    for reason in ["IP_INNOROUTES", "NEIGH_FAILED"] {
        let f = only(&dropped(reason), ID);
        assert!(matches!(
            f.advice[0].change,
            Some(Change::RepairPath { .. })
        ));
    }
}

#[test]
fn an_address_that_is_no_longer_ours() {
    let f = only(&dropped("IP_INADDRERRORS"), ID);
    assert!(f.title.contains("no address of this host"), "{}", f.title);
    assert!(f.fix.contains("10.79.0.1"), "{}", f.fix);
    assert_eq!(sysctls(&f), [(SERVER, "net.ipv4.ip_forward=1".to_string())]);
}

#[test]
fn an_address_that_goes_while_connections_use_it() {
    let mut f = upload_with_drops();
    // Each of its samples finds it on its timer.
    for row in &mut f.sockets {
        row.ca_state = Some("Loss".into());
    }
    let events = f.events.iter_mut();
    for event in events.filter(|e| e.kind == EventKind::Drop) {
        event.netns = SERVER;
        event.reason = Some("IP_INADDRERRORS".into());
    }
    let f = only(&f, ID);
    assert!(f.lost_s.seconds() > Some(3.0), "{:?}", f.lost_s.seconds());
    assert!(f.fix.contains("the address 10.79.0.1 again"), "{}", f.fix);
}

#[test]
fn a_rule_is_not_it() {
    only(&dropped("NETFILTER_DROP"), "local-firewall-drop");
    let mut share = dropped("NEIGH_FAILED");
    share.raise(SERVER, counter::OUT_SEGS, 50_000);
    assert!(found(&share).iter().all(|f| f.cause != ID));
    let mut few = dropped("IP_RPFILTER");
    let mut kept = 0;
    few.events.retain(|e| {
        kept += u32::from(e.reason.is_some());
        e.reason.is_none() || kept < 5
    });
    assert!(found(&few).iter().all(|f| f.cause != ID));
}

fn at_s(second: u64) -> u64 {
    START_NS + second * 1_000_000_000
}

/// A program connects to `to` once a second, this many times, and is told that there is no route.
fn without_a_way(to: &str, times: u64) -> Fixture {
    let mut f = Fixture::new();
    let (remote_addr, remote_port, family) = place(to);
    f.calls.extend((0..times).map(|i| Call {
        error: Some("ENETUNREACH".into()),
        family,
        remote_addr,
        remote_port,
        ..Task::new(77, "billing").call(at_s(1 + i), CLIENT, CallKind::Connect, 9_000)
    }));
    f
}

#[test]
fn connect_without_a_route() {
    let mut f = without_a_way("192.0.2.9:443", 5);
    let found = only(&f, ID);
    assert_ne!(
        found.confidence.level,
        Level::High,
        "the counter says nothing"
    );
    f.raise(CLIENT, counter::IP_OUT_NO_ROUTES, 5);
    let found = only(&f, ID);
    assert_eq!(
        found.confidence.level,
        Level::High,
        "{:?}",
        found.confidence
    );
    assert_eq!((found.scope.pid, found.impact.affected), (Some(77), 5));
    assert!(found.title.contains("192.0.2.9"), "{}", found.title);
    assert_eq!(found.lost_s.seconds(), Some(4.0));
}

/// Processes of one program connect to `to` once a second, and a route rejects each with `error`.
fn rejected(to: &str, error: &str, times: u64) -> Fixture {
    let mut f = Fixture::new();
    let (remote_addr, remote_port, family) = place(to);
    f.events.extend((0..times).map(|i| Event {
        time_ns: at_s(1 + i),
        kind: EventKind::NoRoute,
        netns: CLIENT,
        family,
        remote_addr,
        remote_port,
        pid: Some(77 + i as u32),
        comm: Some("curl".into()),
        error: Some(error.into()),
        ..Event::default()
    }));
    f
}

#[test]
fn a_route_that_rejects_is_told_with_its_type() {
    for (error, kind) in [
        ("EINVAL", "blackhole"),
        ("EACCES", "prohibit"),
        ("EHOSTUNREACH", "unreachable"),
    ] {
        let f = only(&rejected("192.0.2.9:443", error, 5), ID);
        assert!(
            f.title.contains(kind) && f.title.contains(error),
            "{}",
            f.title
        );
        assert_eq!((f.scope.pids.len(), f.impact.affected), (5, 5));
        assert_eq!(f.lost_s.seconds(), Some(4.0));
        let look = f.advice[0].command.as_ref().expect("a command");
        assert!(look.contains(&format!("type {kind}")), "{look:?}");
    }
    assert!(found(&rejected("192.0.2.9:443", "ETIMEDOUT", 5)).is_empty());
}

#[test]
fn one_rejected_connect_of_the_command_is_enough() {
    let mut f = rejected("192.0.2.9:443", "EINVAL", 1);
    assert!(found(&f).is_empty());
    f.manifest.ran = Some(Ran {
        pid: 77,
        start_ns: START_NS,
        end_ns: None,
    });
    f.manifest.command_line = ["tcpwhy", "explain", "--", "curl"]
        .map(String::from)
        .to_vec();
    assert_eq!(only(&f, ID).scope.pid, Some(77));
    f.manifest.command_line.pop();
    f.manifest.command_line.push("wget".into());
    f.manifest.ran = f.manifest.ran.map(|ran| Ran { pid: 9, ..ran });
    assert!(found(&f).is_empty(), "it is somebody else's");
}

#[test]
fn a_connect_or_two_without_a_route_or_a_moment_of_them() {
    assert!(found(&without_a_way("192.0.2.9:443", 2)).is_empty());
    let mut burst = without_a_way("192.0.2.9:443", 8);
    for (i, call) in (0..).zip(&mut burst.calls) {
        call.time_ns = at_s(2) + i;
    }
    assert!(found(&burst).is_empty());
    let mut other = without_a_way("192.0.2.9:443", 5);
    other.calls.iter_mut().for_each(|c| c.call = CallKind::Bind);
    assert!(found(&other).is_empty());
}

#[test]
fn the_counter_alone() {
    let risen = |seconds: &[u64], by| {
        let mut f = Fixture::new();
        for second in seconds {
            f.raise(CLIENT, counter::IP_OUT_NO_ROUTES, by);
            f.counters.last_mut().unwrap().time_ns = at_s(*second);
        }
        f
    };
    let f = only(&risen(&[2, 4, 6], 5), ID);
    assert_eq!(f.confidence.level, Level::Low, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.lost_s.seconds()), (15, None));
    assert!(found(&risen(&[2, 4, 6], 1)).is_empty(), "few");
    assert!(
        found(&risen(&[2, 4], 50)).is_empty(),
        "while something started"
    );
}

#[test]
fn who_goes_on_by_ipv4_needs_no_route_for_ipv6() {
    let mut f = without_a_way("[2001:db8::9]:443", 5);
    only(&f, ID);
    f.listen(Listen::default());
    for i in 0..5u16 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 41_000 + i),
            at_ms: 1_000.0 * f64::from(i + 1),
            ..Dial::default()
        });
    }
    assert!(found(&f).is_empty(), "{:?}", found(&f));
}

/// It gets through to where it had no route, each time 100 ms after it failed.
fn back(f: &mut Fixture, to: &'static str, times: u16) {
    for i in 0..times {
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 41_000 + i),
            to,
            at_ms: 1_000.0 * f64::from(i + 1) + 90.0,
            took_ms: 10.0,
            ..Dial::default()
        });
    }
}

#[test]
fn no_way_lasts_until_it_gets_through() {
    let to = "192.0.2.9:443";
    let mut f = without_a_way(to, 5);
    back(&mut f, to, 5);
    assert_eq!(only(&f, ID).lost_s.seconds(), Some(0.4));
    // It had a route to somewhere else all the time.
    let mut f = without_a_way(to, 5);
    back(&mut f, "192.0.2.10:443", 5);
    assert_eq!(only(&f, ID).lost_s.seconds(), Some(4.0));
    // Three failed connects, and nothing was held up for long.
    let mut f = without_a_way(to, 3);
    only(&f, ID);
    back(&mut f, to, 3);
    assert!(found(&f).is_empty(), "{:?}", found(&f));
}

#[test]
fn who_refused_it_is_not_hidden() {
    let to = "192.0.2.9:443";
    let mut f = without_a_way(to, 5);
    let refused = |f: &Fixture| ruled_out(&only(f, ID), "connection-refused").to_string();
    assert!(refused(&f).contains("of 0 SYNs"), "{}", refused(&f));
    back(&mut f, to, 2);
    f.dial(Dial {
        server: None,
        from: "10.79.0.2:42000".into(),
        to,
        at_ms: 6_000.0,
        fate: Fate::Refused,
        ..Dial::default()
    });
    let says = refused(&f);
    assert!(says.contains("resets answered 1 of 3 SYNs"), "{says}");
}

#[test]
fn what_a_node_passes_on_and_nobody_sends_again_is_a_note() {
    let mut f = dropped("NEIGH_FAILED");
    // It is a small share of what it forwards.
    f.raise(SERVER, counter::IP_IN_RECEIVES, 1_000_000);
    assert!(found(&f).iter().all(|f| f.cause != ID));
    let mut once = dropped("NEIGH_FAILED");
    let dropped = once.events.iter_mut().filter(|e| e.reason.is_some());
    for (n, event) in dropped.enumerate() {
        event.remote_addr = place(&format!("192.0.2.{n}:1")).0;
    }
    once.seen_from(SERVER);
    let told = found(&once);
    assert!(
        told.is_empty(),
        "{:?}",
        told.iter()
            .map(|f| (&f.title, f.lost_s.seconds()))
            .collect::<Vec<_>>()
    );
    let notes = crate::explain(&once.write().unwrap()).unwrap().notes;
    assert!(notes.iter().any(|n| n.cause == ID), "{notes:?}");
}

#[test]
fn a_route_is_missing_to_where_packets_go() {
    let f = only(&dropped("IP_INNOROUTES"), ID);
    assert!(f.fix.contains("a route to 10.79.0.1"), "{}", f.fix);
    let look = f.advice[0].command.as_deref();
    assert!(look.is_some_and(|c| c.ends_with("ip route get 10.79.0.1")));
}

/// The SYNs of the client come back to its own namespace, translated to its own address.
fn hairpin() -> Fixture {
    let mut f = dropped("IP_LOCAL_SOURCE");
    let client = place("10.79.0.2:1").0;
    for event in f.events.iter_mut().filter(|e| e.kind == EventKind::Drop) {
        event.netns = CLIENT;
        event.local_addr = client;
    }
    f.seen_from(CLIENT);
    f
}

#[test]
fn a_hairpin_is_not_rp_filter_and_lost_syns_are_its_consequence() {
    let f = only(&hairpin(), ID);
    assert!(
        f.title.contains("hairpin without masquerade"),
        "{}",
        f.title
    );
    assert!(f.title.contains("10.79.0.1:5000"), "{}", f.title);
    let consequence = |s: &crate::Step| {
        s.says
            .contains("A consequence of it: SYNs to 10.79.0.1:5000")
    };
    assert!(f.evidence.iter().any(consequence), "{:?}", f.evidence);
    assert!(sysctls(&f).is_empty());
}

#[test]
fn frames_for_another_machine_matter_where_the_address_is_ours() {
    let f = only(&dropped("OTHERHOST"), ID);
    assert!(
        f.title.contains("another machine's hardware address"),
        "{}",
        f.title
    );
    assert!(f.fix.contains("10.79.0.1"), "{}", f.fix);
    // Copies of what others are sent, on a bridge that floods.
    let mut copies = dropped("OTHERHOST");
    for event in copies
        .events
        .iter_mut()
        .filter(|e| e.kind == EventKind::Drop)
    {
        event.netns = 4_026_539_999;
    }
    assert!(found(&copies).iter().all(|f| f.cause != ID));
}
