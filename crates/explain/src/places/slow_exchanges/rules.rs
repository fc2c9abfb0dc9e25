//! The rules by which the exchanges of a service are slow.

use std::collections::BTreeMap;

use analysis::account::{Role, Silence, exchanged_ns};

use crate::callers::{Caller, Callers, Who};
use crate::limits;

use super::told::is_stalled;
use super::{SlowService, Told, fetched_from, sleeps};

/// The rule by which a service is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Some of its exchanges take much longer than usual.
    Excess(Excess),
    /// It left a request unread, or a connection unaccepted, for seconds.
    Stalled,
    /// Callers gave up on some of its exchanges, after much longer than usual.
    GivenUp,
    /// It no longer answers anything, while more and more requests arrive.
    Silent,
    /// Its threads were kept from working for at least half of their service time.
    Kept(Keeper),
    /// An exchange took a second or longer: reported only if asked about.
    OnlyIfAsked,
}

/// How slow exchanges exceed what chance gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// They are many.
    Many,
    /// They take much of the total time: with times spread like these, ten times what chance gives.
    Dear,
    /// They are few, and nothing at all was answered meanwhile.
    Together,
    /// They are many and take most of the total time, though a person would not notice a single one; after accept().
    Most,
}

/// What keeps a thread from working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// Others have the CPU.
    Runqueue,
    /// A lock (futex).
    Lock,
    /// It is stopped (SIGSTOP, a debugger).
    Stopped,
}

