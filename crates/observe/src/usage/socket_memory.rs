//! Memory and numbers of sockets against the limits of TCP.

use std::collections::HashMap;

use recording::Text;

use super::lines::{Lines, Metric, SATURATION, UTILISATION, gauge};
use crate::error::Error;
use crate::procfile::{ProcFile, numbers};
use crate::sockstat::{SockStat, in_use6};

const BYTES: Metric = gauge("socket-memory", UTILISATION, "tcp_bytes", "bytes");
/// The same memory against the mark from which on TCP shrinks windows.
const PRESSURE: Metric = gauge(
    "socket-memory",
    SATURATION,
    "tcp_bytes_to_pressure",
    "bytes",
);
const ORPHANS: Metric = gauge("socket-memory", UTILISATION, "orphans", "count");
const TIME_WAIT: Metric = gauge("socket-memory", UTILISATION, "time_wait", "count");
const IN_USE: Metric = gauge("socket-memory", UTILISATION, "tcp_sockets", "count");

/// The TIME_WAIT sockets that each namespace may have; looked up again now and then, as finding a sysctl takes
/// the longer the more namespaces there are.
#[derive(Default)]
pub struct MostTimeWait(HashMap<u32, Option<u64>>);

impl MostTimeWait {
    /// Look them up again.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Writes the lines of the calling thread's namespace `netns`.
pub fn of_namespace(
    file: &mut ProcFile,
    lines: &mut Lines,
    netns: u32,
    most: &mut MostTimeWait,
) -> Result<(), Error> {
    let Some(stat) = SockStat::read(file) else {
        return Ok(());
    };
    let none: Text = lines.text("");
    let in_use = stat.in_use + in_use6(file);
    lines.add(&IN_USE, netns, &none, in_use as f64, None)?;
    let most = most.0.entry(netns);
    let most = *most.or_insert_with(|| file.number("/proc/sys/net/ipv4/tcp_max_tw_buckets"));
    lines.add(
        &TIME_WAIT,
        netns,
        &none,
        stat.time_wait as f64,
        most.map(|n| n as f64),
    )
}

/// Writes the lines of the whole host. The limits are shown in its first namespace only.
pub fn of_host(file: &mut ProcFile, lines: &mut Lines) -> Result<(), Error> {
    let Some(stat) = SockStat::read(file) else {
        return Ok(());
    };
    let page = rustix::param::page_size() as f64;
    let marks: Option<Vec<u64>> = file
        .read("/proc/sys/net/ipv4/tcp_mem")
        .ok()
        .map(|text| numbers(&text).collect());
    let mark = |i: usize| Some(*marks.as_ref()?.get(i)? as f64 * page);
    let bytes = stat.pages as f64 * page;
    lines.of_host(&BYTES, bytes, mark(2))?;
    lines.of_host(&PRESSURE, bytes, mark(1))?;
    let most = file.number("/proc/sys/net/ipv4/tcp_max_orphans");
    lines.of_host(&ORPHANS, stat.orphans as f64, most.map(|n| n as f64))
}
