//! Source `processes`: state and CPU time of the processes that hold listening sockets.

use std::borrow::Cow;
use std::collections::BTreeSet;

use recording::tables::Process;
use recording::{HealthKind, SourceName, TableWriter, Text, monotonic_ns};

use crate::arguments::Arguments;
use crate::error::Error;
use crate::health::HealthLog;
use crate::procfile::ProcFile;

/// /proc reports CPU times in hundredths of a second, whatever HZ is (USER_HZ is part of the ABI).
const USER_TICK_MS: u64 = 10;
/// Processes that are read: each takes some 100 µs. Anybody may have as many as he likes share a listener.
const MOST: usize = 4_096;

/// Reads the processes that listen.
#[derive(Default)]
pub struct Processes {
    file: ProcFile,
    arguments: Arguments,
    /// That there are more was said.
    told: bool,
}

impl Processes {
    /// Writes a row for each of `pids` that still runs.
    pub fn sample(
        &mut self,
        pids: &BTreeSet<u32>,
        rows: &mut TableWriter<Process>,
        health: &HealthLog,
    ) -> Result<(), Error> {
        self.arguments.begin(pids);
        for &pid in pids.iter().take(MOST) {
            if let Some(row) = self.read(pid) {
                rows.push(row)?;
            }
        }
        if pids.len() > MOST && !std::mem::replace(&mut self.told, true) {
            let more = (pids.len() - MOST) as u64;
            let detail = format!("processes that listen beyond the {MOST} that are looked at");
            health.say(SourceName::Processes, HealthKind::Partial, more, detail)?;
        }
        if let Some(unread) = self.arguments.newly_given_up() {
            let detail = format!("process {unread} does not let its arguments be read");
            health.say(SourceName::Processes, HealthKind::Partial, 1, detail)?;
        }
        Ok(())
    }

    fn read(&mut self, pid: u32) -> Option<Process> {
        let mut text = |name: &str| {
            let text = self.file.read(format!("/proc/{pid}/{name}"));
            text.ok().map(Cow::into_owned)
        };
        let stat = Stat::parse(&text("stat")?)?;
        let (schedstat, limits, groups) = (text("schedstat"), text("limits"), text("cgroup"));
        let cmdline = self.arguments.of(pid, stat.started);
        Some(row(pid, stat, schedstat, limits, groups, cmdline))
    }
}

fn row(
    pid: u32,
    stat: Stat,
    schedstat: Option<String>,
    limits: Option<String>,
    groups: Option<String>,
    cmdline: Text,
) -> Process {
    Process {
        time_ns: monotonic_ns(),
        pid,
        ppid: stat.ppid,
        comm: stat.comm,
        cmdline,
        state: stat.state,
        user_ms: stat.user_ms,
        system_ms: stat.system_ms,
        runqueue_ms: schedstat.and_then(|s| {
            let ns: u64 = s.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(ns / 1_000_000)
        }),
        fd_limit: limits.and_then(|limits| {
            let line = limits
                .lines()
                .find_map(|l| l.strip_prefix("Max open files"))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        }),
        cgroup_path: cgroup(&groups.unwrap_or_default()).into(),
    }
}

/// Its path in cgroup v2. Where that is the root and the controllers are those of v1, that of the cpu
/// controller: what limits it is there.
fn cgroup(text: &str) -> &str {
    let path = |of: fn(&str) -> bool| {
        let mut lines = text.lines().map(|line| line.splitn(3, ':'));
        lines.find_map(|mut parts| {
            let controllers = parts.nth(1)?;
            parts.next().filter(|_| of(controllers))
        })
    };
    let two = path(str::is_empty);
    let one = || path(|controllers| controllers.split(',').any(|c| c == "cpu"));
    two.filter(|path| *path != "/")
        .or_else(one)
        .or(two)
        .unwrap_or_default()
}

pub struct Stat {
    comm: Text,
    state: Text,
    ppid: u32,
    pub user_ms: u64,
    pub system_ms: u64,
    /// When it was started, ticks of the kernel.
    started: u64,
}

impl Stat {
    /// The name is in parentheses and may itself hold blanks and parentheses: the last one ends it.
    pub fn parse(stat: &str) -> Option<Stat> {
        let (before, after) = stat.rsplit_once(')')?;
        let (_, comm) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let ticks = |i: usize| fields.get(i)?.parse::<u64>().ok();
        Some(Stat {
            comm: comm.into(),
            state: Text::from(*fields.first()?),
            ppid: fields.get(1)?.parse().ok()?,
            user_ms: ticks(11)?.saturating_mul(USER_TICK_MS),
            system_ms: ticks(12)?.saturating_mul(USER_TICK_MS),
            started: ticks(19).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let s = Stat::parse("7 (a) R (b)) T 1 7 7 0 -1 4 0 0 0 0 12 3 0 0 20\n").unwrap();
        assert_eq!((&*s.comm, &*s.state, s.ppid), ("a) R (b)", "T", 1));
        assert_eq!((s.user_ms, s.system_ms), (120, 30));
        assert!(Stat::parse("").is_none());
        assert!(Stat::parse("7 (x) S").is_none());
    }

    #[test]
    fn the_cgroup_is_where_the_limits_are() {
        let unified = "0::/shop/web\n";
        let hybrid = "3:cpu,cpuacct:/limited\n1:name=systemd:/a:b\n0::/system.slice/web.service\n";
        let one = "4:cpuset:/\n2:cpu,cpuacct:/shop\n0::/\n";
        assert_eq!(cgroup(unified), "/shop/web");
        assert_eq!(cgroup(hybrid), "/system.slice/web.service");
        assert_eq!(cgroup(one), "/shop");
        assert_eq!((cgroup("0::/\n"), cgroup("")), ("/", ""));
    }

    #[test]
    fn this_process_can_be_read() {
        let me = Processes::default().read(std::process::id()).unwrap();
        assert_eq!(me.pid, std::process::id());
        assert!(!me.cmdline.is_empty() && me.ppid > 0);
    }
}
