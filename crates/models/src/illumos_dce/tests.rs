//! The simulation keeps what must hold of any such kernel, whatever its parameters.

use proptest::prelude::*;

use super::cache::Cache;
use super::growth::Day;
use super::observer::Observer;
use super::outcome::{Outcome, Second};
use super::params::{Params, S};
use super::path::Path;
use super::sim::simulate;
use crate::testing::{Audit, Set, follows_from_the_seed, is_unchanged_by_watching};

/// Watches and complains.
#[derive(Default)]
struct Auditor {
    entries: u64,
    /// Until when each CPU walks.
    busy_ns: Vec<u64>,
    walks: u64,
    lookups: u64,
    added: u64,
    audit: Audit,
}

impl Observer for Auditor {
    fn begins(&mut self, _: &[Day], cache: &Cache) {
        self.entries = cache.entries();
    }
    fn walks(&mut self, cpu: u32, _: Path, now_ns: u64, until_ns: u64) {
        self.audit.at(now_ns);
        self.walks += 1;
        self.busy_ns
            .resize(self.busy_ns.len().max(cpu as usize + 1), 0);
        let free = self.busy_ns[cpu as usize] <= now_ns;
        self.audit.ensure(free, "a CPU walks two chains at a time");
        self.busy_ns[cpu as usize] = until_ns;
    }
    fn looked_up(&mut self, _: Path, added: bool, now_ns: u64) {
        self.audit.at(now_ns);
        self.lookups += 1;
        self.added += u64::from(added);
    }
    fn second(&mut self, now_ns: u64, second: &Second) {
        self.audit.at(now_ns);
        let added = std::mem::take(&mut self.added);
        self.audit
            .ensure(added == second.added, "another number was added");
        self.entries = (self.entries + added).saturating_sub(second.deleted);
        self.audit
            .ensure(self.entries == second.entries, "entries are not conserved");
        let most = second
            .cpus
            .iter()
            .map(|c| c.thread_ns + c.interrupt_ns)
            .max();
        self.audit
            .ensure(most <= Some(S), "a CPU was busy for more than the second");
        let loads = second.loads.iter().all(|l| l.is_finite() && *l >= 0.0);
        self.audit.ensure(loads, "a load average is no number");
    }
}

fn audited(p: &Params, seed: u64) -> (Auditor, Outcome) {
    let mut auditor = Auditor::default();
    let outcome = simulate(p, seed, &mut auditor);
    assert!(auditor.audit.is_sound(), "{}", auditor.audit);
    (auditor, outcome)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn invariants_hold_whatever_is_set(
        uptime in 0.001f64..40.0,
        new in 0.0f64..60.0,
        returning in 0u32..3_000,
        since_boot in 0.0f64..=1.0,
        share in 0.0f64..=1.0,
        cpus in 2u32..12,
        hash_bits in 0u32..13,
        entry_walk in 0.1f64..200.0,
        threshold in prop_oneof![Just(0u32), 1u32..200],
        fraction in 1u32..8,
        interval in prop_oneof![Just(0u64), 1u64..90],
        raised in prop_oneof![Just(0.0f64), 1.0f64..90.0],
        seed in 0u64..1_000,
    ) {
        // Where every address is put in turn, fewer days.
        let uptime = if threshold > 0 { (uptime / 40.0).max(0.001) } else { uptime };
        let set = [
            format!("uptime={uptime}"), "duration=4".into(),
            format!("new_destinations={new}"),
            format!("returning_destinations={returning}"),
            format!("returning_since_boot={since_boot}"),
            format!("interrupt_share={share}"),
            format!("cpus={cpus}"), format!("interrupt_cpu={}", cpus - 1),
            format!("ip_dce_hash_size={}", 1 << hash_bits),
            format!("entry_walk={entry_walk}"),
            format!("_dce_reclaim_threshold={threshold}"),
            format!("_dce_reclaim_fraction={fraction}"),
            format!("ip_dce_reclaim_interval={interval}"),
            format!("lotsfree_raised={raised}"),
        ];
        let p = Params::with_drawn(&set);
        let (auditor, outcome) = audited(&p, seed);
        // What has begun is at most one lookup per CPU ahead of what has ended.
        prop_assert!(auditor.walks >= auditor.lookups);
        prop_assert!(auditor.walks <= auditor.lookups + u64::from(cpus));
        prop_assert_eq!(outcome.days.len() as f64, uptime.ceil());
        let cpus_used = outcome.cpus();
        prop_assert!((0.0..=f64::from(cpus)).contains(&cpus_used), "{}", cpus_used);
        prop_assert!(outcome.totals.longest_wait_ns <= p.end_ns());
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    follows_from_the_seed::<Params>(&["uptime=3", "duration=3"]);
}

#[test]
fn watching_changes_nothing() {
    is_unchanged_by_watching::<Params>(&["duration=5"], |p, seed| audited(p, seed).1);
}

#[test]
fn the_table_grows_by_the_same_each_day_and_stays_bounded_with_a_threshold() {
    let (_, grown) = audited(&Params::with(&["uptime=5", "duration=1"]), 1);
    for pair in grown.days.windows(2) {
        let day = (pair[1].entries - pair[0].entries) as f64;
        assert!((day / (20.2 * 86_400.0) - 1.0).abs() < 0.01, "{day}");
    }
    for worker in ["ip_dce_reclaim_interval=0", "ip_dce_reclaim_interval=60"] {
        let set = ["uptime=3", "_dce_reclaim_threshold=32", worker];
        let (_, bounded) = audited(&Params::with(&set), 1);
        assert!(
            bounded
                .days
                .iter()
                .all(|d| d.longest <= 64 && d.reclaims > 0)
        );
    }
}

#[test]
fn a_lock_that_is_held_is_waited_for() {
    // One bucket: every lookup waits for the one before.
    let set = [
        "ip_dce_hash_size=1",
        "uptime=0.05",
        "entry_walk=10",
        "duration=4",
    ];
    let (_, outcome) = audited(&Params::with(&set), 1);
    assert!(outcome.totals.blocked > 0);
    // One after the other they use one CPU at most.
    assert!(outcome.cpus() <= 1.0, "{}", outcome.cpus());
    let none = ["ip_dce_hash_size=65536", "uptime=0.05", "duration=4"];
    assert_eq!(audited(&Params::with(&none), 1).1.totals.blocked, 0);
}

#[test]
fn a_full_cpu_lets_packets_wait_longer_and_longer() {
    let wait = |uptime: &str| audited(&Params::with(&[uptime]), 1).1.waited_ms();
    let (some, much) = (wait("uptime=14"), wait("uptime=28"));
    assert!(some < 10.0 && much > 1_000.0, "{some} {much}");
}
