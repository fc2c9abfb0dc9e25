//! The USE method on the host, as one line for each resource: whether it may be what is scarce, or is not.

use std::borrow::Cow;

use analysis::Story;
use analysis::resources::{Line, Resources};
use analysis::words::{bytes, count, percent, plural};
use serde::{Deserialize, Serialize};

use crate::limits;

/// What was looked at of one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceLine {
    /// `CPUs`, `memory`, `disks`, `network`, `cgroups`, `descriptors`, `TCP memory`.
    pub resource: Cow<'static, str>,
    /// Utilisation, saturation and errors, in a sentence.
    pub says: String,
    /// It was used up, waited for, or failed.
    pub scarce: bool,
}

/// A line for each resource that was recorded.
pub(crate) fn resources(story: &Story) -> Vec<ResourceLine> {
    let all = &story.resources;
    let lines = [
        cpus(story),
        memory(all),
        disks(all),
        network(all),
        cgroups(all),
        descriptors(all),
        tcp_memory(all),
    ];
    lines.into_iter().flatten().collect()
}

fn line(resource: &'static str, scarce: bool, says: String) -> Option<ResourceLine> {
    Some(ResourceLine {
        resource: resource.into(),
        says,
        scarce,
    })
}

/// The one line of a metric of the host.
fn one<'a>(all: &'a Resources, resource: &'a str, metric: &'a str) -> Option<&'a Line> {
    all.of(resource, metric).next().map(|(_, line)| line)
}

/// Whether they were read more than once. What counts up has one row while it stands still, so that only metrics that
/// do not count up show it.
fn compares(all: &Resources) -> bool {
    all.all()
        .any(|(_, line)| !line.cumulative && line.compares())
}

/// Share of the time in which something waited for it.
fn waited(all: &Resources, resource: &str) -> Option<f64> {
    let pressure = one(all, resource, "psi_some_ms").filter(|_| compares(all))?;
    Some(pressure.share().unwrap_or(0.0))
}

fn waits(waited: Option<f64>) -> String {
    match waited {
        Some(share) => format!("something waited for it {} of the time", percent(share)),
        None => "how long something waited for it was not recorded".into(),
    }
}

fn cpus(story: &Story) -> Option<ResourceLine> {
    let cpus: Vec<_> = story.cpus.all().collect();
    let busy = |idle: f64| 1.0 - idle;
    let most = cpus.iter().max_by(|a, b| b.idle.total_cmp(&a.idle))?;
    let mean = cpus.iter().map(|c| busy(c.idle)).sum::<f64>() / cpus.len() as f64;
    let waited = waited(&story.resources, "cpu");
    let scarce =
        mean >= limits::NEARLY_ALL.share() || busy(most.idle) >= limits::NEARLY_ALL.share();
    line(
        "CPUs",
        scarce,
        format!(
            "{}, {} busy on average, CPU {} {}; {}",
            plural(cpus.len() as u64, "CPU"),
            percent(mean),
            most.number,
            percent(busy(most.idle)),
            waits(waited)
        ),
    )
}

fn memory(all: &Resources) -> Option<ResourceLine> {
    let used = one(all, "memory", "used_bytes")?;
    let waited = waited(all, "memory");
    let kills = one(all, "memory", "oom_kills").map_or(0.0, Line::rise);
    let share = used.share()?;
    let scarce = share >= limits::NEARLY_ALL.share()
        || kills > 0.0
        || waited.is_some_and(|w| w >= limits::SMALL_PART.share());
    let killed = match kills {
        0.0 => String::new(),
        n => format!("; {}", plural(n as u64, "OOM kill")),
    };
    let says = format!(
        "{} of {} used; {}{killed}",
        percent(share),
        bytes(used.limit.unwrap_or(0.0) as u64),
        waits(waited)
    );
    line("memory", scarce, says)
}

fn disks(all: &Resources) -> Option<ResourceLine> {
    let busy = all.of("disk", "busy_ms");
    let busy = busy.filter_map(|(name, line)| Some((name, line.share()?)));
    let busiest = busy.max_by(|(_, a), (_, b)| a.total_cmp(b));
    let waited = waited(all, "disk");
    if busiest.is_none() && waited.is_none() {
        return None;
    }
    let says = match busiest {
        Some((name, share)) => format!(
            "{name} was busy {} of the time; {}",
            percent(share),
            waits(waited)
        ),
        None => waits(waited),
    };
    let scarce = waited.is_some_and(|w| w >= limits::SMALL_PART.share())
        || busiest.is_some_and(|(_, s)| s >= limits::NEARLY_ALL.share());
    line("disks", scarce, says)
}

