//! From what threads did so far to rows of `thread` and `thread_sleep`: what they did since.

use std::collections::HashMap;

use recording::tables::{Thread, ThreadSleep};
use recording::{TableWriter, Text};

use crate::error::Error;
use crate::kernel::Syscalls;
use crate::wire::{text, tw_sleep, tw_state, tw_thread};

/// Rows of the two tables, and what each thread had done at its last row.
pub struct Threads {
    threads: TableWriter<Thread>,
    sleeps: TableWriter<ThreadSleep>,
    syscalls: Syscalls,
    many: Text,
    before: HashMap<u32, Before>,
}

struct Before {
    at: tw_thread,
    /// What its rows have told, by state.
    told: States,
    ticks: Ticks,
}

type States = [u64; tw_state::TW_STATES.0 as usize];

impl Threads {
    /// Rows for these tables.
    pub fn new(threads: TableWriter<Thread>, sleeps: TableWriter<ThreadSleep>) -> Threads {
        Threads {
            threads,
            sleeps,
            syscalls: Syscalls::default(),
            many: "other".into(),
            before: HashMap::new(),
        }
    }

    /// The recording begins: what a thread that is older did until then is not told.
    pub fn begin(&mut self, at: &tw_thread, from_ns: u64) {
        if at.first_ns >= from_ns {
            return;
        }
        let mut told = States::default();
        settle(at.ns, &mut told);
        let mut ticks = Ticks::default();
        ticks.add(at.user_ns, at.system_ns);
        let before = Before {
            at: *at,
            told,
            ticks,
        };
        self.before.insert(at.tid, before);
    }

    /// What a thread did so far, at any time or at its end. Gives the descriptors of epoll on which it
    /// slept since its last row.
    pub fn take(&mut self, now: &tw_thread) -> Result<Vec<i32>, Error> {
        let mut epolls = Vec::new();
        let before = self.before.remove(&now.tid);
        let before = before.filter(|b| b.at.start == now.start);
        let since = before.as_ref().map(|b| &b.at);
        let from = since.map_or(now.first_ns, |b| b.time_ns);
        let mut ticks = before.as_ref().map(|b| b.ticks).unwrap_or_default();
        let mut told = before.as_ref().map(|b| b.told).unwrap_or_default();
        let interval = now.time_ns.saturating_sub(from);
        if interval > 0 {
            let diff = |of: fn(&tw_thread) -> u64| of(now).saturating_sub(since.map_or(0, of));
            ticks.add(diff(|t| t.user_ns), diff(|t| t.system_ns));
            let parts = settle(now.ns, &mut told);
            let ns = |state: tw_state| parts[state.0 as usize];
            let run = ns(tw_state::TW_RUN);
            let user = ticks.user_part(run);
            self.threads.push(Thread {
                time_ns: now.time_ns,
                interval_ns: interval,
                pid: now.pid,
                tid: now.tid,
                comm: text(&now.comm).into(),
                cgroup: now.cgroup,
                user_ns: user,
                system_ns: run - user,
                runqueue_ns: ns(tw_state::TW_RUNQUEUE),
                sleep_ns: ns(tw_state::TW_SLEEP),
                lock_ns: ns(tw_state::TW_LOCK),
                disk_ns: ns(tw_state::TW_DISK),
                fault_ns: ns(tw_state::TW_FAULT),
                stopped_ns: ns(tw_state::TW_STOPPED),
                voluntary: diff(|t| t.voluntary),
                involuntary: diff(|t| t.involuntary),
                syscalls: None,
            })?;
            epolls = self.sleeps(now, since)?;
        }
        if now.ended == 0 {
            let at = *now;
            self.before.insert(now.tid, Before { at, told, ticks });
        }
        Ok(epolls)
    }

    fn sleeps(&mut self, now: &tw_thread, since: Option<&tw_thread>) -> Result<Vec<i32>, Error> {
        let mut epolls = Vec::new();
        for sleep in now.sleeps.iter().filter(|s| s.count > 0) {
            let same =
                |b: &&tw_sleep| b.count > 0 && (b.syscall, b.fd) == (sleep.syscall, sleep.fd);
            let before = since.and_then(|s| s.sleeps.iter().find(same));
            let (count, ns) = before.map_or((0, 0), |b| (b.count, b.ns));
            let slept = sleep.ns.saturating_sub(ns);
            if slept == 0 {
                continue;
            }
            let syscall = match u32::try_from(sleep.syscall) {
                Ok(number) => self.syscalls.name(number),
                // TW_MANY: calls for which the kernel's table had no room.
                Err(_) => self.many.clone(),
            };
            if sleep.fd >= 0 {
                epolls.push(sleep.fd);
            }
            self.sleeps.push(ThreadSleep {
                time_ns: now.time_ns,
                pid: now.pid,
                tid: now.tid,
                syscall,
                sleep_ns: slept,
                count: sleep.count.saturating_sub(count).into(),
                epoll_fd: (sleep.fd >= 0).then_some(sleep.fd),
            })?;
        }
        Ok(epolls)
    }

