//! Disks: how long each was busy, and how much waited for it.

use std::collections::HashMap;
use std::path::Path;

use super::lines::{Lines, Metric, SATURATION, UTILISATION, counter, gauge};
use crate::error::Error;
use crate::procfile::ProcFile;

const BUSY: Metric = counter("disk", UTILISATION, "busy_ms", "ms");
const WAITED: Metric = counter("disk", SATURATION, "queue_ms", "ms");
const IN_FLIGHT: Metric = gauge("disk", SATURATION, "in_flight", "count");

/// Disks of a host are hundreds; past this, memory matters more.
const MAX_KNOWN: usize = 1 << 14;

/// Remembers which block devices are whole disks.
#[derive(Default)]
pub struct Disks {
    whole: HashMap<String, bool>,
}

impl Disks {
    /// Writes the lines of each disk that was ever used. A partition's work is its disk's, too.
    pub fn sample(&mut self, file: &mut ProcFile, lines: &mut Lines) -> Result<(), Error> {
        let Ok(text) = file.read("/proc/diskstats") else {
            return Ok(());
        };
        if self.whole.len() > MAX_KNOWN {
            self.whole.clear();
        }
        for (name, disk) in text.lines().filter_map(parse) {
            if disk.done == 0 {
                continue;
            }
            let whole = match self.whole.get(name) {
                Some(&whole) => whole,
                None => {
                    let whole = is_whole(name);
                    self.whole.insert(name.into(), whole);
                    whole
                }
            };
            if whole {
                let name = lines.text(name);
                lines.add(&BUSY, 0, &name, disk.busy_ms as f64, Some(1000.0))?;
                lines.add(&WAITED, 0, &name, disk.queue_ms as f64, None)?;
                lines.add(&IN_FLIGHT, 0, &name, disk.in_flight as f64, None)?;
            }
        }
        Ok(())
    }
}

/// Whole disks have a directory of their own; `/` in a name is `!` there.
fn is_whole(name: &str) -> bool {
    let name = name.replace('/', "!");
    name != "." && name != ".." && Path::new("/sys/block").join(name).exists()
}

struct Disk {
    done: u64,
    in_flight: u64,
    busy_ms: u64,
    queue_ms: u64,
}

/// `major minor name`, then reads (4 columns), writes (4), in flight, ms busy, ms of all requests.
fn parse(line: &str) -> Option<(&str, Disk)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.nth(2)?;
    let n: Vec<u64> = words.map_while(|w| w.parse().ok()).take(11).collect();
    let [
        reads,
        _,
        _,
        _,
        writes,
        _,
        _,
        _,
        in_flight,
        busy_ms,
        queue_ms,
    ] = n[..]
    else {
        return None;
    };
    Some((
        name,
        Disk {
            done: reads.saturating_add(writes),
            in_flight,
            busy_ms,
            queue_ms,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_where_the_kernel_puts_them() {
        let line = " 254       0 vda 141215 39440 23669858 92310 78062 142001 91952328 460682 \
                    3 65540 573472 129786 81 42748808 20433 1728 45";
        let (name, d) = parse(line).unwrap();
        assert_eq!(name, "vda");
        assert_eq!((d.done, d.in_flight), (141215 + 78062, 3));
        assert_eq!((d.busy_ms, d.queue_ms), (65540, 573472));
        assert!(parse("1 2 sda 1 2 3").is_none());
        assert!(parse("").is_none());
    }
}
