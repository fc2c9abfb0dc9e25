//! Source `cpus`: time and softnet of each CPU.

use recording::tables::Cpu;
use recording::{TableWriter, monotonic_ns};

use super::lines::{ERRORS, Lines, Metric, SATURATION, UTILISATION, counter, gauge};
use crate::error::Error;
use crate::procfile::{ProcFile, numbers, value};

/// /proc reports CPU times in hundredths of a second, whatever HZ is (USER_HZ is part of the ABI).
const USER_TICK_MS: u64 = 10;
/// From this many columns on /proc/net/softnet_stat names the CPU, in this one (Linux 5.10).
const SOFTNET_CPU: usize = 12;

const BUSY: Metric = counter("cpu", UTILISATION, "busy_ms", "ms");
const STEAL: Metric = counter("cpu", SATURATION, "steal_ms", "ms");
const BLOCKED: Metric = gauge("disk", SATURATION, "blocked_threads", "count");
const SQUEEZED: Metric = counter("network", SATURATION, "softnet_squeezed", "count");
const DROPPED: Metric = counter("network", ERRORS, "softnet_dropped", "count");

/// Reads /proc/stat and softnet.
pub struct Cpus {
    rows: TableWriter<Cpu>,
    stat: ProcFile,
    softnet: ProcFile,
}

impl Cpus {
    /// Rows into `rows`.
    pub fn new(rows: TableWriter<Cpu>) -> Cpus {
        Cpus {
            rows,
            stat: ProcFile::default(),
            softnet: ProcFile::default(),
        }
    }

    /// Writes a row per CPU, and the host's sums as lines; how many CPUs are online.
    pub fn sample(&mut self, lines: &mut Lines) -> Result<u32, Error> {
        let softnet = self.softnet.read("/proc/net/softnet_stat").ok();
        let time_ns = monotonic_ns();
        let stat = self.stat.read("/proc/stat").map_err(|why| Error::System {
            what: "reading /proc/stat".into(),
            why,
        })?;
        let cpus: Vec<Cpu> = parse(time_ns, &stat, softnet.as_deref()).collect();
        let sum = |of: fn(&Cpu) -> u64| cpus.iter().map(of).sum::<u64>() as f64;
        let softnet_sum = |of: fn(&Cpu) -> Option<u64>| {
            let known: Option<u64> = cpus.iter().map(of).sum();
            known.map(|sum| sum as f64)
        };
        let online = cpus.len() as u32;
        // What a counter can grow by in a second.
        let most = Some(f64::from(online) * 1000.0);
        lines.of_host(&BUSY, sum(busy_ms), most)?;
        lines.of_host(&STEAL, sum(|c| c.steal_ms), most)?;
        let softnet = lines.text("softnet");
        if let Some(squeezed) = softnet_sum(|c| c.softnet_squeezed) {
            lines.add(&SQUEEZED, 0, &softnet, squeezed, None)?;
        }
        if let Some(dropped) = softnet_sum(|c| c.softnet_dropped) {
            lines.add(&DROPPED, 0, &softnet, dropped, None)?;
        }
        if let Some(blocked) = value(&stat, "procs_blocked") {
            lines.of_host(&BLOCKED, blocked as f64, None)?;
        }
        for row in cpus {
            self.rows.push(row)?;
        }
        Ok(online)
    }

    /// Seals what is due.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        Ok(self.rows.seal_if_due()?)
    }

    /// Seals everything.
    pub fn seal(&mut self) -> Result<(), Error> {
        Ok(self.rows.seal()?)
    }
}

fn busy_ms(c: &Cpu) -> u64 {
    c.user_ms + c.nice_ms + c.system_ms + c.irq_ms + c.softirq_ms
}

fn parse<'a>(
    time_ns: u64,
    stat: &'a str,
    softnet: Option<&'a str>,
) -> impl Iterator<Item = Cpu> + 'a {
    let cpus = stat.lines().filter_map(|line| {
        let (name, times) = line.split_once(' ')?;
        let cpu: u32 = name.strip_prefix("cpu")?.parse().ok()?;
        Some((cpu, times))
    });
    let softnet: Vec<Vec<u64>> = softnet
        .unwrap_or_default()
        .lines()
        .map(|line| {
            let words = line.split_ascii_whitespace();
            words
                .map_while(|w| u64::from_str_radix(w, 16).ok())
                .collect()
        })
        .collect();
    cpus.enumerate().map(move |(nth, (cpu, times))| {
        let mut ms = numbers(times).map(|ticks| ticks.saturating_mul(USER_TICK_MS));
        let mut next = || ms.next().unwrap_or(0);
        // Both files list the CPUs that are online, in order; later kernels name them, too.
        let named = |row: &&Vec<u64>| row.get(SOFTNET_CPU) == Some(&u64::from(cpu));
        let net = match softnet.first() {
            Some(row) if row.len() > SOFTNET_CPU => softnet.iter().find(named),
            _ => softnet.get(nth),
        };
        let column = |i: usize| net.and_then(|row| row.get(i).copied());
        Cpu {
            time_ns,
            cpu,
            user_ms: next(),
            nice_ms: next(),
            system_ms: next(),
            idle_ms: next(),
            iowait_ms: next(),
            irq_ms: next(),
            softirq_ms: next(),
            steal_ms: next(),
            softnet_processed: column(0),
            softnet_dropped: column(1),
            softnet_squeezed: column(2),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\n\
                        cpu2 10 0 0 0 0 0 0 0 0 0\nintr 5\nprocs_blocked 3\n";

    #[test]
    fn ticks_become_ms_and_softnet_finds_its_cpu() {
        let named = "a 1 2 0 0 0 0 0 0 0 0 0 00000002 0 0\n\
                     ff 3 4 0 0 0 0 0 0 0 0 0 00000000 0 0\n";
        let cpus: Vec<Cpu> = parse(7, STAT, Some(named)).collect();
        assert_eq!(cpus.len(), 2);
        let first = &cpus[0];
        assert_eq!((first.cpu, first.user_ms, first.steal_ms), (0, 10, 80));
        assert_eq!(first.softnet_processed, Some(0xff));
        assert_eq!((cpus[1].cpu, cpus[1].softnet_dropped), (2, Some(1)));
        assert_eq!(busy_ms(first), 10 * (1 + 2 + 3 + 6 + 7));
    }

    #[test]
    fn older_kernels_list_softnet_by_position() {
        let old = "a 1 2 0 0 0 0 0 0 0 0\nb 3 4 0 0 0 0 0 0 0 0\n";
        let cpus: Vec<Cpu> = parse(7, STAT, Some(old)).collect();
        assert_eq!(cpus[1].softnet_processed, Some(0xb));
        let without: Vec<Cpu> = parse(7, STAT, None).collect();
        assert_eq!(without[0].softnet_processed, None);
        let damaged: Vec<Cpu> = parse(7, "cpu0 x\ncpux 1\ncpu1\n", Some("zz")).collect();
        assert_eq!((damaged.len(), damaged[0].user_ms), (1, 0));
    }
}
