//! Closed forms beside the simulation: what it must come to where a formula says so.

use super::params::{DAY_S, Params};

/// Entries in a chain after so many days, if none is ever taken away.
pub(super) fn chain(p: &Params, days: f64) -> f64 {
    let entries = p.new_destinations * days * DAY_S + f64::from(p.returning_destinations);
    entries / f64::from(p.ip_dce_hash_size)
}

/// A lookup that walks the whole of such a chain, ms.
pub(super) fn lookup_ms(p: &Params, days: f64) -> f64 {
    chain(p, days) * p.entry_walk / 1e6
}

/// The load average then: threads' lookups are in it, those of interrupts are not.
pub(super) fn load(p: &Params, days: f64) -> f64 {
    p.base_load + p.thread_lookups() * lookup_ms(p, days) / 1e3
}

/// When the interrupts' CPU is full, d.
pub(super) fn full_at(p: &Params) -> f64 {
    let per_day = p.interrupt_cpu_lookups() * (lookup_ms(p, 1.0) - lookup_ms(p, 0.0)) / 1e3;
    let at_first = p.interrupt_cpu_lookups() * lookup_ms(p, 0.0) / 1e3;
    (1.0 - p.base_interrupt() - at_first) / per_day
}

/// How long one that comes at random waits for a CPU that needs `takes_ms` for each of `per_s`, ms:
/// a queue with one server, random arrivals and equal times.
pub(super) fn waits_ms(per_s: f64, takes_ms: f64) -> f64 {
    let busy = per_s * takes_ms / 1e3;
    busy * takes_ms / (2.0 * (1.0 - busy))
}

/// A lookup after one reclaim of a table in which who returns lay at the ends of the chains, as a
/// share of what it took before: of those the deleted come to the head and cost nothing at first.
pub(super) fn after_reclaim(p: &Params) -> f64 {
    let stays = p.stays();
    stays * (p.new_share() + (1.0 - p.new_share()) * stays)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    #[test]
    fn the_numbers_of_the_case() {
        let p = Params::with(&[]);
        let near = |got: f64, want: f64| (got - want).abs() < 0.01 * want;
        assert!(near(chain(&p, p.uptime), 97_551.0));
        assert!(near(lookup_ms(&p, p.uptime), 2.93));
        assert!(near(load(&p, p.uptime), 1.09));
        assert!(near(full_at(&p), 20.6), "{}", full_at(&p));
        assert!(
            near(waits_ms(240.0, 2.93), 3.5),
            "{}",
            waits_ms(240.0, 2.93)
        );
        assert!(near(after_reclaim(&p), 0.45), "{}", after_reclaim(&p));
    }
}
