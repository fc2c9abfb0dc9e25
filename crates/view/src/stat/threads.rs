//! `stat threads`: what each thread did with its time, as `prstat -mL` shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use recording::tables::Thread;
use recording::{Filter, Row, Text};

use super::largest::{Largest, Ranked};
use super::rounds::Sampler;
use crate::columns::{Fields, Unit, Value, columns, heads, json, left, right};
use crate::numbers::{rounded, tenth};
use crate::screen::Screen;

/// Threads followed at a time.
const MAX_THREADS: usize = 1 << 17;
/// Threads that are shown unless all are asked for.
const SHOWN: usize = 20;
/// Calls kept per thread.
const MAX_CALLS: usize = 64;

/// A thread over some time, and the system calls that it slept in, the longest first, if they were asked
/// for.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) sum: Thread,
    pub(crate) sleeps: Option<Vec<Slept>>,
}

/// Time asleep in a system call, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Slept {
    pub(crate) syscall: Text,
    pub(crate) ns: u64,
    pub(crate) count: u64,
}

columns! {
    Timed = "thread" {
        text TIME PID TID USR SYS LAT SLP LCK DSK FLT STP VCX ICX SCL PROCESS;
        json TIME PID TID PROCESS CGROUP INTERVAL USR SYS LAT SLP LCK DSK FLT STP VCX ICX SCL SLEEPS;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.sum.time_ns);
    /// Process.
    PID: heads::PID => |l, _| l.sum.pid.into();
    /// Thread.
    TID: right("TID", 7, &["tid"], Unit::Id) => |l, _| l.sum.tid.into();
    /// On a CPU in user mode.
    USR: right("USR%", 5, &["user_percent"], Unit::Percent) => |l, _| l.percent(l.sum.user_ns).into();
    /// On a CPU in the kernel.
    SYS: right("SYS%", 5, &["system_percent"], Unit::Percent) => |l, _| l.percent(l.sum.system_ns).into();
    /// Runnable, and waiting for a CPU.
    LAT: right("LAT%", 5, &["runqueue_percent"], Unit::Percent) => |l, _| l.percent(l.sum.runqueue_ns).into();
    /// Asleep in a system call.
    SLP: right("SLP%", 5, &["sleep_percent"], Unit::Percent) => |l, _| l.percent(l.sum.sleep_ns).into();
    /// Waiting for a lock (futex).
    LCK: right("LCK%", 5, &["lock_percent"], Unit::Percent) => |l, _| l.percent(l.sum.lock_ns).into();
    /// Uninterruptible, mostly disk.
    DSK: right("DSK%", 5, &["disk_percent"], Unit::Percent) => |l, _| l.percent(l.sum.disk_ns).into();
    /// In a page fault.
    FLT: right("FLT%", 5, &["fault_percent"], Unit::Percent) => |l, _| l.percent(l.sum.fault_ns).into();
    /// Stopped or traced.
    STP: right("STP%", 5, &["stopped_percent"], Unit::Percent) => |l, _| l.percent(l.sum.stopped_ns).into();
    /// Switches to other threads because it had to wait.
    VCX: right("VCX", 7, &["voluntary"], Unit::Count) => |l, _| l.sum.voluntary.into();
    /// Switches because another thread was to run.
    ICX: right("ICX", 7, &["involuntary"], Unit::Count) => |l, _| l.sum.involuntary.into();
    /// System calls, where they are counted.
    SCL: right("SCL", 7, &["syscalls"], Unit::Count) => |l, _| l.sum.syscalls.into();
    /// The thread's name.
    PROCESS: left("PROCESS", 15, &["comm"], Unit::Name) => |l, _| (&l.sum.comm).into();
    /// Cgroup v2 id.
    CGROUP: json(&["cgroup"], Unit::Id) => |l, _| l.sum.cgroup.into();
    /// The time that shares are of.
    INTERVAL: json(&["interval_ns"], Unit::Ns) => |l, _| l.sum.interval_ns.into();
    /// With `--sleeps`: each `syscall` that it slept in, with `sleep_percent` and `count`.
    SLEEPS: json(&["sleeps"], Unit::Words) => |l, _| match &l.sleeps {
        Some(sleeps) => Value::Objects(sleeps.iter().map(|s| l.slept(s)).collect()),
        None => Value::Absent,
    };
}

impl Timed {
    fn percent(&self, ns: u64) -> f64 {
        ns as f64 * 100.0 / self.sum.interval_ns.max(1) as f64
    }

    fn slept<'s>(&self, s: &'s Slept) -> Fields<'s> {
        let percent = rounded(self.percent(s.ns));
        vec![
            ("syscall", (&*s.syscall).into()),
            ("sleep_percent", percent.into()),
            ("count", s.count.into()),
        ]
    }
}

/// The parts of an interval, in the order of the columns.
pub(crate) fn parts(t: &Thread) -> [u64; 8] {
    [
        t.user_ns,
        t.system_ns,
        t.runqueue_ns,
        t.sleep_ns,
        t.lock_ns,
        t.disk_ns,
        t.fault_ns,
        t.stopped_ns,
    ]
}

