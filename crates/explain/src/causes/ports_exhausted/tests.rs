//! C02 is named when connects fail for lack of a port, and only then.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use recording::tables::Event;
use recording::{EventKind, TcpState};
use synth::{CLIENT, Dial, Fate, Fixture, Listen, OnCpu, SERVER, cases};

const ID: &str = "ports-exhausted";
const TO: &str = "10.79.0.1:5000";

/// 2,000 connections from 2,000 ports, and 100 connects that find none.
fn exhausted() -> Fixture {
    exhausted_until(None)
}

/// The same, all of them ending at a time, ms.
fn exhausted_until(ends_ms: Option<f64>) -> Fixture {
    let mut f = Fixture::new();
    f.set(CLIENT, "net.ipv4.ip_local_port_range", "20000 21999");
    f.listen(Listen::default());
    for i in 0..2_000 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 20_000 + i),
            to: TO,
            at_ms: f64::from(i),
            took_ms: 0.05,
            ends_ms,
            ..Dial::default()
        });
    }
    for i in 0..100 {
        f.dial(Dial {
            from: "10.79.0.2:0".into(),
            to: TO,
            at_ms: 2_500.0 + f64::from(i) * 10.0,
            fate: Fate::Unanswered,
            ends_ms: Some(2_500.2 + f64::from(i) * 10.0),
            ..Dial::default()
        });
    }
    f.ports(CLIENT, "10.79.0.2:0", TO, [2_000; 2]);
    for row in &mut f.port_uses {
        row.range_high = 21_999;
    }
    f
}

#[test]
fn connects_that_find_no_port() {
    let f = only(&exhausted(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (100, 2_100));
    assert_eq!(number(&f, "ports_used"), &Number::Count(2_000));
    assert!(matches!(f.advice[0].change, Some(Change::Sysctl { .. })));
    assert!(ruled_out(&f, "connection-refused").starts_with("0 of them"));
}

/// Both ends close before the ports are counted: some clients' last ACK arrives after the server's socket is gone, and
/// the reset that answers it ends TIME_WAIT.
#[test]
fn ports_counted_after_all_was_closed_fit_those_still_held() {
    let counted = |resets: u64, ports: u32, rfc1337: &str| {
        let mut f = exhausted_until(Some(4_000.0));
        f.set(CLIENT, "net.ipv4.tcp_rfc1337", rfc1337);
        for row in &mut f.port_uses {
            (row.ports_used, row.time_wait, row.established) = (ports, ports, 0);
        }
        let (local_addr, local_port, _) = synth::place(TO);
        for i in 0..resets {
            let (remote_addr, remote_port, _) = synth::place(&format!("10.79.0.2:{}", 20_000 + i));
            f.events.push(Event {
                time_ns: synth::START_NS + 4_000_100_000 + i,
                kind: EventKind::ResetSent,
                netns: SERVER,
                family: 4,
                local_addr,
                local_port,
                remote_addr,
                remote_port,
                state: Some(TcpState::Listen),
                reason: Some("TCP_FLAGS".into()),
                flags: Some(16),
                ..Event::default()
            });
        }
        let f = only(&f, ID);
        assert_eq!(number(&f, "ports_used"), &Number::Count(2_000));
        (f.arithmetic[0].expected, f.arithmetic[0].agrees)
    };
    assert_eq!(counted(600, 1_400, "0"), (1_400.0, true));
    // Resets that do not end it, or no resets, leave the difference unexplained.
    assert_eq!(counted(600, 1_400, "1"), (2_000.0, false));
    assert_eq!(counted(0, 1_400, "0"), (2_000.0, false));
}

/// Nothing holds a port any more when they are counted.
#[test]
fn ports_counted_when_all_were_free_say_nothing_against_it() {
    let mut f = exhausted_until(Some(4_000.0));
    f.server_closes_first();
    for row in &mut f.port_uses {
        (row.ports_used, row.established) = (0, 0);
    }
    let f = only(&f, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.arithmetic);
}

/// A load generator that ends closes sockets whose SYN has no answer yet; the ports of 2,000 were reused repeatedly
/// before, as the server closes first.
#[test]
fn connects_that_are_given_up_had_ports() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..6_000u32 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 20_000 + i % 2_000),
            to: TO,
            at_ms: f64::from(i),
            took_ms: 0.05,
            ends_ms: Some(f64::from(i) + 1.0),
            ..Dial::default()
        });
    }
    f.server_closes_first();
    for i in 0..32 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 30_000 + i),
            to: TO,
            at_ms: 5_900.0,
            fate: Fate::Unanswered,
            ends_ms: Some(6_000.0),
            ..Dial::default()
        });
    }
    // Some did close first: TIME_WAIT is counted.
    f.ports(CLIENT, "10.79.0.2:0", TO, [6, 200]);
    for row in &mut f.port_uses {
        (row.range_low, row.range_high) = (20_000, 21_999);
        row.time_wait = 150;
    }
    let found = found(&f);
    assert!(found.iter().all(|f| f.cause != ID), "{found:#?}");
}

#[test]
fn the_search_before_the_failure_is_a_part_of_it() {
    let mut f = exhausted();
    let at = OnCpu {
        cpu: 0,
        pid: 700,
        comm: "proxy",
        softirq: false,
        stack: &["__inet_hash_connect"],
    };
    f.on_cpu(at, 1_000, 900);
    for event in f.events.iter_mut().filter(|e| e.netns == CLIENT) {
        event.pid = Some(700);
    }
    only(&f, ID);
}

#[test]
fn ports_in_time_wait_ask_to_be_reused() {
    let mut f = exhausted();
    for row in &mut f.port_uses {
        (row.time_ns, row.time_wait) = (row.time_ns - 2_000_000_000, row.ports_used);
    }
    let f = only(&f, ID);
    let changes = f.advice.iter().filter_map(|a| a.change.as_ref());
    let reuse = |c: &Change| matches!(c, Change::Sysctl { name, .. } if name.ends_with("tw_reuse"));
    assert!(changes.into_iter().any(reuse), "{:?}", f.advice);
}

#[test]
fn failures_with_ports_to_spare_are_another_matter() {
    let mut f = exhausted();
    for row in &mut f.port_uses {
        row.range_high = 28_999;
    }
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn a_full_range_without_failures_is_none() {
    let mut f = exhausted();
    f.events.retain(|e| e.local_port != 0);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn counts_that_are_missing_keep_it_silent() {
    let mut f = exhausted();
    f.port_uses.clear();
    assert_eq!(found(&f).len(), 0);
    assert_eq!(found(&cases::refused())[0].cause, "connection-refused");
}
