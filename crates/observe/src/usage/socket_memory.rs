//! Memory and numbers of sockets against the limits of TCP.

use recording::Text;

use super::lines::{Lines, Metric, SATURATION, UTILISATION, gauge};
use crate::error::Error;
use crate::procfile::{ProcFile, numbers};

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

/// What /proc/net/sockstat says of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SockStat {
    /// Hashed sockets of the namespace, IPv4: listeners and connections, not TIME_WAIT.
    pub in_use: u64,
    /// Sockets without a process, of the whole host.
    pub orphans: u64,
    /// TIME_WAIT of the namespace, IPv4 and IPv6.
    pub time_wait: u64,
    /// Pages of all buffers of the whole host.
    pub pages: u64,
}

impl SockStat {
    /// Of the calling thread's namespace.
    pub fn read(file: &mut ProcFile) -> Option<SockStat> {
        parse(&file.read("/proc/thread-self/net/sockstat").ok()?)
    }
}

/// `TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 160`.
fn parse(text: &str) -> Option<SockStat> {
    let line = text.lines().find_map(|l| l.strip_prefix("TCP:"))?;
    let mut words = line.split_ascii_whitespace();
    let mut stat = SockStat::default();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let Ok(value) = value.parse() else {
            continue;
        };
        match name {
            "inuse" => stat.in_use = value,
            "orphan" => stat.orphans = value,
            "tw" => stat.time_wait = value,
            "mem" => stat.pages = value,
            _ => {}
        }
    }
    Some(stat)
}

/// Writes the lines of the calling thread's namespace `netns`.
pub fn of_namespace(file: &mut ProcFile, lines: &mut Lines, netns: u32) -> Result<(), Error> {
    let Some(stat) = SockStat::read(file) else {
        return Ok(());
    };
    let in6 = file.read("/proc/thread-self/net/sockstat6").ok();
    let in6 =
        in6.and_then(|text| numbers(text.lines().next()?.strip_prefix("TCP6: inuse")?).next());
    let none: Text = lines.text("");
    let in_use = stat.in_use + in6.unwrap_or(0);
    lines.add(&IN_USE, netns, &none, in_use as f64, None)?;
    let most = file.number("/proc/sys/net/ipv4/tcp_max_tw_buckets");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_tcp_is_read_by_name() {
        let text = "sockets: used 13\nTCP: inuse 1 orphan 2 tw 3 alloc 4 mem 160\nUDP: inuse 9\n";
        let expected = SockStat {
            in_use: 1,
            orphans: 2,
            time_wait: 3,
            pages: 160,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(
            parse("TCP: inuse x orphan 5"),
            Some(SockStat {
                orphans: 5,
                ..SockStat::default()
            })
        );
        assert_eq!(parse("UDP: inuse 9"), None);
    }
}