impl SlowService<'_> {
    /// The least time that makes an exchange slow here, ns.
    pub(super) fn least_ns(&self, by: Excess) -> u64 {
        let usual = self.usual_ns.unwrap_or(0);
        let longer = match self.exchanges.role() {
            _ if by == Excess::Most => limits::SLOW_MOST.ns(),
            Role::Server => limits::NOTICED.ns(),
            _ if self.exchanges.all.retransmits == 0 => limits::NOTICED.ns(),
            Role::Client | Role::Unknown => limits::SLOW_PEER.ns(),
        };
        usual
            .saturating_mul(limits::SLOW_TIMES_USUAL.count())
            .max(usual.saturating_add(longer))
    }

    pub(super) fn excess(&mut self, told: &[Told], by: Excess) -> bool {
        let (Some(usual_ns), of) = (self.usual_ns, self.exchanges.all.exchanges) else {
            return false;
        };
        let least_ns = self.least_ns(by);
        let (count, all_ns) = self.exchanges.beyond(least_ns);
        let slow = told.iter().filter(|t| !t.x.open && t.took_ns() >= least_ns);
        // The histogram's steps are no finer than an eighth; none took longer than the slowest.
        let slowest_ns = slow.clone().map(Told::took_ns).max().unwrap_or(0);
        let all_ns = all_ns.min(count.saturating_mul(slowest_ns));
        // The first request of a connection may wait for a fork or a thread of its own, on a busy host.
        let first = |t: &Told| match by {
            Excess::Most => t.x.accept_ns,
            Excess::Many | Excess::Dear | Excess::Together => 0,
        };
        let sums = slow.fold((0u64, 0u64), |(own, took), t| {
            (
                own.saturating_add(t.own_ns.saturating_sub(first(t))),
                took.saturating_add(t.took_ns()),
            )
        });
        let share = sums.0 as f64 / sums.1.max(1) as f64;
        let many = count > 0 && limits::SLOW_SHARE.reached(count, of);
        let takes = |share: f64| {
            let whole_ns = exchanged_ns(&self.exchanges.all) as f64;
            all_ns as f64 >= share * whole_ns
        };
        let enough_for_a_share = count >= limits::ENOUGH.count();
        let enough = match by {
            Excess::Many => many,
            Excess::Dear => enough_for_a_share && takes(limits::MUCH_OF_TIME.share()),
            Excess::Together => {
                takes(limits::MUCH_OF_TIME.share()) && self.all_waited(count).is_some()
            }
            Excess::Most => many && enough_for_a_share && takes(limits::MOST_OF_TIME.share()),
        };
        if !enough || share < limits::MOST.share() {
            return false;
        }
        let longer = all_ns.saturating_sub(count.saturating_mul(usual_ns));
        self.rule = Rule::Excess(by);
        self.may_wait = by == Excess::Together;
        (self.count, self.lost_ns) = (count, (longer as f64 * share) as u64);
        true
    }

    /// An unanswered exchange took at least as long as its caller waited.
    pub(super) fn given_up(&mut self, told: &[Told]) -> bool {
        let all = &self.exchanges.all;
        let (count, waited_ns) = (all.given_up.unwrap_or(0), all.given_up_ns.unwrap_or(0));
        let of = all.exchanges.saturating_add(count);
        // A program that ends closes all at one moment, whatever it waited for.
        let often = count >= limits::OFTEN.count() && self.exchanges.given_up_in > 1;
        self.failed = self.failed_again(told);
        let again = is_again(self.failed, of);
        if !(often && limits::SLOW_SHARE.reached(count, of) || again && count > 0) {
            return false;
        }
        let told = told.iter().filter(|t| t.is_given_up());
        let sum = |of: fn(&Told) -> u64| told.clone().map(of).fold(0, u64::saturating_add);
        let share = sum(|t| t.own_ns) as f64 / sum(Told::took_ns).max(1) as f64;
        let waits = told.clone().map(Told::took_ns);
        let (shortest, longest) = (waits.clone().min(), waits.max().unwrap_or(0));
        let alike =
            shortest.is_some_and(|ns| ns as f64 >= (1.0 - limits::ALIKE.share()) * longest as f64);
        let long = match (self.usual_ns, self.exchanges.role()) {
            (Some(_), _) if all.exchanges >= limits::ENOUGH.count() => {
                waited_ns / count >= self.least_ns(Excess::Many)
            }
            // Requests that are never answered may belong to a protocol without answers: the client knows how long it
            // waits for one. Closing after the same time again and again, and one that a person notices, is its timeout;
            // one of a second shows as less, as connecting came first. Where the clients are on this host, the server is told
            // what they know.
            (_, Role::Client) => alike && longest >= limits::NOTICED.ns(),
            (_, Role::Server) => {
                let here = |t: &Told| t.end.and_then(|id| self.story.conn(id)?.peer).is_some();
                alike
                    && longest >= limits::NOTICED.ns()
                    && told.clone().all(here)
                    && !told.clone().any(|t| self.passes_on(t))
            }
            _ => false,
        };
        if !long || share < limits::MOST.share() {
            return false;
        }
        self.rule = Rule::GivenUp;
        let usual = count.saturating_mul(self.usual_ns.unwrap_or(0));
        let longer = waited_ns.saturating_sub(usual);
        (self.count, self.lost_ns) = (count, (longer as f64 * share) as u64);
        true
    }

    /// Whether the process that had a request gave up one of its own, as a proxy does whose caller leaves: whom it asked is
    /// told.
    fn passes_on(&self, told: &Told) -> bool {
        let asked = self.story.exchanges().iter();
        let asked = asked.filter(|e| e.role() == Role::Client);
        let mut asked = asked.flat_map(|e| &e.slowest);
        told.x.pid.is_some() && asked.any(|(_, x)| x.pid == told.x.pid && x.given_up == Some(true))
    }

    /// The same where requests overlap, for those on connections that never got a byte.
    pub(super) fn unheard_of(&mut self) -> bool {
        let told = std::mem::take(&mut self.slow);
        self.failed = self.failed_again(&told);
        let given_up: Vec<Told> = told.into_iter().filter(Told::is_given_up).collect();
        let count = given_up.len() as u64;
        let of = self.exchanges.all.exchanges.saturating_add(count);
        let took = given_up.iter().map(Told::took_ns);
        let took = took.fold(0, u64::saturating_add);
        let own = given_up.iter().map(|t| t.own_ns);
        let own = own.fold(0, u64::saturating_add);
        let noticed = limits::NOTICED.ns().saturating_mul(count);
        let theirs = count > 0 && took >= noticed && limits::MOST.reached(own, took);
        if !theirs || !is_again(self.failed, of) {
            return false;
        }
        self.rule = Rule::GivenUp;
        (self.count, self.lost_ns, self.slow) = (count, own, given_up);
        true
    }

    /// For the caller that gave up most often: how often, and over which time, ns. A program that ends gives up all at
    /// one moment.
    fn failed_again(&self, told: &[Told]) -> (u64, u64) {
        if self.exchanges.role() != Role::Client {
            return (0, 0);
        }
        let least_ns = self.least_ns(Excess::Many);
        let failed_so = |t: &&Told| t.is_given_up() && t.took_ns() >= least_ns;
        let failing = told.iter().filter(failed_so);
        let (netns, _, to) = self.exchanges.service;
        let ends = self.story.of_service(self.exchanges.service);
        let callers = Callers::among(ends.map(|(_, c)| c));
        let mut failed: BTreeMap<Caller, (u64, u64, u64)> = BTreeMap::new();
        for t in failing {
            let conn = t.end.and_then(|id| self.story.conn(id));
            let caller = conn.map_or_else(
                // Its connection is no longer kept one by one.
                || Caller {
                    netns,
                    who: t.x.pid.map_or(Who::Unknown, Who::Process),
                    to,
                },
                |conn| callers.caller(conn),
            );
            let of_caller = failed.entry(caller);
            let (n, from_ns, to_ns) = of_caller.or_insert((0, u64::MAX, 0));
            *n += 1;
            *from_ns = t.end_ns().min(*from_ns);
            *to_ns = t.end_ns().max(*to_ns);
        }
        let most = failed.into_values().max_by_key(|(n, ..)| *n);
        most.map_or((0, 0), |(n, from, to)| (n, to.saturating_sub(from)))
    }

    /// Requests waiting in a pool may wait for something to happen (long polling, a queue); where more and more
    /// requests arrive, answers are expected.
    pub(super) fn silent(&mut self, told: &[Told]) -> bool {
        let Some(silence) = self.exchanges.silent_now else {
            return false;
        };
        let waiting = told.iter().filter(|t| t.x.open && !t.is_given_up());
        let sum = |of: fn(&Told) -> u64| waiting.clone().map(of).fold(0, u64::saturating_add);
        let share = sum(|t| t.own_ns) as f64 / sum(Told::took_ns).max(1) as f64;
        // A second without waiting or answered requests has no row.
        let goes_on = silence.to_ns.saturating_add(limits::LAST_LOOK.ns()) >= self.story.end_ns;
        let long =
            silence.ns() >= limits::STALL.ns() && goes_on && self.would_have_answered(silence);
        // All callers of a small pool wait for the one answer, and ask nothing more.
        let few = silence.asked < limits::OFTEN.count();
        let enough = !few || silence.open >= limits::OFTEN_TO_SEVERAL.count();
        if !long || !enough || share < limits::MOST.share() {
            return false;
        }
        self.rule = Rule::Silent;
        self.may_wait = few;
        (self.count, self.lost_ns) = (silence.open, (silence.waited_ns as f64 * share) as u64);
        true
    }

    /// Whether others would have been answered in that time at the usual rate.
    pub(super) fn would_have_answered(&self, silence: Silence) -> bool {
        let elsewhere = (self.story.seconds() * 1e9) as u64;
        let elsewhere = elsewhere.saturating_sub(silence.ns());
        let rate = self.exchanges.all.exchanges as f64 / elsewhere.max(1) as f64;
        rate * silence.ns() as f64 >= limits::ANSWERS_EXPECTED.number()
    }

    pub(super) fn stalled(&mut self, told: &[Told]) -> bool {
        let stalled = told.iter().any(is_stalled);
        if stalled {
            self.rule = Rule::Stalled;
        }
        stalled
    }

    pub(super) fn kept(&mut self, told: &[Told]) -> bool {
        let all = &self.exchanges.all;
        let Some((keeper, kept_ns)) = self.keeper(told) else {
            return false;
        };
        let each_ns = kept_ns / all.exchanges.max(1);
        let most = limits::MOST.reached(kept_ns, all.think_ns) && all.think_ns > 0;
        if !most || each_ns < limits::RECORDED_WAIT.ns() {
            return false;
        }
        self.rule = Rule::Kept(keeper);
        (self.count, self.lost_ns) = (all.exchanges, kept_ns);
        true
    }

    /// What kept threads longest, and for how long over all exchanges, ns.
    fn keeper(&self, told: &[Told]) -> Option<(Keeper, u64)> {
        let all = &self.exchanges.all;
        let mut kept: BTreeMap<&str, (Keeper, u64)> = BTreeMap::new();
        let (mut thought, mut each) = (0u64, Vec::new());
        for t in told.iter().filter(|t| !t.x.open) {
            thought = thought.saturating_add(t.x.think_ns);
            each.push(t.took_ns());
            let mut left = t.alone_ns;
            for (wait, ns) in sleeps(self.story, &t.x) {
                let ns = ns.min(left);
                left -= ns;
                let keeper = match (wait.syscall.as_deref(), &*wait.state) {
                    (_, "T" | "t") => Keeper::Stopped,
                    (Some("futex"), _) if fetched_from(self.story, wait).is_none() => Keeper::Lock,
                    _ => continue,
                };
                let sum = kept.entry(keeper.name()).or_insert((keeper, 0));
                sum.1 = sum.1.saturating_add(ns);
            }
        }
        // The slowest stand for all if all are like them.
        each.sort_unstable();
        let median = each.get(each.len() / 2).copied().unwrap_or(0);
        let typical = median
            <= self
                .usual_ns
                .unwrap_or(0)
                .saturating_mul(limits::SEVERAL_TIMES.count());
        let stand_for = if typical && thought > 0 {
            (all.think_ns as f64 / thought as f64).max(1.0)
        } else {
            1.0
        };
        let waited = kept.into_values();
        let waited = waited.map(|(keeper, ns)| (keeper, (ns as f64 * stand_for) as u64));
        let runnable = std::iter::once((Keeper::Runqueue, all.think_runqueue_ns));
        waited.chain(runnable).max_by_key(|(_, ns)| *ns)
    }
}

/// Whether one caller failed so often, and over so long.
fn is_again((failed, over_ns): (u64, u64), of: u64) -> bool {
    failed >= limits::FAILED_AGAIN.count()
        && over_ns >= limits::FAILED_OVER.ns()
        && limits::FAILED_SHARE.reached(failed, of)
}

impl Keeper {
    /// What a thread kept this way is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Keeper::Runqueue => "waiting for a CPU",
            Keeper::Lock => "waiting for a lock or another thread (futex)",
            Keeper::Stopped => "stopped (SIGSTOP or a debugger)",
        }
    }
}
