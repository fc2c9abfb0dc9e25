//! Source `interrupts`: lines of /proc/interrupts and kinds of softirqs, per CPU.

use std::collections::HashMap;

use recording::tables::Interrupt;
use recording::{TableWriter, Text, monotonic_ns};

use super::devices::Devices;
use crate::error::Error;
use crate::procfile::{ProcFile, cpu_columns};

/// Reads both files and remembers what they said last.
pub struct Interrupts {
    rows: TableWriter<Interrupt>,
    file: ProcFile,
    known: HashMap<(&'static str, String), Known>,
    devices: Devices,
}

/// A line that was seen before.
struct Known {
    line: Text,
    device: Text,
    /// The rest of the line after the counts: a number may come to mean another device.
    described: String,
    /// By CPU.
    counts: HashMap<u32, u64>,
}

/// Vectors of a host are thousands; past this, memory matters more.
const MAX_KNOWN: usize = 1 << 16;

impl Interrupts {
    /// Rows into `rows`.
    pub fn new(rows: TableWriter<Interrupt>) -> Interrupts {
        Interrupts {
            rows,
            file: ProcFile::default(),
            known: HashMap::new(),
            devices: Devices::default(),
        }
    }

    /// Writes what changed, at first what is not zero. Files that cannot be read are passed over;
    /// whether they can be is the source's verdict.
    pub fn sample(&mut self) -> Result<(), Error> {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        for (kind, path) in [("irq", "/proc/interrupts"), ("softirq", "/proc/softirqs")] {
            let time_ns = monotonic_ns();
            if let Ok(text) = self.file.read(path) {
                let rows = &mut self.rows;
                let (known, devices) = (&mut self.known, &mut self.devices);
                changes(known, devices, kind, time_ns, &text, |row| rows.push(row))?;
            }
        }
        Ok(())
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

fn changes<E>(
    known: &mut HashMap<(&'static str, String), Known>,
    devices: &mut Devices,
    kind: &'static str,
    time_ns: u64,
    text: &str,
    mut push: impl FnMut(Interrupt) -> Result<(), E>,
) -> Result<(), E> {
    let mut lines = text.lines();
    let cpus = cpu_columns(lines.next().unwrap_or_default());
    let mut key = (kind, String::new());
    for (name, counts, described) in lines.filter_map(|line| split(line, cpus.len())) {
        key.1.clear();
        key.1.push_str(name);
        let same = known.get(&key).is_some_and(|k| k.described == described);
        if !same {
            let device = if kind == "irq" {
                devices.of(name, described)
            } else {
                String::new()
            };
            let fresh = Known {
                line: name.into(),
                device: device.into(),
                described: described.into(),
                counts: HashMap::new(),
            };
            known.insert(key.clone(), fresh);
        }
        let Some(k) = known.get_mut(&key) else {
            continue;
        };
        for (&cpu, count) in cpus.iter().zip(counts.split_ascii_whitespace()) {
            let Ok(count) = count.parse::<u64>() else {
                break;
            };
            let before = k.counts.insert(cpu, count).unwrap_or(0);
            if before != count {
                push(Interrupt {
                    time_ns,
                    cpu,
                    kind: kind.into(),
                    line: k.line.clone(),
                    device: k.device.clone(),
                    count,
                })?;
            }
        }
    }
    Ok(())
}

/// Name, counts and description of a line such as ` 36:  0  300285 PCI-MSIX-0000:00:02.0 1-edge
/// virtio1-req.0`. A line with fewer counts than CPUs (`ERR: 0`) counts for the host, not for a
/// CPU, and is passed over.
fn split(line: &str, cpus: usize) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once(':')?;
    let mut end = 0;
    for _ in 0..cpus {
        let word = rest[end..].len() - rest[end..].trim_start().len();
        let start = end + word;
        let len = rest[start..]
            .find(char::is_whitespace)
            .unwrap_or(rest.len() - start);
        let is_number = len > 0 && rest[start..start + len].bytes().all(|b| b.is_ascii_digit());
        if !is_number {
            return None;
        }
        end = start + len;
    }
    Some((name.trim(), &rest[..end], rest[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU2       \n\
        \u{20}36:          0     300285 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
        LOC:   10974267          0   Local timer interrupts\n\
        ERR:          0\n";

    fn rows(known: &mut HashMap<(&'static str, String), Known>, text: &str) -> Vec<String> {
        let mut rows = Vec::new();
        let mut devices = Devices::default();
        let push = |r: Interrupt| -> Result<(), ()> {
            rows.push(format!("{} {} {} {}", r.line, r.cpu, r.count, r.device));
            Ok(())
        };
        changes(known, &mut devices, "irq", 0, text, push).unwrap();
        rows
    }

    #[test]
    fn all_that_is_not_zero_at_first_then_what_changed() {
        let mut known = HashMap::new();
        let first = rows(&mut known, TEXT);
        let expected = [
            "36 2 300285 virtio1-req.0",
            "LOC 0 10974267 Local timer interrupts",
        ];
        assert_eq!(first, expected);
        assert!(rows(&mut known, TEXT).is_empty());
        let later = rows(&mut known, &TEXT.replace("300285", "300286"));
        assert_eq!(later, ["36 2 300286 virtio1-req.0"]);
        // The same number for another device counts anew.
        let moved = rows(&mut known, &TEXT.replace("virtio1-req.0", "eth0-rx-0"));
        assert_eq!(moved, ["36 2 300285 eth0-rx-0"]);
    }

    #[test]
    fn softirqs_and_damage() {
        let mut known = HashMap::new();
        let mut rows = Vec::new();
        let text = "   CPU0  CPU1\n NET_RX:  5  0\n bad\n X: 1\n Y: 1 z\n :\n Ü: 1 é\n";
        let push = |r: Interrupt| -> Result<(), ()> {
            rows.push((r.line.to_string(), r.cpu, r.count, r.device.to_string()));
            Ok(())
        };
        changes(
            &mut known,
            &mut Devices::default(),
            "softirq",
            0,
            text,
            push,
        )
        .unwrap();
        assert_eq!(rows, [("NET_RX".into(), 0, 5, String::new())]);
    }
}
