//! Part `host` on the running kernel: what it writes is what the system says.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;

use observe::Part;
use recording::Verdict;
use recording::tables::{Cpu, Interrupt, Resource};

use crate::common::{Netns, need_root, record, rows};

/// `cpu0 …` of /proc/stat: eight times in ms.
fn stat() -> HashMap<u32, Vec<u64>> {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let cpus = text.lines().filter_map(|line| {
        let (cpu, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        let ms = times
            .split(' ')
            .take(8)
            .map(|t| t.parse::<u64>().unwrap() * 10);
        Some((cpu.parse().ok()?, ms.collect()))
    });
    cpus.collect()
}

/// Counts by line and CPU of a table like /proc/interrupts.
fn counts(path: &str) -> HashMap<(String, u32), u64> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let cpus = lines.next().unwrap().split_whitespace();
    let cpus: Vec<u32> = cpus.map(|c| c[3..].parse().unwrap()).collect();
    let mut found = HashMap::new();
    for line in lines {
        let (name, rest) = line.split_once(':').unwrap();
        let words: Vec<&str> = rest.split_whitespace().collect();
        if words.len() < cpus.len() {
            continue; // one count for all CPUs
        }
        for (cpu, word) in cpus.iter().zip(words) {
            found.insert((name.trim().to_string(), *cpu), word.parse().unwrap());
        }
    }
    found
}

#[test]
fn cpus_and_interrupts_are_the_systems_own() {
    need_root();
    let irqs = |kind: &str| match kind {
        "irq" => counts("/proc/interrupts"),
        _ => counts("/proc/softirqs"),
    };
    let (stat_before, irq_before, soft_before) = (stat(), irqs("irq"), irqs("softirq"));
    let (manifest, dir) = record(Part::Host, &[], || {});
    let (stat_after, irq_after, soft_after) = (stat(), irqs("irq"), irqs("softirq"));

    for name in ["cpus", "interrupts", "resources"] {
        let source = manifest
            .sources
            .iter()
            .find(|s| s.name.as_str() == name)
            .unwrap();
        assert_eq!(source.verdict, Verdict::Attached, "{name}");
    }
    let cpus: Vec<Cpu> = rows(&dir);
    assert!(cpus.len() >= 2 * stat_before.len(), "two rounds at least");
    for c in &cpus {
        let (low, high) = (&stat_before[&c.cpu], &stat_after[&c.cpu]);
        let ms = [
            c.user_ms,
            c.nice_ms,
            c.system_ms,
            c.idle_ms,
            c.iowait_ms,
            c.irq_ms,
            c.softirq_ms,
            c.steal_ms,
        ];
        for (i, ms) in ms.into_iter().enumerate() {
            // idle and iowait of a busy CPU may go back a tick (proc(5)).
            let slack = if i == 3 || i == 4 { 20 } else { 0 };
            assert!(
                low[i] <= ms + slack && ms <= high[i] + slack,
                "{c:?} {low:?} {high:?}"
            );
        }
        assert!(c.softnet_processed.is_some());
    }

    let interrupts: Vec<Interrupt> = rows(&dir);
    let mut seen = HashMap::new();
    for i in &interrupts {
        let (before, after) = match &*i.kind {
            "irq" => (&irq_before, &irq_after),
            _ => (&soft_before, &soft_after),
        };
        let key = (i.line.to_string(), i.cpu);
        assert!(before[&key] <= i.count && i.count <= after[&key], "{i:?}");
        let last = seen.insert((i.kind.clone(), key), i.count);
        assert!(
            i.count > 0 && last < Some(i.count),
            "only what changed: {i:?}"
        );
    }
    // Nothing that was not zero is missing.
    let missing = |kind: &str, before: &HashMap<(String, u32), u64>| {
        let keys = before
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(k, _)| k.clone());
        let gone = keys.filter(|k| !seen.contains_key(&(kind.into(), k.clone())));
        gone.collect::<Vec<_>>()
    };
    assert_eq!(missing("irq", &irq_before), []);
    assert_eq!(missing("softirq", &soft_before), []);
}

