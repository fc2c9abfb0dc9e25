//! Memory and swap: what is used, whether tasks had to free some first, whether one was killed.

use super::lines::{ERRORS, Lines, Metric, SATURATION, UTILISATION, counter, gauge};
use crate::error::Error;
use crate::procfile::{ProcFile, numbers, value};

const USED: Metric = gauge("memory", UTILISATION, "used_bytes", "bytes");
const SWAP: Metric = gauge("memory", UTILISATION, "swap_used_bytes", "bytes");
const SWAP_IN: Metric = counter("memory", SATURATION, "pages_swapped_in", "count");
const SWAP_OUT: Metric = counter("memory", SATURATION, "pages_swapped_out", "count");
const MAJOR_FAULTS: Metric = counter("memory", SATURATION, "major_faults", "count");
const DIRECT_RECLAIM: Metric = counter("memory", SATURATION, "direct_reclaims", "count");
const OOM_KILLS: Metric = counter("memory", ERRORS, "oom_kills", "count");

/// Writes the lines about memory.
pub fn sample(file: &mut ProcFile, lines: &mut Lines) -> Result<(), Error> {
    if let Ok(text) = file.read("/proc/meminfo") {
        let bytes = |name: &str| value(&text, name).map(|kib| kib as f64 * 1024.0);
        // What can be had without swapping is not used, whatever it holds at the moment.
        if let (Some(total), Some(available)) = (bytes("MemTotal"), bytes("MemAvailable")) {
            lines.of_host(&USED, total - available, Some(total))?;
        }
        if let (Some(total), Some(free)) = (bytes("SwapTotal"), bytes("SwapFree")) {
            lines.of_host(&SWAP, total - free, Some(total))?;
        }
    }
    if let Ok(text) = file.read("/proc/vmstat") {
        let reclaims: u64 = text
            .lines()
            .filter(|l| l.starts_with("allocstall"))
            .filter_map(|l| numbers(l.split_once(' ')?.1).next())
            .sum();
        lines.of_host(&DIRECT_RECLAIM, reclaims as f64, None)?;
        for (metric, name) in [
            (&SWAP_IN, "pswpin"),
            (&SWAP_OUT, "pswpout"),
            (&MAJOR_FAULTS, "pgmajfault"),
            (&OOM_KILLS, "oom_kill"),
        ] {
            if let Some(n) = value(&text, name) {
                lines.of_host(metric, n as f64, None)?;
            }
        }
    }
    Ok(())
}
