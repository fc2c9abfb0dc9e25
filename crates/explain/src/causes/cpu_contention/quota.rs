//! A wait for the CPU that a cgroup's quota explains: which cgroup, how it adds up, what helps.

use analysis::Thread;
use analysis::words::{figure, percent, rounded};

use crate::limits;
use crate::vocabulary::*;

/// Throttling is counted per CPU: beyond this share it does not tell how much time was left.
const ADVISED_MOST_OFF: f64 = 0.95;

/// A cgroup that was throttled.
pub(super) struct Quota<'a> {
    pub(super) cgroup: &'a str,
    throttled_ms: f64,
    /// Periods in which its quota was spent, and the row that says so.
    periods: Option<(u64, RowRef)>,
    /// Whether its tasks are counted: then it is of cgroup v2.
    is_v2: bool,
    /// CPU time granted per second, CPUs.
    cpus: Option<f64>,
    row: RowRef,
    /// Whether the process is known to be in it.
    pub(super) certain: bool,
}

/// How long all threads of a process waited, ms: throttling keeps every one of them off.
fn waited_by_all_ms(story: &Story, pid: u32) -> f64 {
    let threads = story.threads.all().filter(|t| t.pid == pid);
    threads.map(|t| t.waited_ns() as f64 / 1e6).sum()
}

/// Whether something waited for about as long as a cgroup was throttled.
fn adds_up(waited: f64, throttled: f64) -> bool {
    waited >= limits::MOST.share() * throttled && waited <= limits::TWICE.times() * throttled
}

