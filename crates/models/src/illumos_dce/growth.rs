//! The days before it is looked at: the table grows, and is reclaimed where the kernel does that.
//!
//! Without a threshold nothing interferes, and each bucket is drawn by itself, a day at a time. With
//! one, every new address is put into its bucket in turn.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::cache::{Cache, Whom, any_bucket};
use super::params::{DAY_S, Params};
use crate::draws::poisson;

/// The table at the end of a day, or of the uptime.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Day {
    pub(super) entries: u64,
    pub(super) longest: u32,
    /// Entries that a lookup passes on average.
    pub(super) passes: f64,
    /// Reclaims in this day.
    pub(super) reclaims: u64,
}

/// While days pass, the table is looked at so often: that of the later kernel's worker, s.
const STEP_S: f64 = 60.0;
/// Reclaims in such a step. Where more were needed, as every lookup meets too full a bucket, the
/// table does not shrink any further.
const MOST_RECLAIMS: u64 = 8;

/// Lets the cache grow over the uptime. A row per day.
pub(super) fn grow(p: &Params, cache: &mut Cache, rng: &mut Pcg64Mcg) -> Vec<Day> {
    let mut days = if p.reclaims() {
        in_turn(p, cache, rng)
    } else {
        at_once(p, cache, rng)
    };
    for _ in 0..p.reclaims_for_memory() {
        cache.reclaim(p, rng);
    }
    // Who returns is there again within seconds.
    for nth in cache.missing() {
        cache.add(Whom::Returning(nth));
    }
    if p.reclaims_for_memory() > 0
        && let Some(last) = days.last_mut()
    {
        last.reclaims += u64::from(p.reclaims_for_memory());
        note(p, cache, last);
    }
    days
}

fn note(p: &Params, cache: &Cache, day: &mut Day) {
    day.entries = cache.entries();
    day.longest = cache.longest();
    day.passes = cache.mean_passes(p);
}

/// When each address that returns came first, s.
fn arrivals(p: &Params, rng: &mut Pcg64Mcg) -> Vec<f64> {
    let all = 0..p.returning_destinations;
    let when = all.map(|_| {
        if rng.random::<f64>() < p.returning_since_boot {
            0.0
        } else {
            rng.random::<f64>() * p.uptime_s()
        }
    });
    when.collect()
}

/// The ends of the days, s; the last is that of the uptime.
fn ends(p: &Params) -> Vec<f64> {
    let days = p.uptime.ceil() as u32;
    let ends = (1..=days).map(|day| (f64::from(day) * DAY_S).min(p.uptime_s()));
    ends.collect()
}

fn at_once(p: &Params, cache: &mut Cache, rng: &mut Pcg64Mcg) -> Vec<Day> {
    let arrivals = arrivals(p, rng);
    let mut order = cache.by_bucket();
    let when = |nth: u32| arrivals[nth as usize];
    order.sort_by(|(a, m), (b, n)| a.cmp(b).then(when(*m).total_cmp(&when(*n))));
    let mut comes = order.into_iter().peekable();
    let per_s = p.new_destinations / f64::from(p.ip_dce_hash_size);
    let mut days: Vec<Day> = vec![Day::default(); ends(p).len()];
    // Entries passed to find those who return, summed up.
    let mut found = vec![0u64; days.len()];
    let mut there = vec![0u64; days.len()];
    for bucket in 0..p.ip_dce_hash_size {
        let mut now = 0.0;
        let mut here = Vec::new();
        for (day, end) in ends(p).into_iter().enumerate() {
            let due = |(b, nth): &(u32, u32)| *b == bucket && when(*nth) < end;
            while let Some((_, nth)) = comes.next_if(due) {
                let came = poisson(rng, per_s * (when(nth) - now));
                cache.grow(bucket, came as u32);
                cache.add(Whom::Returning(nth));
                here.push(nth);
                now = when(nth);
            }
            let came = poisson(rng, per_s * (end - now));
            cache.grow(bucket, came as u32);
            now = end;
            days[day].entries += u64::from(cache.chain(bucket));
            days[day].longest = days[day].longest.max(cache.chain(bucket));
            let passes = here.iter().map(|nth| cache.passes(Whom::Returning(*nth)));
            found[day] += passes.map(u64::from).sum::<u64>();
            there[day] += here.len() as u64;
        }
    }
    for (day, (found, there)) in days.iter_mut().zip(found.into_iter().zip(there)) {
        let chain = day.entries as f64 / f64::from(p.ip_dce_hash_size);
        // Who has not come yet is no lookup.
        let found = if there > 0 {
            found as f64 / there as f64
        } else {
            chain
        };
        day.passes = p.new_share() * chain + (1.0 - p.new_share()) * found;
    }
    days
}

fn in_turn(p: &Params, cache: &mut Cache, rng: &mut Pcg64Mcg) -> Vec<Day> {
    let arrivals = arrivals(p, rng);
    let mut order: Vec<u32> = (0..p.returning_destinations).collect();
    order.sort_by(|a, b| arrivals[*a as usize].total_cmp(&arrivals[*b as usize]));
    let mut comes = order.into_iter().peekable();
    let every = match p.ip_dce_reclaim_interval {
        0 => STEP_S,
        interval => interval as f64,
    };
    let mut days = Vec::new();
    let mut now = 0.0;
    for end in ends(p) {
        let mut day = Day::default();
        while now < end {
            let until = (now + every).min(end);
            let mut step = Step::default();
            while let Some(nth) = comes.next_if(|nth| arrivals[*nth as usize] < until) {
                step.lookup(p, cache, Whom::Returning(nth), rng);
            }
            for _ in 0..poisson(rng, p.new_destinations * (until - now)) {
                let whom = Whom::New(any_bucket(p, rng));
                step.lookup(p, cache, whom, rng);
            }
            if step.needed && !p.reclaims_inline() {
                cache.reclaim(p, rng);
                step.reclaims += 1;
            }
            day.reclaims += step.reclaims;
            if step.reclaims > 0 {
                for nth in cache.missing() {
                    // Who comes later comes later.
                    if arrivals[nth as usize] < until {
                        cache.add(Whom::Returning(nth));
                    }
                }
            }
            now = until;
        }
        note(p, cache, &mut day);
        days.push(day);
    }
    days
}

/// A while in which addresses come one after the other.
#[derive(Default)]
struct Step {
    needed: bool,
    reclaims: u64,
}

impl Step {
    /// One comes. A bucket that is then too full is met by another lookup within a second or two.
    fn lookup(&mut self, p: &Params, cache: &mut Cache, whom: Whom, rng: &mut Pcg64Mcg) {
        cache.add(whom);
        if cache.chain(cache.bucket(whom)) <= p.dce_reclaim_threshold {
            return;
        }
        self.needed = true;
        if p.reclaims_inline() && self.reclaims < MOST_RECLAIMS {
            cache.reclaim(p, rng);
            self.reclaims += 1;
        }
    }
}
