//! Network interfaces of a namespace, and what the network stack itself refuses.

use std::collections::HashMap;
use std::path::Path;

use recording::Text;

use super::lines::{ERRORS, Lines, Metric, SATURATION, UTILISATION, counter};
use crate::error::Error;
use crate::procfile::ProcFile;

const RX_BYTES: Metric = counter("network", UTILISATION, "rx_bytes", "bytes");
const TX_BYTES: Metric = counter("network", UTILISATION, "tx_bytes", "bytes");
/// Column of /proc/net/dev and what it means; bytes are columns 0 and 8.
const COLUMNS: &[(usize, Metric)] = &[
    (1, counter("network", UTILISATION, "rx_packets", "count")),
    (2, counter("network", ERRORS, "rx_errors", "count")),
    (3, counter("network", SATURATION, "rx_dropped", "count")),
    (4, counter("network", SATURATION, "rx_fifo", "count")),
    (9, counter("network", UTILISATION, "tx_packets", "count")),
    (10, counter("network", ERRORS, "tx_errors", "count")),
    (11, counter("network", SATURATION, "tx_dropped", "count")),
    (12, counter("network", SATURATION, "tx_fifo", "count")),
    (14, counter("network", ERRORS, "tx_carrier", "count")),
];

/// Files of per-CPU columns, in hexadecimal below a line of names: what of them says that the
/// structure was full. Those of the neighbours count for the whole host.
struct Stat {
    file: &'static str,
    instance: &'static str,
    of_host: bool,
    columns: &'static [(&'static str, Metric)],
}

const TABLE_FULL: (&str, Metric) = (
    "table_fulls",
    counter("network", ERRORS, "table_full", "count"),
);

const STATS: &[Stat] = &[
    Stat {
        file: "arp_cache",
        instance: "neighbours",
        of_host: true,
        columns: &[TABLE_FULL],
    },
    Stat {
        file: "ndisc_cache",
        instance: "neighbours6",
        of_host: true,
        columns: &[TABLE_FULL],
    },
    Stat {
        file: "nf_conntrack",
        instance: "conntrack",
        of_host: false,
        columns: &[
            ("drop", counter("network", ERRORS, "dropped", "count")),
            (
                "early_drop",
                counter("network", SATURATION, "early_dropped", "count"),
            ),
            (
                "insert_failed",
                counter("network", ERRORS, "insert_failed", "count"),
            ),
            ("invalid", counter("network", ERRORS, "invalid", "count")),
            (
                "chaintoolong",
                counter("network", ERRORS, "chain_too_long", "count"),
            ),
            // The same column under its first name (Linux 5.15 to 6.x).
            (
                "chainlength",
                counter("network", ERRORS, "chain_too_long", "count"),
            ),
        ],
    },
];

/// What links can carry, bytes per second; looked up again now and then.
#[derive(Default)]
pub struct Speeds {
    known: HashMap<String, Option<f64>>,
}

/// Interfaces of a host with many containers are thousands; past this, memory matters more.
const MAX_KNOWN: usize = 1 << 14;

impl Speeds {
    /// Look them up again: links are negotiated anew.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    fn of(&mut self, interface: &str) -> Option<f64> {
        if let Some(&known) = self.known.get(interface) {
            return known;
        }
        let speed = link_speed(interface);
        if self.known.len() < MAX_KNOWN {
            self.known.insert(interface.into(), speed);
        }
        speed
    }
}

/// Only where there is a device, or a bond of devices: the speed of a virtual interface is made up.
fn link_speed(interface: &str) -> Option<f64> {
    let dir = Path::new("/sys/class/net").join(interface);
    if !dir.join("device").exists() && !dir.join("bonding").exists() {
        return None;
    }
    let text = std::fs::read_to_string(dir.join("speed")).ok()?;
    let mbit: f64 = text.trim().parse().ok()?;
    (mbit > 0.0).then_some(mbit * 1e6 / 8.0)
}

/// Writes the lines of the interfaces of the calling thread's namespace `netns`. /sys shows the
/// links of the namespace that we were started in: `speeds` are given there only.
pub fn sample(
    file: &mut ProcFile,
    lines: &mut Lines,
    netns: u32,
    mut speeds: Option<&mut Speeds>,
) -> Result<(), Error> {
    if let Ok(text) = file.read("/proc/thread-self/net/dev") {
        for (name, n) in text.lines().filter_map(parse) {
            let speed = speeds.as_mut().and_then(|s| s.of(name));
            let name = lines.text(name);
            lines.add(&RX_BYTES, netns, &name, n[0] as f64, speed)?;
            lines.add(&TX_BYTES, netns, &name, n[8] as f64, speed)?;
            for (column, metric) in COLUMNS {
                lines.add(metric, netns, &name, n[*column] as f64, None)?;
            }
        }
    }
    for stat in STATS.iter().filter(|s| !s.of_host) {
        stat_lines(file, lines, netns, stat)?;
    }
    Ok(())
}

/// Writes what the host as a whole refuses.
pub fn of_host(file: &mut ProcFile, lines: &mut Lines) -> Result<(), Error> {
    for stat in STATS.iter().filter(|s| s.of_host) {
        stat_lines(file, lines, 0, stat)?;
    }
    Ok(())
}

fn stat_lines(
    file: &mut ProcFile,
    lines: &mut Lines,
    netns: u32,
    stat: &Stat,
) -> Result<(), Error> {
    let Ok(text) = file.read(format!("/proc/thread-self/net/stat/{}", stat.file)) else {
        return Ok(());
    };
    let instance: Text = lines.text(stat.instance);
    for (name, metric) in stat.columns {
        if let Some(sum) = column_sum(&text, name) {
            lines.add(metric, netns, &instance, sum as f64, None)?;
        }
    }
    Ok(())
}

/// The sum over all CPUs of the column `name`.
fn column_sum(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let column = lines
        .next()?
        .split_ascii_whitespace()
        .position(|w| w == name)?;
    let of = |line: &str| {
        let word = line.split_ascii_whitespace().nth(column)?;
        u64::from_str_radix(word, 16).ok()
    };
    Some(lines.filter_map(of).fold(0, u64::wrapping_add))
}

/// `  eth0: 16 numbers`.
fn parse(line: &str) -> Option<(&str, [u64; 16])> {
    let (name, rest) = line.rsplit_once(':')?;
    let mut words = rest.split_ascii_whitespace().map(str::parse);
    let mut n = [0; 16];
    for n in &mut n {
        *n = words.next()?.ok()?;
    }
    Some((name.trim(), n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_and_columns() {
        let line = "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        let (name, n) = parse(line).unwrap();
        assert_eq!((name, n[0], n[8], n[15]), ("eth0", 1, 9, 16));
        assert!(parse(" face |bytes packets").is_none());
        assert!(parse("eth0: 1 2").is_none());
        let stat = "entries drop\n00000001 0000000a\n00000001 00000001\n";
        assert_eq!(column_sum(stat, "drop"), Some(11));
        assert_eq!(column_sum(stat, "none"), None);
        assert_eq!(column_sum("", "drop"), None);
    }
}
