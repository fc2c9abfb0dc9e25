//! Decides in one place what is a finding: a case that cost its service enough, or that made a connection hang.
//! Anything less is a note.
//!
//! The famous cases set the bounds. One service lost most of its time to 3 connects in 1,000 that met a TIME_WAIT
//! socket, so the required share of connections is small, and the share of the time is what counts.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use analysis::Story;
use analysis::account::{self, Role, ServiceKey};

use analysis::words::{duration, percent, plural};

use crate::callers::{Caller, Callers, Who};
use crate::finding::{Finding, Impact};
use crate::limits;
use crate::lost::{End, end};
use crate::say::Quantity;

/// Why a case is not a finding; `None` if it is one. A case whose cost cannot be measured is a finding, reported last.
/// A case that the user asked about is one, too.
pub(crate) fn too_little(story: &Story, finding: &Finding, asked: bool) -> Option<String> {
    if asked {
        return None;
    }
    if let Some(why) = finding.note {
        return Some(why.into());
    }
    if finding.lost_s.claimed() == 0 {
        return None;
    }
    let stake = Stake::of(story, finding);
    (!stake.matters()).then(|| stake.says())
}

/// What a case cost, and the totals to compare it with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stake {
    /// The number of ends that lost time.
    ends: u64,
    /// How often it happened, and how often it could have happened.
    times: (u64, u64),
    /// The time that was lost, and the time that the services' ends were not idle, ns.
    lost_ns: (u64, u64),
    /// The longest time that a single end lost, ns.
    longest_ns: u64,
    /// The longest time in which no client was served, ns.
    outage_ns: u64,
    /// For the caller that failed most: its failures, its attempts, and the time that they span, ns.
    failed: (u64, u64, u64),
    /// For the transfers that lost sending time: the lost time and all of it, ns.
    sending: (u64, u64),
}

impl Stake {
    fn matters(&self) -> bool {
        let at_least = |(part, of): (u64, u64), share: f64| part as f64 >= share * of as f64;
        let often = self.times.0 >= limits::OFTEN_TO_ONE.count()
            || self.times.0 >= limits::OFTEN.count()
                && self.ends >= limits::OFTEN_TO_SEVERAL.count();
        let (failed, attempts, over_ns) = self.failed;
        often && at_least(self.times, limits::ONE_IN_A_THOUSAND.share()) && at_least(self.lost_ns, limits::SHARE_OF_TIME.share())
            || often && at_least(self.lost_ns, limits::MUCH_OF_TIME.share())
            || self.longest_ns >= limits::STALL.ns()
            // Clients that hang start few new connects, so their share stays small however long it lasts.
            || self.outage_ns >= limits::OUTAGE.ns()
            || failed >= limits::FAILED_AGAIN.count()
                && over_ns >= limits::FAILED_OVER.ns()
                && at_least((failed, attempts), limits::FAILED_SHARE.share())
            || self.sending.1 >= limits::SENDING.ns() && at_least(self.sending, limits::SENDING_SHARE.share())
    }

    fn says(&self) -> String {
        let (lost, awake) = self.lost_ns;
        format!(
            "it happened {}, to {}, and cost {} of {} ({})",
            Quantity::times(self.times.0),
            plural(self.ends, "connection"),
            duration(lost),
            duration(awake),
            percent(lost as f64 / awake.max(1) as f64)
        )
    }

    fn of(story: &Story, finding: &Finding) -> Stake {
        let outage_ns = finding.lost_s.outage_ns();
        if let Some(x) = finding.lost_s.exchanges() {
            let (failed, over_ns) = x.failed;
            return Stake {
                failed: (failed, x.of.max(failed), over_ns),
                outage_ns,
                ends: x.connections,
                times: (x.slow, x.of),
                lost_ns: (x.lost_ns, x.whole_ns),
                longest_ns: x.stalled_ns,
                ..Stake::default()
            };
        }
        let elsewhere_ns = finding.lost_s.elsewhere_ns();
        let mut stake = Stake::of_ends(story, finding);
        stake.outage_ns = outage_ns;
        if elsewhere_ns > 0 {
            // Ends on other hosts: counted as the cause does, against the length of the recording.
            let Impact { affected, of, .. } = finding.impact;
            let whole_ns = story.end_ns.saturating_sub(story.start_ns);
            stake.ends = stake.ends.saturating_add(affected);
            stake.times.0 = stake.times.0.saturating_add(affected);
            stake.times.1 = stake.times.1.saturating_add(of);
            stake.lost_ns.0 = stake.lost_ns.0.saturating_add(elsewhere_ns);
            stake.lost_ns.1 = stake.lost_ns.1.saturating_add(whole_ns);
            // If few are affected, one may have hung for all of the time.
            let each = elsewhere_ns
                / if affected < limits::OFTEN.count() {
                    1
                } else {
                    affected
                };
            stake.longest_ns = stake.longest_ns.max(each);
            if whole_ns >= limits::SENDING.ns() && stake.sending.1 == 0 {
                stake.sending = (elsewhere_ns, whole_ns);
            }
        }
        stake
    }