    /// Forgets threads that have no row since `time_ns` although all were asked for: they ended,
    /// and the record of that was lost.
    pub fn forget_before(&mut self, time_ns: u64) {
        self.before.retain(|_, b| b.at.time_ns >= time_ns);
    }

    /// Writes what is due.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        self.threads.seal_if_due()?;
        Ok(self.sleeps.seal_if_due()?)
    }

    /// Writes everything.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.threads.seal()?;
        Ok(self.sleeps.seal()?)
    }
}

/// What is to be told of each state, so that all that was told comes to `so_far`, or near it.
///
/// A state in progress is told up to the time of looking. A CPU that its hypervisor keeps waiting can
/// account the end of it later, with an earlier time: then too much was told of that state, and of
/// the next as much less is told now. The parts still sum to the time that has passed.
fn settle(so_far: States, told: &mut States) -> States {
    let mut parts = States::default();
    let mut too_much = 0u64;
    for (part, (now, told)) in parts.iter_mut().zip(so_far.iter().zip(told.iter())) {
        *part = now.saturating_sub(*told);
        too_much = too_much.saturating_add(told.saturating_sub(*now));
    }
    while too_much > 0 {
        let Some(largest) = parts.iter_mut().max().filter(|p| **p > 0) else {
            break;
        };
        let less = too_much.min(*largest);
        *largest -= less;
        too_much -= less;
    }
    for (told, part) in told.iter_mut().zip(parts) {
        *told = told.saturating_add(part);
    }
    parts
}

/// The kernel's ticks that found a thread in user mode and in the kernel. A thread that runs little
/// is found by few of them: those of before count as well, up to some.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    user: u64,
    system: u64,
}

/// Ten ticks at 250 a second.
const PRIOR_NS: u64 = 40_000_000;

impl Ticks {
    fn add(&mut self, user: u64, system: u64) {
        let total = self.user + self.system;
        if total > PRIOR_NS {
            self.user = part(PRIOR_NS, self.user, total);
            self.system = PRIOR_NS - self.user;
        }
        self.user = self.user.saturating_add(user);
        self.system = self.system.saturating_add(system);
    }

    /// The part of a time on CPU that was in user mode. Without any tick it counts as such, as the
    /// kernel counts it.
    fn user_part(self, run: u64) -> u64 {
        match self.user.saturating_add(self.system) {
            0 => run,
            total => part(run, self.user, total),
        }
    }
}

fn part(whole: u64, of: u64, total: u64) -> u64 {
    let part = u128::from(whole) * u128::from(of) / u128::from(total.max(1));
    u64::try_from(part).unwrap_or(whole).min(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_too_early_is_taken_from_what_comes_next() {
        let mut told = States::default();
        assert_eq!(settle([10, 5, 0, 0, 0, 0, 0], &mut told)[..2], [10, 5]);
        // The second state had ended 3 earlier than it seemed: 20 have passed, 15 of them told.
        assert_eq!(settle([18, 2, 0, 0, 0, 0, 0], &mut told)[..2], [5, 0]);
        assert_eq!(told[..2], [15, 5]);
        // And comes right again.
        assert_eq!(settle([18, 12, 0, 0, 0, 0, 0], &mut told)[..2], [3, 7]);
        assert_eq!(told[..2], [18, 12]);
        settle(States::default(), &mut told);
        settle([u64::MAX; 7], &mut told);
        assert_eq!(told, [u64::MAX; 7], "whatever comes");
    }

    #[test]
    fn few_ticks_are_helped_by_earlier_ones_and_many_are_not() {
        let mut ticks = Ticks::default();
        assert_eq!(ticks.user_part(100), 100);
        ticks.add(3_000_000_000, 1_000_000_000);
        assert_eq!(ticks.user_part(100), 75);
        ticks.add(0, 0);
        assert_eq!(ticks.user_part(100), 75, "no tick: as before");
        ticks.add(0, 1_000_000_000);
        assert!(ticks.user_part(100) <= 3, "now it is in the kernel");
        ticks.add(u64::MAX, u64::MAX);
        assert_eq!(ticks.user_part(0), 0);
    }
}
