//! Load and pressure: how much work waits for a CPU, for memory, for a disk.

use super::lines::{Lines, Metric, SATURATION, UTILISATION, counter, gauge};
use crate::error::Error;
use crate::procfile::ProcFile;

const LOADS: [Metric; 3] = [
    gauge("cpu", SATURATION, "load1", "count"),
    gauge("cpu", SATURATION, "load5", "count"),
    gauge("cpu", SATURATION, "load15", "count"),
];
const RUNNABLE: Metric = gauge("cpu", SATURATION, "runnable_threads", "count");

const THREADS: Metric = gauge("cpu", UTILISATION, "threads", "count");

/// A file of pressure stall information: what waits, and the lines it has.
struct Pressure {
    file: &'static str,
    /// `some` threads waited: 10 s average, total.
    some: Option<[Metric; 2]>,
    /// All threads that were not idle waited (`full`).
    full: Option<[Metric; 2]>,
}

const fn some(resource: &'static str) -> Option<[Metric; 2]> {
    Some([
        gauge(resource, SATURATION, "psi_some_avg10", "%"),
        counter(resource, SATURATION, "psi_some_ms", "ms"),
    ])
}

const fn full(resource: &'static str) -> Option<[Metric; 2]> {
    Some([
        gauge(resource, SATURATION, "psi_full_avg10", "%"),
        counter(resource, SATURATION, "psi_full_ms", "ms"),
    ])
}

/// `full` of the CPU is not defined for a whole host.
const FILES: &[Pressure] = &[
    Pressure {
        file: "cpu",
        some: some("cpu"),
        full: None,
    },
    Pressure {
        file: "memory",
        some: some("memory"),
        full: full("memory"),
    },
    Pressure {
        file: "io",
        some: some("disk"),
        full: full("disk"),
    },
    // Interrupts stop whatever runs (Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING).
    Pressure {
        file: "irq",
        some: None,
        full: Some([
            gauge("cpu", SATURATION, "psi_irq_avg10", "%"),
            counter("cpu", SATURATION, "psi_irq_ms", "ms"),
        ]),
    },
];

/// Writes load and pressure; on `cpus` CPUs.
pub fn sample(file: &mut ProcFile, lines: &mut Lines, cpus: u32) -> Result<(), Error> {
    let cpus = Some(f64::from(cpus));
    if let Ok(text) = file.read("/proc/loadavg") {
        let mut words = text.split_ascii_whitespace();
        for metric in &LOADS {
            if let Some(load) = words.next().and_then(|w| w.parse().ok()) {
                lines.of_host(metric, load, cpus)?;
            }
        }
        if let Some((running, all)) = words.next().and_then(|w| w.split_once('/')) {
            if let Ok(running) = running.parse() {
                lines.of_host(&RUNNABLE, running, cpus)?;
            }
            if let Ok(all) = all.parse() {
                lines.of_host(&THREADS, all, None)?;
            }
        }
    }
    for p in FILES {
        // A kernel without it has none of the files: the source's verdict.
        if let Ok(text) = file.read(format!("/proc/pressure/{}", p.file)) {
            for (kind, metrics) in [("some", &p.some), ("full", &p.full)] {
                let Some(([average, total], (percent, ms))) =
                    metrics.as_ref().zip(parse(&text, kind))
                else {
                    continue;
                };
                lines.of_host(average, percent, Some(100.0))?;
                lines.of_host(total, ms, Some(1000.0))?;
            }
        }
    }
    Ok(())
}

/// Average over 10 s in % and total in ms, of the line `kind avg10=… avg60=… avg300=… total=µs`.
pub fn parse(text: &str, kind: &str) -> Option<(f64, f64)> {
    let line = text.lines().find_map(|l| l.strip_prefix(kind))?;
    let of = |name: &str| -> Option<f64> {
        let mut words = line.split_ascii_whitespace();
        words.find_map(|w| w.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    Some((of("avg10")?, of("total")? / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_by_name() {
        let text = "some avg10=2.07 avg60=5.52 avg300=3.39 total=45257699\n\
                    full avg10=0.10 avg60=0 avg300=0 total=1500\n";
        assert_eq!(parse(text, "some"), Some((2.07, 45257.699)));
        assert_eq!(parse(text, "full"), Some((0.1, 1.5)));
        assert_eq!(parse("some avg10=x total=1", "some"), None);
        assert_eq!(parse("", "some"), None);
    }
}
