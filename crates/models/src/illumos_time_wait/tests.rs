//! The simulation keeps what must hold of any such kernel, whatever its parameters.

use std::collections::HashSet;

use proptest::prelude::*;

use super::conn::Conn;
use super::observer::Observer;
use super::outcome::{Outcome, Second};
use super::params::Params;
use super::sim::simulate;
use crate::testing::{Audit, Set, follows_from_the_seed, is_unchanged_by_watching};

/// Watches and complains.
#[derive(Default)]
struct Auditor {
    live: HashSet<u64>,
    ids: HashSet<u64>,
    opened: u64,
    established: u64,
    closed: u64,
    rejected: u64,
    refused: u64,
    resent: u64,
    audit: Audit,
}

impl Observer for Auditor {
    fn opened(&mut self, conn: &Conn) {
        self.audit.at(conn.opened_ns);
        self.opened += 1;
        let new = self.live.insert(conn.end.key());
        self.audit
            .ensure(new, "two live connections have the same ends");
        let new = self.ids.insert(conn.id);
        self.audit.ensure(new, "two connections have one id");
    }
    fn refused(&mut self, _: &Conn, now_ns: u64) {
        self.audit.at(now_ns);
        self.refused += 1;
    }
    fn rejected(&mut self, conn: &Conn, now_ns: u64) {
        self.audit.at(now_ns);
        self.rejected += 1;
        self.live.remove(&conn.end.key());
    }
    fn resent(&mut self, _: &Conn, now_ns: u64) {
        self.audit.at(now_ns);
        self.resent += 1;
    }
    fn established(&mut self, conn: &Conn, now_ns: u64) {
        self.audit.at(now_ns);
        self.established += 1;
        let there = self.live.contains(&conn.end.key());
        self.audit.ensure(there, "established and not opened");
    }
    fn closed(&mut self, conn: &Conn, server_ns: u64, now_ns: u64) {
        self.audit.at(now_ns);
        self.audit
            .ensure(server_ns <= now_ns, "the client closed first");
        self.closed += 1;
        let there = self.live.remove(&conn.end.key());
        self.audit.ensure(there, "closed twice");
    }
    fn second(&mut self, now_ns: u64, second: &Second) {
        self.audit.at(now_ns);
        self.audit.ensure(
            second.busy_ns <= 1_000_000_000 + 1_000,
            "busy for more than the second",
        );
    }
}

fn audit(p: &Params, seed: u64) -> (Auditor, Outcome) {
    let mut auditor = Auditor::default();
    let outcome = simulate(p, seed, &mut auditor);
    (auditor, outcome)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_parameters(
        seed in 0u64..1_000_000,
        clients in 0u32..200,
        request_rate in 0u32..500,
        requests in 1u32..4,
        addresses in 1u32..5,
        separate in 0u32..2,
        strong in 0u32..3,
        random in 0u32..2,
        reset_loss in 0.0f64..1.0,
        fix in 0u32..2,
        interval in 1_000u32..20_000,
        delay in 0u32..20_000,
        smallest in 64_000u32..65_000,
    ) {
        let set = [
            "duration=4".to_string(),
            format!("clients={clients}"),
            format!("request_rate={request_rate}"),
            format!("requests_per_connection={requests}"),
            format!("client_addresses={addresses}"),
            format!("separate_hosts={separate}"),
            format!("tcp_strong_iss={strong}"),
            format!("tcp_random_anon_port={random}"),
            format!("reset_loss={reset_loss}"),
            format!("loopback_fix={fix}"),
            format!("tcp_time_wait_interval={interval}"),
            format!("path_delay={delay}"),
            format!("tcp_smallest_anon_port={smallest}"),
        ];
        let p = Params::with_drawn(&set);
        let (a, o) = audit(&p, seed);
        prop_assert!(a.audit.is_sound(), "{}", a.audit);
        // Every connection is established, or failed, or still connecting.
        let connecting = o.seconds.last().unwrap().connecting;
        prop_assert_eq!(a.opened, a.established + a.rejected + connecting);
        prop_assert_eq!(a.live.len() as u64, a.established - a.closed + connecting);
        // The counters are of what happened.
        let sum = |of: fn(&Second) -> u64| o.seconds.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|s| s.active), a.opened);
        prop_assert_eq!(sum(|s| s.passive), a.established);
        prop_assert_eq!(sum(|s| s.resent), a.resent);
        prop_assert_eq!(sum(|s| s.resets), a.refused + a.rejected);
        // A SYN is retransmitted after a refusal only.
        prop_assert!(a.resent <= a.refused && a.refused <= a.resent + connecting);
        if !p.leaves_time_wait() {
            prop_assert_eq!((a.refused, sum(|s| s.time_wait)), (0, 0));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    follows_from_the_seed::<Params>(&["duration=5"]);
}

#[test]
fn watching_changes_nothing() {
    is_unchanged_by_watching::<Params>(&["duration=5"], |p, seed| audit(p, seed).1);
}

#[test]
fn sequential_ports_meet_no_time_wait_before_all_were_used() {
    // 4 s at 5,850 connections/s are fewer than the 32,768 ports.
    let p = Params::with(&["tcp_random_anon_port=0", "duration=4"]);
    let o = simulate(&p, 1, &mut ());
    assert_eq!((o.hit, o.before_refusal), (0, None));
}

#[test]
fn other_sequence_numbers_of_the_kernel_do_not_help() {
    for strong in ["tcp_strong_iss=0", "tcp_strong_iss=2"] {
        let o = simulate(&Params::with(&[strong]), 1, &mut ());
        assert!(
            o.seconds[6].active < 1_200,
            "{strong}: {}",
            o.seconds[6].active
        );
    }
}

#[test]
fn a_longer_timeout_lowers_the_ceiling() {
    let older = Params::with(&["tcp_rexmit_interval_initial=3000", "duration=30"]);
    let o = simulate(&older, 1, &mut ());
    let mean = o.mean(10, 30, |s| s.resent);
    // 100 clients, one SYN each in 3.375 s.
    assert!((25.0..=30.5).contains(&mean), "{mean}");
}

#[test]
fn clients_stop_after_so_many_connects() {
    let o = simulate(&Params::with(&["connects=1000", "duration=2"]), 1, &mut ());
    let sum = |of: fn(&Second) -> u64| o.seconds.iter().map(of).sum::<u64>();
    assert_eq!((sum(|s| s.active), sum(|s| s.requests)), (1_000, 1_000));
}

#[test]
fn a_client_without_a_port_comes_again() {
    // An open load that the server does not keep up with holds all of 36 ports.
    let p = Params::with(&[
        "tcp_smallest_anon_port=65500",
        "clients=10",
        "request_rate=400",
        "capacity=20",
        "duration=20",
    ]);
    let (a, o) = audit(&p, 1);
    assert!(a.audit.is_sound(), "{}", a.audit);
    let none: u64 = o.seconds.iter().map(|s| s.no_port).sum();
    assert!(
        none > 100 && a.established > 100,
        "{none} {}",
        a.established
    );
}