/// Errors and drops of interfaces, and of the backlogs behind them.
fn network(all: &Resources) -> Option<ResourceLine> {
    const LOST: &[&str] = &[
        "rx_errors",
        "tx_errors",
        "tx_carrier",
        "rx_dropped",
        "tx_dropped",
        "softnet_dropped",
    ];
    let lines = LOST
        .iter()
        .flat_map(|metric| all.of("network", metric).map(move |l| (metric, l)));
    let (mut seen, mut lost) = (false, Vec::new());
    for (metric, (name, line)) in lines.filter(|_| compares(all)) {
        seen = true;
        if line.rise() > 0.0 {
            lost.push(format!("{metric} of {name} +{}", count(line.rise() as u64)));
        }
    }
    let says = if lost.is_empty() {
        "no interface dropped a packet or counted an error (cabling, carrier, a full ring)".into()
    } else {
        lost.iter().take(3).cloned().collect::<Vec<_>>().join(", ")
    };
    seen.then(|| line("network", !lost.is_empty(), says))?
}

fn cgroups(all: &Resources) -> Option<ResourceLine> {
    let lines: Vec<_> = all.of("cgroup", "throttled_ms").collect();
    let throttled = lines.iter().filter(|(_, line)| line.rise() > 0.0).count();
    let killed = all.of("cgroup", "memory_oom_kills");
    let killed = killed.map(|(_, line)| line.rise()).sum::<f64>();
    if lines.is_empty() || !compares(all) {
        return None;
    }
    let says = format!(
        "{} of {} were throttled; {}",
        count(throttled as u64),
        count(lines.len() as u64),
        plural(killed as u64, "OOM kill")
    );
    line("cgroups", throttled > 0 || killed > 0.0, says)
}

fn descriptors(all: &Resources) -> Option<ResourceLine> {
    let host = one(all, "descriptors", "open_files")?;
    let of_process = all.of("descriptors", "process_open_files");
    let of_process = of_process.filter_map(|(name, line)| Some((name, line, line.share()?)));
    let fullest = of_process.max_by(|(.., a), (.., b)| a.total_cmp(b));
    let mut says = format!(
        "{} of {}",
        count(host.most as u64),
        count(host.limit? as u64)
    );
    if let Some((name, line, share)) = &fullest {
        says += &format!(
            "; of one process at most {} of its limit ({name}: {})",
            percent(*share),
            count(line.most as u64)
        );
    }
    let scarce = host
        .share()
        .is_some_and(|s| s >= limits::NEARLY_ALL.share())
        || fullest.is_some_and(|(.., s)| s >= limits::NEARLY_ALL.share());
    line("descriptors", scarce, says)
}

fn tcp_memory(all: &Resources) -> Option<ResourceLine> {
    let used = one(all, "socket-memory", "tcp_bytes")?;
    let share = used.share()?;
    let says = format!(
        "{} of the {} that all sockets may have",
        percent(share),
        bytes(used.limit.unwrap_or(0.0) as u64)
    );
    line("TCP memory", share >= limits::NEARLY_ALL.share(), says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::tables::Resource;
    use synth::{Fixture, START_NS};

    /// A metric that was read twice, a second apart.
    fn read(f: &mut Fixture, name: [&str; 3], values: [f64; 2], cumulative: bool, limit: f64) {
        let [resource, instance, metric] = name;
        for (nth, value) in values.into_iter().enumerate() {
            f.resources.push(Resource {
                time_ns: START_NS + nth as u64 * 1_000_000_000,
                netns: 0,
                resource: resource.into(),
                instance: instance.into(),
                aspect: "utilisation".into(),
                metric: metric.into(),
                value,
                unit: "count".into(),
                cumulative,
                limit: (limit > 0.0).then_some(limit),
            });
        }
    }

    fn of(f: &Fixture) -> Vec<ResourceLine> {
        let written = f.write().unwrap();
        resources(&Story::read(&written.recording).unwrap())
    }

    #[test]
    fn what_is_scarce_is_told_from_what_is_not() {
        let mut f = Fixture::new();
        read(
            &mut f,
            ["descriptors", "", "open_files"],
            [10.0, 20.0],
            false,
            1_000.0,
        );
        read(
            &mut f,
            ["descriptors", "web/7", "process_open_files"],
            [90.0, 95.0],
            false,
            100.0,
        );
        read(
            &mut f,
            ["network", "eth0", "rx_dropped"],
            [5.0, 5.0],
            true,
            0.0,
        );
        let lines = of(&f);
        let says = |name: &str| lines.iter().find(|l| l.resource == name).unwrap();
        assert!(says("descriptors").scarce);
        assert!(
            says("descriptors")
                .says
                .ends_with("95 % of its limit (web/7: 95)"),
            "{lines:?}"
        );
        assert!(!says("network").scarce, "it dropped before");
        assert!(
            lines.iter().all(|l| l.resource != "memory"),
            "not recorded: not told"
        );

        read(
            &mut f,
            ["network", "eth1", "rx_dropped"],
            [5.0, 8.0],
            true,
            0.0,
        );
        let lines = of(&f);
        let network = lines.iter().find(|l| l.resource == "network").unwrap();
        assert_eq!(
            (network.scarce, network.says.as_str()),
            (true, "rx_dropped of eth1 +3")
        );
    }
}
