//! `stat threads`: what each thread did with its time, as `prstat -mL` shows it.

use std::collections::BTreeMap;
use std::io;

use ahash::AHashMap;
use recording::tables::Thread;
use recording::{Row, Text};
use serde::Serialize;

use super::rounds::Rounds;
use crate::numbers::{or_dash, rounded, tenth};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// Threads followed at a time.
const MAX_THREADS: usize = 1 << 17;
/// Threads that are shown unless all are asked for.
const SHOWN: usize = 20;
/// Calls kept per thread.
const MAX_CALLS: usize = 64;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("TID", 7),
    ("USR%", 5),
    ("SYS%", 5),
    ("LAT%", 5),
    ("SLP%", 5),
    ("LCK%", 5),
    ("DSK%", 5),
    ("FLT%", 5),
    ("STP%", 5),
    ("VCX", 7),
    ("ICX", 7),
    ("SCL", 7),
    ("PROCESS", -1),
];

pub(super) struct Threads {
    all: bool,
    sleeps: bool,
    rounds: Rounds<(u32, u32)>,
    now: AHashMap<(u32, u32), Seen>,
}

/// A thread since the last report.
#[derive(Default)]
struct Seen {
    sum: Thread,
    calls: BTreeMap<Text, (u64, u64)>,
}

#[derive(Serialize)]
struct Line<'t> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    pid: u32,
    tid: u32,
    comm: &'t Text,
    cgroup: u64,
    interval_ns: u64,
    user_percent: f64,
    system_percent: f64,
    runqueue_percent: f64,
    sleep_percent: f64,
    lock_percent: f64,
    disk_percent: f64,
    fault_percent: f64,
    stopped_percent: f64,
    voluntary: u64,
    involuntary: u64,
    syscalls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sleeps: Option<Vec<Sleep<'t>>>,
}

#[derive(Serialize)]
struct Sleep<'t> {
    syscall: &'t Text,
    sleep_percent: f64,
    count: u64,
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

impl Threads {
    pub(super) fn new(all: bool, sleeps: bool, every_ns: u64) -> Threads {
        Threads {
            all,
            sleeps,
            rounds: Rounds::new(every_ns),
            now: AHashMap::new(),
        }
    }

    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        if self.rounds.close().is_none() {
            return Ok(());
        }
        let mut seen: Vec<_> = self
            .now
            .values()
            .filter(|s| s.sum.interval_ns > 0)
            .collect();
        // Those that ran or wanted to run most come first.
        let busy = |s: &Seen| {
            let t = &s.sum;
            t.user_ns
                .saturating_add(t.system_ns)
                .saturating_add(t.runqueue_ns)
        };
        seen.sort_by_key(|s| (std::cmp::Reverse(busy(s)), s.sum.pid, s.sum.tid));
        let shown = if self.all { seen.len() } else { SHOWN };
        for one in seen.into_iter().take(shown) {
            line(one, self.sleeps, screen)?;
        }
        screen.end_report();
        self.now.clear();
        Ok(())
    }
}

fn line(seen: &Seen, sleeps: bool, screen: &mut Screen) -> io::Result<()> {
    let t = &seen.sum;
    let percent = |ns: u64| ns as f64 * 100.0 / t.interval_ns as f64;
    let p = parts(t).map(percent);
    let mut calls: Vec<(&Text, &(u64, u64))> = seen.calls.iter().collect();
    calls.sort_by_key(|(name, (ns, _))| (std::cmp::Reverse(*ns), (*name).clone()));
    if screen.how.json {
        let p = p.map(rounded);
        let sleeps = sleeps.then(|| {
            let all = calls.into_iter().map(|(syscall, (ns, count))| Sleep {
                syscall,
                sleep_percent: rounded(percent(*ns)),
                count: *count,
            });
            all.collect()
        });
        return screen.json(&Line {
            r#type: "thread",
            when: When::of(t.time_ns, screen.how),
            pid: t.pid,
            tid: t.tid,
            comm: &t.comm,
            cgroup: t.cgroup,
            interval_ns: t.interval_ns,
            user_percent: p[0],
            system_percent: p[1],
            runqueue_percent: p[2],
            sleep_percent: p[3],
            lock_percent: p[4],
            disk_percent: p[5],
            fault_percent: p[6],
            stopped_percent: p[7],
            voluntary: t.voluntary,
            involuntary: t.involuntary,
            syscalls: t.syscalls,
            sleeps,
        });
    }
    let mut cells = vec![
        screen.how.time(t.time_ns),
        t.pid.to_string(),
        t.tid.to_string(),
    ];
    cells.extend(p.map(tenth));
    cells.extend([
        t.voluntary.to_string(),
        t.involuntary.to_string(),
        or_dash(t.syscalls),
        t.comm.to_string(),
    ]);
    screen.line(COLUMNS, &cells)?;
    for (syscall, (ns, count)) in calls.iter().filter(|_| sleeps) {
        let percent = tenth(percent(*ns));
        screen.more(&format!(
            "{:>38} {percent:>5}% in {syscall}, {count} times",
            ""
        ))?;
    }
    Ok(())
}

impl View for Threads {
    fn tables(&self) -> Vec<&'static str> {
        match self.sleeps {
            true => vec!["thread", "thread_sleep"],
            false => vec!["thread"],
        }
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        match row {
            Row::Thread(row) => {
                let filter = &screen.how.filter;
                if !filter.task_ok(Some(row.pid), Some(&row.comm), Some(row.cgroup)) {
                    return Ok(());
                }
                let key = (row.pid, row.tid);
                if self.rounds.begins(&key, row.time_ns) {
                    self.close(screen)?;
                }
                if self.now.len() < MAX_THREADS || self.now.contains_key(&key) {
                    self.rounds.add(key, row.time_ns);
                    add(&mut self.now.entry(key).or_default().sum, row);
                }
            }
            Row::ThreadSleep(row) => {
                // Rows of one time: the thread's own comes first.
                if let Some(seen) = self.now.get_mut(&(row.pid, row.tid))
                    && (seen.calls.len() < MAX_CALLS || seen.calls.contains_key(&row.syscall))
                {
                    let call = seen.calls.entry(row.syscall.clone()).or_default();
                    call.0 = call.0.saturating_add(row.sleep_ns);
                    call.1 = call.1.saturating_add(row.count);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        match self.rounds.over(time_ns) {
            true => self.close(screen),
            false => Ok(()),
        }
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.close(screen)
    }
}
