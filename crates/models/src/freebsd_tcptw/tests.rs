//! The simulation keeps what must hold of any such kernel, whatever its parameters.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::closed_form;
use super::observer::{Call, Conn, Observer};
use super::outcome::{Outcome, Second};
use super::params::{Params, SERVICES};
use super::pcbs::{List, State};
use super::sim::simulate;
use crate::testing::{Audit, Set, follows_from_the_seed, is_unchanged_by_watching};

/// Watches and complains.
#[derive(Default)]
struct Auditor {
    /// Open connections, and the ports of those that this host made.
    open: BTreeMap<u64, Conn>,
    ports: BTreeMap<u16, u64>,
    began_ns: u64,
    /// Until when the lock is held, by a search that was seen to begin.
    locked_until_ns: u64,
    accepted: u64,
    made: u64,
    failed: u64,
    searched_ns: u64,
    audit: Audit,
}

impl Auditor {
    /// Only who has the lock changes anything.
    fn changes(&mut self, now_ns: u64) {
        self.audit.at(now_ns);
        self.audit
            .ensure(now_ns >= self.locked_until_ns, "changed under the lock");
    }

    fn insert(&mut self, conn: Conn) {
        let new = self.open.insert(conn.id, conn).is_none();
        self.audit.ensure(new, "two connections have one id");
        if conn.outbound {
            let new = self.ports.insert(conn.local_port, conn.id).is_none();
            self.audit
                .ensure(new, "two connections of this host have one port");
        }
    }
}

impl Observer for Auditor {
    fn begins(&mut self, now_ns: u64, lists: &[List]) {
        self.audit.at(now_ns);
        self.began_ns = now_ns;
        for (local_port, list) in (0..=u16::MAX).zip(lists) {
            for pcb in list.all().filter(|pcb| pcb.state != State::TimeWait) {
                let (id, outbound) = (pcb.id, pcb.outbound);
                self.insert(Conn {
                    id,
                    local_port,
                    outbound,
                });
            }
        }
    }
    fn accepted(&mut self, conn: Conn, now_ns: u64) {
        self.changes(now_ns);
        self.accepted += 1;
        self.insert(conn);
    }
    fn established(&mut self, conn: Conn, called_ns: u64, now_ns: u64) {
        self.changes(now_ns);
        self.audit
            .ensure(called_ns < now_ns, "established before connect()");
        let there = self.open.get(&conn.id) == Some(&conn);
        self.audit.ensure(there, "established and not opened");
    }
    fn closed(&mut self, conn: Conn, first: bool, now_ns: u64) {
        self.changes(now_ns);
        self.audit
            .ensure(conn.outbound || first, "a service let the client close");
        let there = self.open.remove(&conn.id) == Some(conn);
        self.audit.ensure(there, "closed twice");
        self.ports.remove(&conn.local_port);
    }
    fn blocked(&mut self, worker: u32, holder: u32, from_ns: u64, to_ns: u64) {
        self.audit.at(from_ns);
        self.audit.ensure(worker != holder, "waits for itself");
        let known = to_ns == self.locked_until_ns || self.locked_until_ns == 0;
        self.audit.ensure(known, "waits for nobody");
    }
    fn searches(&mut self, _: u32, from_ns: u64, to_ns: u64) {
        self.changes(from_ns);
        self.locked_until_ns = to_ns;
        self.searched_ns += to_ns - from_ns;
    }
    fn returned(&mut self, call: &Call) {
        self.audit.at(call.returned_ns);
        let order = call.called_ns <= call.began_ns && call.began_ns <= call.returned_ns;
        self.audit.ensure(order, "a call's times are out of order");
        match call.made {
            Some(conn) => {
                self.made += 1;
                // One whose search began before was there at the beginning.
                if call.began_ns >= self.began_ns {
                    self.insert(conn);
                }
            }
            None => self.failed += 1,
        }
    }
    fn second(&mut self, now_ns: u64, second: &Second, lists: &[List]) {
        self.audit.at(now_ns);
        let in_lists = lists.iter().flat_map(List::all);
        let (mut open, mut waits) = (0, 0);
        for pcb in in_lists {
            match pcb.state {
                State::TimeWait => waits += 1,
                _ => open += 1,
            }
        }
        self.audit
            .ensure(second.open == open, "open connections are miscounted");
        self.audit
            .ensure(second.time_wait == waits, "TIME_WAITs are miscounted");
        let ports = lists.iter().filter(|list| list.len() > 0).count() as u64;
        self.audit
            .ensure(second.ports == ports, "ports in use are miscounted");
        self.audit.ensure(
            second.locked_ns <= 1_000_000_000,
            "locked for more than the second",
        );
    }
}