    fn of_ends(story: &Story, finding: &Finding) -> Stake {
        let mut claimed: AHashMap<End, u64> = AHashMap::new();
        let mut sending: AHashMap<End, u64> = AHashMap::new();
        for (end, state, ns) in finding.lost_s.cells() {
            let sum = claimed.entry(end).or_default();
            *sum = sum.saturating_add(ns);
            if state.is_sending() {
                let sum = sending.entry(end).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        for end in finding.lost_s.ends() {
            claimed.entry(end).or_default();
        }
        let of_end = |conn| claimed.get(&end(conn)).copied();
        let suffering = claimed.keys().flat_map(|(netns, local, remote, start_ns)| {
            let conns = story.between(*netns, *local, *remote).map(|(_, c)| c);
            conns.filter(|c| c.start_ns == *start_ns)
        });
        let services: AHashSet<ServiceKey> =
            suffering.map(|c| account::service(story, c)).collect();
        let served = || services.iter().flat_map(|s| story.of_service(*s));
        let mut stake = Stake::default();
        let whole_ns = story.end_ns.saturating_sub(story.start_ns);
        let mut outage_ns = 0;
        let callers = Callers::among(served().map(|(_, c)| c));
        let mut failed: BTreeMap<Caller, (u64, u64, u64)> = BTreeMap::new();
        let mut attempts: AHashMap<Caller, u64> = AHashMap::new();
        for (_, conn) in served() {
            let spent = account::of_end(story, conn);
            stake.times.1 += 1;
            // No end can be awake for longer than the recording.
            let awake = spent.awake().min(whole_ns);
            stake.lost_ns.1 = stake.lost_ns.1.saturating_add(awake);
            *attempts.entry(callers.caller(conn)).or_default() += 1;
            let Some(ns) = of_end(conn) else { continue };
            stake.ends += 1;
            stake.lost_ns.0 = stake.lost_ns.0.saturating_add(ns);
            // A failed connect kept its caller waiting for as long as it tried. The time after it is an outage, if the
            // caller kept trying.
            let tried_ns = conn.ended_ns.filter(|_| conn.failed());
            let tried_ns = tried_ns.map(|ended| ended.saturating_sub(conn.start_ns));
            stake.longest_ns = stake.longest_ns.max(tried_ns.unwrap_or(ns).min(ns));
            outage_ns = outage_ns.max(ns);
            if let Some(lost) = sending.get(&end(conn)) {
                stake.sending.0 = stake.sending.0.saturating_add(*lost);
                // For a receiver, this is the time of a sender on another host.
                let sent = spent.sending().max(*lost);
                stake.sending.1 = stake.sending.1.saturating_add(sent);
            }
            if conn.established_ns.is_none() {
                let of_caller = failed.entry(callers.caller(conn));
                let of_caller = of_caller.or_insert((0, u64::MAX, 0));
                of_caller.0 += 1;
                of_caller.1 = of_caller.1.min(conn.start_ns);
                of_caller.2 = of_caller.2.max(conn.ended_ns.unwrap_or(story.end_ns));
            }
        }
        for forgotten in account::forgotten(story).filter(|f| services.contains(&f.service)) {
            let (netns, role, at) = forgotten.service;
            stake.times.1 += forgotten.ends;
            let most_ns = whole_ns.saturating_mul(forgotten.ends);
            let awake = forgotten.spent.awake().min(most_ns);
            stake.lost_ns.1 = stake.lost_ns.1.saturating_add(awake);
            if role != Role::Server {
                let who = forgotten.pid.map_or(Who::Unknown, Who::Process);
                let caller = Caller { netns, who, to: at };
                *attempts.entry(caller).or_default() += forgotten.ends;
            }
        }
        if let Some((caller, (n, from, to))) = failed.into_iter().max_by_key(|(_, (n, ..))| *n) {
            let of = attempts.get(&caller).copied().unwrap_or(n);
            stake.failed = (n, of, to.saturating_sub(from));
            if n >= limits::OFTEN_TO_ONE.count() {
                stake.longest_ns = stake.longest_ns.max(outage_ns);
            }
        }
        stake.times.0 = stake.ends;
        if let Some(times) = finding.lost_s.times() {
            stake.times = times;
        }
        stake
    }
}