impl<'a> Quota<'a> {
    /// The cgroup whose throttling explains the thread's wait: its own if that is recorded, else the one that was
    /// throttled longest.
    pub(super) fn of(story: &'a Story, thread: &Thread) -> Option<Quota<'a>> {
        let waited_ms = thread.waited_ns() as f64 / 1e6;
        let process = story.processes.get(thread.pid);
        let own = process.map(|p| &*p.cgroup).unwrap_or_default();
        let periods_of = |cgroup: &str| {
            let mut all = story.resources.of("cgroup", "throttled_periods");
            let line = all.find(|(c, _)| *c == cgroup).map(|(_, l)| l);
            line.map(|l| (l.rise() as u64, l.row))
                .filter(|(n, _)| *n > 0)
        };
        let throttled = || story.resources.of("cgroup", "throttled_ms");
        // Nothing to guess for a process that is known to be elsewhere, may be in several, or was there for less than most
        // of the time over which throttling is counted.
        let kept_off = throttled().filter(|(_, line)| line.rise() > 0.0);
        let stayed = limits::MOST.reached(thread.spent.over_ns(), (story.seconds() * 1e9) as u64);
        let may_guess = own.is_empty() && stayed && kept_off.count() == 1;
        let longest = throttled()
            .map(|(cgroup, line)| {
                let within = own.strip_prefix(cgroup);
                let certain = within.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                (certain, line.rise(), cgroup, line.row)
            })
            .filter(|(certain, ms, cgroup, _)| match certain {
                // A thread is kept off for the rest of a period, however many CPUs are counted.
                true => {
                    let most_ms = periods_of(cgroup)
                        .map_or(*ms, |(n, _)| n as f64 * limits::QUOTA_PERIOD.ms() as f64);
                    ms.min(most_ms) >= limits::MOST.share() * waited_ms
                }
                false => {
                    let all_ms = || waited_by_all_ms(story, thread.pid);
                    may_guess && (adds_up(waited_ms, *ms) || adds_up(all_ms(), *ms))
                }
            })
            .max_by(|a, b| (a.0.cmp(&b.0)).then(a.1.total_cmp(&b.1)))?;
        let (certain, throttled_ms, cgroup, row) = longest;
        let mut cpu = story.resources.of("cgroup", "cpu_ms");
        let limit = cpu.find(|(c, _)| *c == cgroup).and_then(|(_, l)| l.limit);
        let line = |metric| {
            story
                .resources
                .of("cgroup", metric)
                .find(|(c, _)| *c == cgroup)
        };
        Some(Quota {
            cgroup,
            throttled_ms,
            periods: periods_of(cgroup),
            is_v2: line("tasks").is_some(),
            cpus: limit.map(|ms| ms / 1_000.0),
            row,
            certain,
        })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let cgroup = self.cgroup;
        let throttled_ms = Quantity::ns((self.throttled_ms * 1e6) as u64).rows([self.row]);
        let kept = match self.cpus {
            Some(cpus) => say!(
                "Meanwhile the kernel throttled cgroup {cgroup} for {throttled_ms}: its quota of \
                 {quota_cpus} CPUs was used up.",
                throttled_ms,
                quota_cpus = Quantity::new(cpus, figure(cpus))
            ),
            None => say!(
                "Meanwhile the kernel throttled cgroup {cgroup} for {throttled_ms}: its quota was used up.",
                throttled_ms
            ),
        };
        let each = self.periods.map(|(n, row)| {
            let each_ns = (self.throttled_ms * 1e6) as u64 / n.max(1);
            say!(
                "That was in {throttled_periods} (nr_throttled), {each_ms} each: a request that comes then \
                 waits that long.",
                throttled_periods = Quantity::of(n, "period").rows([row]),
                each_ms = Quantity::ns(each_ns)
            )
        });
        [kept].into_iter().chain(each).collect()
    }

    pub(super) fn checks(&self, story: &Story, thread: &Thread) -> Vec<Check> {
        let alone = adds_up(thread.waited_ns() as f64 / 1e6, self.throttled_ms);
        let (who, waited_ms) = if alone {
            ("the thread", thread.waited_ns() as f64 / 1e6)
        } else {
            ("its threads", waited_by_all_ms(story, thread.pid))
        };
        let (waited, throttled) = (waited_ms / 1e3, self.throttled_ms / 1e3);
        let mut checks = vec![Check {
            formula: format!("time that the cgroup was throttled = time that {who} waited"),
            expected: rounded(throttled),
            measured: rounded(waited),
            unit: "s".into(),
            agrees: adds_up(waited, throttled),
            tolerance:
                "half to twice that: the thread also waits for others, and sleeps through some throttling"
                    .into(),
        }];
        if let Some(cpus) = self.cpus {
            let ran = thread.on_cpu_ns() as f64 / 1e9;
            let granted = cpus * story.seconds();
            checks.push(Check {
                formula: "time that the thread ran ≤ quota × length of the recording".into(),
                expected: rounded(granted),
                measured: rounded(ran),
                unit: "s".into(),
                agrees: ran <= (1.0 + limits::ALIKE.share()) * granted,
                tolerance: "not above it by more than 20 %".into(),
            });
        }
        checks
    }

    /// CPUs that are enough for a process that used `used` on average: its use while it was not throttled plus half as
    /// much again, and at least twice its quota for bursts.
    pub(super) fn enough(&self, story: &Story, used: f64) -> f64 {
        let off = self.throttled_ms / 1e3 / story.seconds().max(1e-3);
        let wanted = used / (1.0 - off.min(ADVISED_MOST_OFF));
        let average = (wanted * 15.0).ceil() / 10.0;
        average.max(self.cpus.unwrap_or(0.0) * 2.0)
    }

    /// The advice to raise it to this many CPUs.
    pub(super) fn advice(&self, thread: &Thread, cpus: f64) -> Advice {
        let (cgroup, more) = (self.cgroup, figure(cpus));
        let now = self.cpus.map(|c| format!(" from {}", figure(c)));
        let us = (cpus * 100_000.0) as u64;
        let certain = self.certain && self.is_v2;
        let command = shell!(
            "echo '{us} 100000' > /sys/fs/cgroup{cgroup}/cpu.max",
            us,
            cgroup
        );
        let command = command.filter(|_| certain);
        Advice::to(format!(
            "Raise the CPU quota{} to {more} CPUs.",
            now.unwrap_or_default()
        ))
        .undo(command.as_ref().map(|_| {
            sentence!(
                "note first what is in /sys/fs/cgroup{cgroup}/cpu.max, to write it back later",
                cgroup
            )
        }))
        .by(command)
        .at(format!(
            "cgroup {cgroup}; for a service CPUQuota in its unit, for a container its CPU limit"
        ))
        .risk("Its neighbours get that much less when all are busy.")
        .effect(format!(
            "{} ran for {} and waited for {} of the time: {more} CPUs cover what its process used while \
             not throttled plus half as much, and bursts of twice its present quota.",
            thread.comm,
            percent(thread.on_cpu_ns() as f64 / thread.seen_ns().max(1) as f64),
            percent(thread.waiting())
        ))
        .change(Change::CpuQuota {
            cgroup: cgroup.to_string(),
            cpus,
        })
    }
}
