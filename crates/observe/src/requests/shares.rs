//! How many exchanges, and of how many connections, a busy host can afford to have counted.

use std::collections::BTreeMap;

/// Exchanges that are counted in a second, of all services together.
pub const MANY: f64 = 10_000.0;
/// With more new connections a second than this, one in so many is followed: to begin and to end the notes of
/// one costs some microseconds.
pub const MANY_NEW: f64 = 5_000.0;

/// One in how many is looked at, so that they are no more than `most` a second; back down only with room to
/// spare.
pub fn afford(one_in: u32, per_second: f64, most: f64) -> u32 {
    let counted = |one_in: u32| per_second / f64::from(one_in);
    let mut one_in = one_in;
    while counted(one_in) > most && one_in < 1 << 16 {
        one_in *= 2;
    }
    while one_in > 1 && counted(one_in / 2) < most / 2.0 {
        one_in /= 2;
    }
    one_in
}

/// Of exchanges that are not counted the late ones are all the same: one in many would miss the few that take most
/// of the time. From so long on one is, ns: below it nobody notices.
pub const LATE_NS: u64 = 100_000_000;
/// With more late ones a second than this there are enough in the lot.
const MANY_LATE: f64 = 1_000.0;

/// From how long on one is late, ns; back down only with room to spare.
pub fn late(ns: u64, per_second: f64) -> u64 {
    if per_second > MANY_LATE {
        return ns.saturating_mul(2);
    }
    if per_second < MANY_LATE / 4.0 {
        (ns / 2).max(LATE_NS)
    } else {
        ns
    }
}

/// Of the exchanges of each service one in how many is counted.
pub struct Shares<K>(BTreeMap<K, u32>);

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Shares(BTreeMap::new())
    }
}

impl<K: Ord> Shares<K> {
    /// One in how many is counted of those of this service.
    pub fn of(&self, service: &K) -> u32 {
        self.0.get(service).copied().unwrap_or(1)
    }

    /// Divides [`MANY`] among services that have so many exchanges a second, and hands out what has changed.
    /// Those with few keep all of theirs: where one is busy, the slow request of another is not left to chance.
    pub fn divide(&mut self, mut per_second: Vec<(K, f64)>) -> Vec<(K, u32)> {
        per_second.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let (mut left, mut services) = (MANY, per_second.len());
        let mut changed = Vec::new();
        for (service, per_second) in per_second {
            let fair = left / services as f64;
            let before = self.of(&service);
            let one_in = afford(before, per_second, fair);
            left -= per_second.min(fair);
            services -= 1;
            if one_in != before {
                changed.push((service, one_in));
            }
        }
        changed
    }

    /// From now on.
    pub fn set(&mut self, service: K, one_in: u32) {
        match one_in {
            1 => self.0.remove(&service),
            _ => self.0.insert(service, one_in),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_host_has_fewer_connections_followed() {
        assert_eq!(afford(1, 5_000.0, MANY_NEW), 1);
        assert_eq!(afford(1, 12_500.0, MANY_NEW), 4);
        assert_eq!(afford(4, 7_500.0, MANY_NEW), 4, "not back and forth");
        assert_eq!(afford(4, 2_400.0, MANY_NEW), 1);
    }

    #[test]
    fn where_all_are_late_those_in_the_lot_are_enough() {
        assert_eq!(late(LATE_NS, 20.0), LATE_NS);
        assert_eq!(late(LATE_NS, 9_000.0), 2 * LATE_NS);
        assert_eq!(late(2 * LATE_NS, 600.0), 2 * LATE_NS, "not back and forth");
        assert_eq!(late(2 * LATE_NS, 100.0), LATE_NS);
    }

    #[test]
    fn the_busy_ones_leave_the_quiet_ones_theirs() {
        let mut shares = Shares::default();
        let divided = shares.divide(vec![("redis", 70_000.0), ("orders", 2.0), ("web", 2_000.0)]);
        assert_eq!(divided, [("redis", 16)], "7,998 a second are left for it");
        shares.set("redis", 16);
        assert_eq!(shares.of(&"redis"), 16);
        assert_eq!(shares.divide(vec![("redis", 70_000.0)]), []);
        assert_eq!(shares.divide(vec![("redis", 0.0)]), [("redis", 1)]);
    }

    #[test]
    fn as_many_as_can_be_afforded_are_all_counted() {
        let mut shares = Shares::default();
        let equal = (0..100).map(|service| (service, 100.0)).collect();
        assert_eq!(shares.divide(equal), []);
        let twice = (0..100).map(|service| (service, 200.0)).collect();
        assert!(shares.divide(twice).iter().all(|(_, one_in)| *one_in == 2));
    }
}
