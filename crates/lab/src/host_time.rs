//! What the hypervisor took of this machine's time.

use serde_json::Value;

/// From this share on of the machine's time that the hypervisor took, tcpwhy may say that it did.
const STOLEN: f64 = 0.05;
/// What tcpwhy calls the resource that is then scarce.
const STEAL: &str = "CPUs (steal)";

/// The time of all CPUs since the machine started, in ticks, as in /proc/stat.
#[derive(Clone, Copy, Default)]
pub(crate) struct HostTime {
    all: u64,
    stolen: u64,
}

impl HostTime {
    pub(crate) fn now() -> HostTime {
        HostTime::of(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn of(stat: &str) -> HostTime {
        let first = stat.lines().next().unwrap_or_default();
        let ticks = first.split_whitespace().skip(1);
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is in the first two.
        let ticks: Vec<u64> = ticks.take(8).filter_map(|t| t.parse().ok()).collect();
        HostTime {
            all: ticks.iter().sum(),
            stolen: ticks.get(7).copied().unwrap_or(0),
        }
    }

    /// The share of it that the hypervisor took since another moment.
    pub(crate) fn stolen_since(self, before: HostTime) -> f64 {
        let all = self.all.saturating_sub(before.all);
        self.stolen.saturating_sub(before.stolen) as f64 / all.max(1) as f64
    }
}

/// Whether a finding tells of what the hypervisor took, and it did take that share: it is true of the machine, and nobody
/// planted it.
pub(crate) fn tells_of_steal(finding: &Value, stolen: f64) -> bool {
    stolen >= STOLEN && finding["scope"]["resource"] == STEAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hypervisors_share() {
        let before = HostTime::of("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1 2 3");
        let now = HostTime::of("cpu  20 0 20 130 0 0 0 30 7 7\n");
        assert!((now.stolen_since(before) - 0.2).abs() < 1e-9);
        assert_eq!(HostTime::of("").stolen_since(before), 0.0);
    }

    #[test]
    fn what_the_hypervisor_did_not_take_is_no_excuse() {
        let about = |resource| serde_json::json!({ "scope": { "resource": resource } });
        assert!(tells_of_steal(&about(STEAL), 0.2));
        assert!(!tells_of_steal(&about(STEAL), 0.01));
        assert!(!tells_of_steal(&about("CPUs"), 0.2));
    }
}
