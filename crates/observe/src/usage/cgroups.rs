//! Source `cgroups`: limits and throttling of the cgroups whose processes hold TCP sockets.

use std::collections::BTreeSet;

use recording::Text;

use super::hierarchy::{Hierarchy, Version};
use super::lines::{ERRORS, Lines, Metric, SATURATION, UTILISATION, counter, gauge};
use super::pressure;
use crate::error::Error;
use crate::procfile::{ProcFile, numbers, value};

const CPU: Metric = counter("cgroup", UTILISATION, "cpu_ms", "ms");
const THROTTLED: Metric = counter("cgroup", SATURATION, "throttled_periods", "count");
const THROTTLED_MS: Metric = counter("cgroup", SATURATION, "throttled_ms", "ms");
const MEMORY: Metric = gauge("cgroup", UTILISATION, "memory_bytes", "bytes");
const MEMORY_HIGH: Metric = counter("cgroup", SATURATION, "memory_high_events", "count");
const MEMORY_MAX: Metric = counter("cgroup", SATURATION, "memory_max_events", "count");
const OOM_KILLS: Metric = counter("cgroup", ERRORS, "memory_oom_kills", "count");
const TASKS: Metric = gauge("cgroup", UTILISATION, "tasks", "count");
const PRESSURES: [(&str, Metric); 2] = [
    (
        "cpu.pressure",
        gauge("cgroup", SATURATION, "cpu_psi_some_avg10", "%"),
    ),
    (
        "memory.pressure",
        gauge("cgroup", SATURATION, "memory_psi_some_avg10", "%"),
    ),
];

/// Cgroups written a round; a limit above them holds for them, so their parents are among these.
const MAX_CGROUPS: usize = 128;

/// Writes the lines of the cgroups of `pids` and of those above them; how many more there were.
pub fn sample(
    file: &mut ProcFile,
    lines: &mut Lines,
    hierarchies: &[Hierarchy],
    pids: &[u32],
) -> Result<usize, Error> {
    let mut beyond = 0;
    for hierarchy in hierarchies {
        let mut paths = BTreeSet::new();
        for pid in pids {
            let Ok(text) = file.read(format!("/proc/{pid}/cgroup")) else {
                continue;
            };
            for path in hierarchy.paths(&text) {
                if paths.len() < MAX_CGROUPS || paths.contains(path) {
                    paths.insert(path.to_string());
                } else {
                    beyond += 1;
                }
            }
        }
        for path in &paths {
            let name = lines.text(path);
            let dir = format!("{}{path}", hierarchy.mount);
            match hierarchy.version {
                Version::Two => two(file, lines, &name, &dir)?,
                Version::OneCpu => one_cpu(file, lines, &name, &dir)?,
                Version::OneMemory => one_memory(file, lines, &name, &dir)?,
            }
        }
    }
    Ok(beyond)
}

/// cgroup v2. A controller that is not enabled for a cgroup leaves no files there.
fn two(file: &mut ProcFile, lines: &mut Lines, name: &Text, dir: &str) -> Result<(), Error> {
    let quota = file.read(format!("{dir}/cpu.max")).ok();
    let quota = quota.and_then(|text| quota_ms(&text));
    if let Ok(text) = file.read(format!("{dir}/cpu.stat")) {
        let ms = |name| value(&text, name).map(|us| us as f64 / 1000.0);
        put(lines, &CPU, name, ms("usage_usec"), quota)?;
        let throttled = value(&text, "nr_throttled").map(|n| n as f64);
        put(lines, &THROTTLED, name, throttled, None)?;
        put(lines, &THROTTLED_MS, name, ms("throttled_usec"), None)?;
    }
    for (pressure, metric) in &PRESSURES {
        if let Ok(text) = file.read(format!("{dir}/{pressure}")) {
            let some = pressure::parse(&text, "some").map(|(average, _)| average);
            put(lines, metric, name, some, Some(100.0))?;
        }
    }
    let mut number = |name| Some(file.number(format!("{dir}/{name}"))? as f64);
    let (memory, most) = (number("memory.current"), number("memory.max"));
    put(lines, &MEMORY, name, memory, most)?;
    let (tasks, most) = (number("pids.current"), number("pids.max"));
    put(lines, &TASKS, name, tasks, most)?;
    if let Ok(text) = file.read(format!("{dir}/memory.events")) {
        let events = |name| value(&text, name).map(|n| n as f64);
        put(lines, &MEMORY_HIGH, name, events("high"), None)?;
        put(lines, &MEMORY_MAX, name, events("max"), None)?;
        put(lines, &OOM_KILLS, name, events("oom_kill"), None)?;
    }
    Ok(())
}

/// The cpu controller of cgroup v1.
fn one_cpu(file: &mut ProcFile, lines: &mut Lines, name: &Text, dir: &str) -> Result<(), Error> {
    if let Ok(text) = file.read(format!("{dir}/cpu.stat")) {
        let throttled = value(&text, "nr_throttled").map(|n| n as f64);
        put(lines, &THROTTLED, name, throttled, None)?;
        let ms = value(&text, "throttled_time").map(|ns| ns as f64 / 1e6);
        put(lines, &THROTTLED_MS, name, ms, None)?;
    }
    // cpuacct is mostly mounted with cpu.
    let used = file.number(format!("{dir}/cpuacct.usage"));
    let quota = file.number(format!("{dir}/cpu.cfs_quota_us")); // -1: none
    let period = file.number(format!("{dir}/cpu.cfs_period_us"));
    let quota = quota.zip(period).and_then(|(q, p)| per_second(q, p));
    put(lines, &CPU, name, used.map(|ns| ns as f64 / 1e6), quota)
}

/// The memory controller of cgroup v1.
fn one_memory(file: &mut ProcFile, lines: &mut Lines, name: &Text, dir: &str) -> Result<(), Error> {
    /// Without a limit the kernel shows the largest number of whole pages.
    const NO_LIMIT: f64 = (1u64 << 62) as f64;
    let mut number = |name| Some(file.number(format!("{dir}/{name}"))? as f64);
    let used = number("memory.usage_in_bytes");
    let most = number("memory.limit_in_bytes").filter(|&n| n < NO_LIMIT);
    put(lines, &MEMORY, name, used, most)?;
    put(lines, &MEMORY_MAX, name, number("memory.failcnt"), None)?;
    if let Ok(text) = file.read(format!("{dir}/memory.oom_control")) {
        let kills = value(&text, "oom_kill").map(|n| n as f64);
        put(lines, &OOM_KILLS, name, kills, None)?;
    }
    Ok(())
}

fn put(
    lines: &mut Lines,
    metric: &Metric,
    name: &Text,
    value: Option<f64>,
    limit: Option<f64>,
) -> Result<(), Error> {
    match value {
        Some(value) => lines.add(metric, 0, name, value, limit),
        None => Ok(()),
    }
}

/// CPU time that `max 100000` or `50000 100000` (quota and period, µs) allow a second, ms.
fn quota_ms(text: &str) -> Option<f64> {
    match numbers(text).collect::<Vec<_>>()[..] {
        [quota, period] => per_second(quota, period),
        _ => None,
    }
}

fn per_second(quota: u64, period: u64) -> Option<f64> {
    (period > 0).then(|| quota as f64 / period as f64 * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_cpu_time_per_second() {
        assert_eq!(quota_ms("50000 100000\n"), Some(500.0));
        assert_eq!(quota_ms("max 100000\n"), None);
        assert_eq!(quota_ms("1 0"), None);
        assert_eq!(quota_ms(""), None);
    }
}