fn audit(p: &Params, seed: u64) -> (Auditor, Outcome) {
    let mut auditor = Auditor::default();
    let outcome = simulate(p, seed, &mut auditor);
    (auditor, outcome)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_the_parameters(
        seed in 0u64..1_000_000,
        load in 0.0f64..0.6,
        lead_in in 0u32..40,
        spread in 0.0f64..1.0,
        outbound_rate in 0u32..400,
        outbound_life in 0.0f64..3.0,
        outbound_first in 0.0f64..1.0,
        workers in 1u32..6,
        purge in 0u32..2,
        restart in 0u32..2,
        hop in 1u32..3_000,
        first in 64_800u32..65_200,
        service_port in 64_700u32..65_300,
        randomcps in 0u32..200,
        msl in 1u32..5_000,
        reply_bytes in 0u32..3_000_000,
    ) {
        let set = [
            "duration=6".to_string(),
            "dwell_1=20".to_string(),
            "dwell_4=20".to_string(),
            format!("load={load}"),
            format!("lead_in={lead_in}"),
            format!("spread={spread}"),
            format!("outbound_rate={outbound_rate}"),
            format!("outbound_life={outbound_life}"),
            format!("outbound_first={outbound_first}"),
            format!("workers={workers}"),
            format!("purge_in_lookup={purge}"),
            format!("restart={restart}"),
            format!("hop={hop}"),
            format!("net.inet.ip.portrange.first={first}"),
            format!("service_port={service_port}"),
            format!("net.inet.ip.portrange.randomcps={randomcps}"),
            format!("net.inet.tcp.msl={msl}"),
            format!("reply_bytes={reply_bytes}"),
        ];
        let p = Params::with_drawn(&set);
        let (a, o) = audit(&p, seed);
        prop_assert!(a.audit.is_sound(), "{}", a.audit);
        let sum = |of: fn(&Second) -> u64| o.seconds.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|s| s.accepts), a.accepted);
        prop_assert_eq!((sum(|s| s.connects), sum(|s| s.failed)), (a.made, a.failed));
        // A search costs its entries, and is the lock's only holder.
        let searched = p.walk_ns(sum(|s| s.passed)) as f64;
        prop_assert!((searched - a.searched_ns as f64).abs() <= 2.0 * (a.made + a.failed + 9) as f64);
        prop_assert!(sum(|s| s.locked_ns) <= a.searched_ns + 6_000_000_000);
        // Each search looks up the free port, too.
        for s in &o.searches {
            prop_assert!(s.look_ups >= s.met.len() as u64 && s.met.len() <= usize::from(SERVICES));
        }
        if !p.purges() {
            prop_assert_eq!(sum(|s| s.purged), 0);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    follows_from_the_seed::<Params>(&["duration=20", "lead_in=100"]);
}

#[test]
fn watching_changes_nothing() {
    is_unchanged_by_watching::<Params>(&["duration=10", "lead_in=60", "load=0.3"], |p, seed| {
        audit(p, seed).1
    });
}

#[test]
fn one_connect_meets_all_five_services_and_takes_seconds() {
    let o = simulate(&Params::with(&[]), 1, &mut ());
    assert_eq!(o.searches.len(), 1, "{:?}", o.searches);
    let search = &o.searches[0];
    let met: Vec<u16> = search.met.iter().map(|m| m.service).collect();
    assert_eq!((met, search.look_ups), (vec![0, 1, 2, 3, 4], 6));
    assert!((3.0..5.0).contains(&(search.took_ns as f64 / 1e9)));
    // The other workers' connects wait with it, and nobody is accepted.
    assert_eq!(o.most(|s| s.longest_ns), search.took_ns as f64);
    let at = (search.at_ns / 1_000_000_000) as usize;
    assert_eq!(
        (o.seconds[at + 1].accepts, o.seconds[at + 2].connects),
        (0, 0)
    );
    // But not before and after: the CPU has little to do.
    let locked = o.sum(|s| s.locked_ns);
    assert!(locked - (search.took_ns as f64) < 1e9 / 100.0, "{locked}");
}

#[test]
fn the_fixes_end_it() {
    for set in ["purge_in_lookup=0", "restart=0", "service_port=8000"] {
        let o = simulate(&Params::with(&[set]), 1, &mut ());
        let longest = o.most(|s| s.longest_ns);
        assert!(longest < 10e6, "{set}: {longest}");
    }
}

#[test]
fn large_replies_are_not_recyclable_at_once() {
    // 200 MB in two seconds: not until 191 s after the connection began.
    let p = Params::with(&["reply_bytes=200000000", "outbound_rate=140"]);
    let o = simulate(&p, 1, &mut ());
    let of = |service| o.per_look_up(service, |m| m.purged as f64);
    assert_eq!((of(1), of(2)), (0.0, 0.0));
    // Those of the first service last two minutes, and a minute in TIME_WAIT: hardly any is left out.
    assert!(of(0) > 0.0);
}

#[test]
fn without_the_purge_ports_run_out() {
    // Ports are free again in waves, every 80 s.
    let set = [
        "purge_in_lookup=0",
        "outbound_rate=28",
        "duration=400",
        "net.inet.ip.portrange.first=63898",
        "service_port=64000",
    ];
    let p = Params::with(&set);
    let o = simulate(&p, 1, &mut ());
    let rate = o.sum(|s| s.connects) / p.duration as f64;
    assert!(
        (rate / closed_form::most_connects(&p) - 1.0).abs() < 0.05,
        "{rate}"
    );
    let purging = simulate(&Params::with(&set[1..]), 1, &mut ());
    assert_eq!(purging.sum(|s| s.failed), 0.0);
}

#[test]
fn packets_are_dropped_when_the_input_queue_is_full() {
    let o = simulate(&Params::with(&[]), 1, &mut ());
    let took_s = o.searches[0].took_ns as f64 / 1e9;
    let expected = took_s * Params::with(&[]).packets_per_s() - 50.0;
    assert!((o.sum(|s| s.packets_dropped) - expected).abs() < 1.0);
    let roomy = simulate(
        &Params::with(&["net.inet.ip.intr_queue_maxlen=100000"]),
        1,
        &mut (),
    );
    assert_eq!(roomy.sum(|s| s.syns_dropped + s.packets_dropped), 0.0);
}
