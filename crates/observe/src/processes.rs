//! Source `processes`: state and CPU time of the processes that hold listening sockets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use recording::tables::Process;
use recording::{TableWriter, Text, monotonic_ns, scrub};

use crate::error::Error;

/// /proc reports CPU times in hundredths of a second, whatever HZ is (USER_HZ is part of the ABI).
const USER_TICK_MS: u64 = 10;
/// A command line can be 2 MiB; this much is looked at, and this much of it tells who it is.
const READ_CMDLINE: usize = 4096;
const MAX_CMDLINE: usize = 512;

/// Writes a row for each of `pids` that still runs.
pub fn sample(pids: &BTreeSet<u32>, rows: &mut TableWriter<Process>) -> Result<(), Error> {
    for &pid in pids {
        let dir = format!("/proc/{pid}");
        if let Some(row) = read(pid, Path::new(&dir)) {
            rows.push(row)?;
        }
    }
    Ok(())
}

fn read(pid: u32, dir: &Path) -> Option<Process> {
    let file = |name: &str| fs::read(dir.join(name)).ok();
    let text = |name: &str| Some(String::from_utf8_lossy(&file(name)?).into_owned());
    let stat = Stat::parse(&text("stat")?)?;
    Some(Process {
        time_ns: monotonic_ns(),
        pid,
        ppid: stat.ppid,
        comm: stat.comm,
        cmdline: command_line(&file("cmdline").unwrap_or_default()).into(),
        state: stat.state,
        user_ms: stat.user_ms,
        system_ms: stat.system_ms,
        runqueue_ms: text("schedstat").and_then(|s| {
            let ns: u64 = s.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(ns / 1_000_000)
        }),
        fd_limit: text("limits").and_then(|limits| {
            let line = limits
                .lines()
                .find_map(|l| l.strip_prefix("Max open files"))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        }),
        cgroup_path: cgroup(&text("cgroup").unwrap_or_default()).into(),
    })
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
        })
    }
}

/// The arguments joined by blanks, without secrets. Those are looked for before anything is cut: half
/// a URL does not show that it holds a password.
fn command_line(bytes: &[u8]) -> String {
    let read = &bytes[..bytes.len().min(READ_CMDLINE)];
    // Of a longer one the last argument may be half.
    let whole = match read.iter().rposition(|&b| b == 0) {
        Some(end) if read.len() < bytes.len() => &read[..end],
        _ => read,
    };
    let words = whole.split(|&b| b == 0).filter(|w| !w.is_empty());
    let words = scrub::arguments(words.map(String::from_utf8_lossy)).join(" ");
    let mut end = words.len().min(MAX_CMDLINE);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].into()
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
        let me = read(std::process::id(), Path::new("/proc/self")).unwrap();
        assert_eq!(me.pid, std::process::id());
        assert!(!me.cmdline.is_empty() && me.ppid > 0);
    }

    #[test]
    fn command_lines_are_joined_and_cut() {
        assert_eq!(command_line(b"nginx: master\0-g\0\0"), "nginx: master -g");
        assert_eq!(command_line(&[b'x'; 4096]).len(), MAX_CMDLINE);
        assert_eq!(command_line(&[b'x'; 5000]).len(), MAX_CMDLINE);
        let long = [
            &b"a\0--b="[..],
            &[b'x'; 4082],
            b"\0https://joe:secret@host/",
        ]
        .concat();
        assert!(command_line(&long).starts_with("a --b=xxx"));
        assert_eq!(
            command_line(b"server\0--password\0two words\0--port\080"),
            "server --password *** --port 80"
        );
    }
}