fn find<'r>(rows: &'r [Resource], resource: &str, instance: &str, metric: &str) -> &'r Resource {
    let is = |r: &&Resource| r.resource == resource && r.instance == instance && r.metric == metric;
    let found = rows.iter().find(is);
    found.unwrap_or_else(|| panic!("no line {resource} {instance} {metric}"))
}

#[test]
fn the_checklist_has_its_lines_with_sane_values() {
    need_root();
    let netns = Netns::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (manifest, dir) = record(Part::Host, &[netns.inode], || {});
    drop(listener);
    let rows: Vec<Resource> = rows(&dir);
    for r in &rows {
        assert!(r.value.is_finite() && r.value >= 0.0, "{r:?}");
        assert!(
            ["utilisation", "saturation", "errors"].contains(&&*r.aspect),
            "{r:?}"
        );
        assert!(["%", "bytes", "ms", "count"].contains(&&*r.unit), "{r:?}");
        assert!(r.netns == 0 || r.netns == netns.inode, "{r:?}");
    }
    let cpus = stat().len() as f64;
    assert_eq!(find(&rows, "cpu", "", "load1").limit, Some(cpus));
    assert_eq!(find(&rows, "cpu", "", "busy_ms").limit, Some(cpus * 1000.0));
    assert!(find(&rows, "cpu", "", "busy_ms").cumulative);
    let memory = find(&rows, "memory", "", "used_bytes");
    assert!(
        memory.value > 0.0 && memory.limit > Some(memory.value),
        "{memory:?}"
    );
    assert!(find(&rows, "socket-memory", "", "tcp_bytes").limit > Some(0.0));
    assert!(find(&rows, "socket-memory", "", "orphans").limit > Some(0.0));
    let files = find(&rows, "descriptors", "", "open_files");
    assert!(
        files.value > 0.0 && files.limit > Some(files.value),
        "{files:?}"
    );

    // Of the namespace: an interface of its own, that nobody used.
    let lo = find(&rows, "network", "lo", "rx_bytes");
    assert_eq!((lo.netns, lo.value), (netns.inode, 0.0));
    let tw = find(&rows, "socket-memory", "", "time_wait");
    assert_eq!((tw.netns, tw.value), (netns.inode, 0.0));

    // Of this process, which listens: the descriptors that it really has.
    let verdict = |name: &str| {
        let source = manifest.sources.iter().find(|s| s.name.as_str() == name);
        source.unwrap().verdict.clone()
    };
    assert_eq!(verdict("owners"), Verdict::Attached);
    let me = rows.iter().find(|r| {
        let pid = format!("/{}", std::process::id());
        r.metric == "process_open_files" && r.instance.ends_with(&pid)
    });
    let me = me.expect("this process holds a socket");
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as f64;
    // Other tests of this binary open files, too.
    assert!(
        me.value > 0.0 && (me.value - open).abs() < 64.0,
        "{me:?}, now {open}"
    );
    assert!(me.limit >= Some(me.value));

    if verdict("pressure") == Verdict::Attached {
        let psi = find(&rows, "cpu", "", "psi_some_avg10");
        assert!(psi.value <= 100.0 && psi.aspect == "saturation");
    }
    if verdict("cgroups") == Verdict::Attached {
        let of = rows.iter().filter(|r| r.resource == "cgroup");
        assert!(of.clone().all(|r| r.instance.starts_with('/')));
    }
}

#[test]
fn a_counter_that_does_not_move_is_told_once() {
    need_root();
    let netns = Netns::new();
    let (_, dir) = record(Part::Host, &[netns.inode], || {});
    let rows: Vec<Resource> = rows(&dir);
    let is = |r: &&Resource, metric: &str| r.netns == netns.inode && r.metric == metric;
    assert_eq!(rows.iter().filter(|r| is(r, "rx_bytes")).count(), 1);
    assert!(rows.iter().filter(|r| is(r, "time_wait")).count() >= 2);
}
