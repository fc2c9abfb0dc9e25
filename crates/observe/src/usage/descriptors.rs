//! File descriptors: of the host, and of each process that holds TCP sockets.

use std::collections::HashMap;

use super::lines::{Lines, Metric, UTILISATION, gauge};
use crate::error::Error;
use crate::procfile::{ProcFile, numbers};
use crate::wire::tw_owner;

const OPEN_FILES: Metric = gauge("descriptors", UTILISATION, "open_files", "count");
const OF_PROCESS: Metric = gauge("descriptors", UTILISATION, "process_open_files", "count");

/// Writes the line of the whole host.
pub fn of_host(file: &mut ProcFile, lines: &mut Lines) -> Result<(), Error> {
    // Allocated, free (always zero), limit.
    let Ok(text) = file.read("/proc/sys/fs/file-nr") else {
        return Ok(());
    };
    if let [allocated, free, limit] = numbers(&text).collect::<Vec<_>>()[..] {
        let open = allocated.saturating_sub(free);
        lines.of_host(&OPEN_FILES, open as f64, Some(limit as f64))?;
    }
    Ok(())
}

/// Writes a line for each of `pids`; its instance is `comm/pid`.
pub fn of_processes(
    file: &mut ProcFile,
    lines: &mut Lines,
    owners: &HashMap<u32, tw_owner>,
    pids: &[u32],
) -> Result<(), Error> {
    for pid in pids {
        // It may have ended since it was counted.
        let Ok(comm) = file.read(format!("/proc/{pid}/comm")) else {
            continue;
        };
        let instance = lines.text(&format!("{}/{pid}", comm.trim_end()));
        let limits = file.read(format!("/proc/{pid}/limits")).ok();
        let limit = limits.and_then(|text| {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix("Max open files"))?;
            numbers(line).next()
        });
        if let Some(owner) = owners.get(pid) {
            let open = f64::from(owner.files);
            lines.add(&OF_PROCESS, 0, &instance, open, limit.map(|n| n as f64))?;
        }
    }
    Ok(())
}