/// Time in which it did something or was kept from it, ns: asleep, or waiting for a lock as idle
/// threads of a pool do, it is neither.
pub(crate) fn restless(t: &Thread) -> u64 {
    let rest = t.sleep_ns.saturating_add(t.lock_ns);
    t.interval_ns.saturating_sub(rest)
}

/// Adds an interval to those before it.
pub(crate) fn add(sum: &mut Thread, row: &Thread) {
    let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
    add(&mut sum.interval_ns, row.interval_ns);
    add(&mut sum.user_ns, row.user_ns);
    add(&mut sum.system_ns, row.system_ns);
    add(&mut sum.runqueue_ns, row.runqueue_ns);
    add(&mut sum.sleep_ns, row.sleep_ns);
    add(&mut sum.lock_ns, row.lock_ns);
    add(&mut sum.disk_ns, row.disk_ns);
    add(&mut sum.fault_ns, row.fault_ns);
    add(&mut sum.stopped_ns, row.stopped_ns);
    add(&mut sum.voluntary, row.voluntary);
    add(&mut sum.involuntary, row.involuntary);
    if let Some(n) = row.syscalls {
        add(sum.syscalls.get_or_insert(0), n);
    }
    (sum.time_ns, sum.pid, sum.tid) = (row.time_ns, row.pid, row.tid);
    (sum.comm, sum.cgroup) = (row.comm.clone(), row.cgroup);
}

pub(super) struct Threads {
    all: bool,
    sleeps: bool,
    now: Largest<(u32, u32), Seen, MAX_THREADS>,
}

/// A thread since the last report.
#[derive(Default)]
struct Seen {
    sum: Thread,
    calls: BTreeMap<Text, (u64, u64)>,
}

impl Seen {
    /// How long it ran or wanted to.
    fn busy_ns(&self) -> u64 {
        let ran = self.sum.user_ns.saturating_add(self.sum.system_ns);
        ran.saturating_add(self.sum.runqueue_ns)
    }
}

impl Ranked for Seen {
    fn rank(&self) -> f64 {
        self.busy_ns() as f64
    }
}

impl Threads {
    pub(super) fn new(all: bool, sleeps: bool) -> Threads {
        Threads {
            all,
            sleeps,
            now: Largest::default(),
        }
    }

    fn line(&self, seen: Seen) -> Timed {
        let slept = |(syscall, (ns, count))| Slept { syscall, ns, count };
        let sleeps = self.sleeps.then(|| {
            let mut all: Vec<Slept> = seen.calls.into_iter().map(slept).collect();
            all.sort_by_key(|s| Reverse(s.ns));
            all
        });
        Timed {
            sum: seen.sum,
            sleeps,
        }
    }
}

impl Sampler for Threads {
    /// Process and thread.
    type Key = (u32, u32);

    fn tables(&self) -> Vec<&'static str> {
        match self.sleeps {
            true => vec!["thread", "thread_sleep"],
            false => vec!["thread"],
        }
    }

    fn key(&mut self, row: &Row, filter: &Filter) -> Option<Self::Key> {
        match row {
            Row::Thread(t) => {
                let key = (t.pid, t.tid);
                let asked = filter.task_ok(Some(t.pid), Some(&t.comm), Some(t.cgroup));
                asked.then_some(key)
            }
            Row::ThreadSleep(s) => {
                // Rows of one time: the thread's own comes first.
                let seen = self.now.get_mut(&(s.pid, s.tid))?;
                if seen.calls.len() < MAX_CALLS || seen.calls.contains_key(&s.syscall) {
                    let call = seen.calls.entry(s.syscall.clone()).or_default();
                    call.0 = call.0.saturating_add(s.sleep_ns);
                    call.1 = call.1.saturating_add(s.count);
                }
                None
            }
            _ => None,
        }
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::Thread(row) = row {
            let seen = self.now.row((row.pid, row.tid), Seen::default);
            add(&mut seen.sum, &row);
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        let (seen, left_out) = self.now.take();
        let mut seen: Vec<Seen> = seen.into_values().collect();
        seen.retain(|s| s.sum.interval_ns > 0);
        // Those that ran or wanted to run most come first.
        seen.sort_by_key(|s| (Reverse(s.busy_ns()), s.sum.pid, s.sum.tid));
        let shown = if self.all { seen.len() } else { SHOWN };
        for one in seen.into_iter().take(shown) {
            let line = self.line(one);
            screen.show(&line)?;
            for s in line.sleeps.iter().flatten() {
                let percent = tenth(line.percent(s.ns));
                let says = format!("{percent:>5}% in {}, {} times", s.syscall, s.count);
                screen.more(&format!("{:>38} {says}", ""))?;
            }
        }
        if self.all {
            left_out.show::<Timed>(time_ns, screen)?;
        }
        screen.end_report();
        Ok(())
    }
}
