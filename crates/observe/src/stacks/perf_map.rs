//! Names of code that a process makes while it runs, from the map that it keeps: /tmp/perf-PID.map.
//!
//! Lines of `START SIZE NAME`, in hexadecimal, to which the process adds. It is the process's word: what
//! is wrong in it is passed over, and of what is too long the end is kept, which is the newest.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use recording::cut;

/// The functions that a process said it made.
pub struct PerfMap {
    file: File,
    /// How far it was read.
    read: u64,
    /// When what was read was written, ns.
    changed: i128,
    /// By address; of those at one address the last said.
    entries: Vec<Entry>,
    names: String,
    /// A line that was not whole yet.
    rest: Vec<u8>,
    /// Its beginning was not read.
    pub cut: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    start: u64,
    size: u64,
    /// In `names`.
    name: u32,
    len: u16,
}

/// Bytes of a file that are read: maps of large programs have some ten million.
const MAX_BYTES: u64 = 24 << 20;
/// Functions that are kept of one map.
const MAX_ENTRIES: usize = 1 << 18;
/// Bytes of names that are kept of one map.
const MAX_NAMES: usize = 16 << 20;
const MAX_NAME: usize = 512;
/// Bytes read at once.
const CHUNK: usize = 256 << 10;
/// Functions before an address among which the one is looked for that it lies in: code is made anew
/// where other code was.
const MAX_BACK: usize = 16;

impl PerfMap {
    /// Reads one.
    pub fn read(file: File) -> io::Result<PerfMap> {
        let mut map = PerfMap {
            file,
            read: 0,
            changed: 0,
            entries: Vec::new(),
            names: String::new(),
            rest: Vec::new(),
            cut: false,
        };
        map.renew()?;
        Ok(map)
    }

    /// Reads what was added since; whether there was anything.
    pub fn renew(&mut self) -> io::Result<bool> {
        let meta = self.file.metadata()?;
        let changed = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        if (meta.len(), changed) == (self.read, self.changed) {
            return Ok(false);
        }
        // Written anew, not added to; or so much that the end is all we want.
        if meta.len() <= self.read || meta.len() - self.read > MAX_BYTES {
            self.forget();
            self.read = meta.len().saturating_sub(MAX_BYTES);
            self.cut = self.read > 0;
        }
        self.changed = changed;
        let mut skipping = self.cut && self.rest.is_empty() && self.entries.is_empty();
        let mut chunk = vec![0; CHUNK];
        while self.read < meta.len() {
            let most = (meta.len() - self.read).min(CHUNK as u64) as usize;
            let n = match self.file.read_at(&mut chunk[..most], self.read) {
                Ok(0) => break, // cut meanwhile
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            self.read += n as u64;
            for part in chunk[..n].split_inclusive(|b| *b == b'\n') {
                // A line can be as long as the file.
                let room = (MAX_NAME * 2).saturating_sub(self.rest.len());
                self.rest.extend_from_slice(&part[..part.len().min(room)]);
                if part.ends_with(b"\n") {
                    let line = std::mem::take(&mut self.rest);
                    if !std::mem::take(&mut skipping) {
                        self.add(&line);
                    }
                }
            }
        }
        // Stable: of those at one address the last said comes last, and is the one that is kept.
        self.entries.sort_by_key(|e| e.start);
        self.entries.reverse();
        self.entries.dedup_by_key(|e| e.start);
        self.entries.reverse();
        Ok(true)
    }

    fn forget(&mut self) {
        self.entries = Vec::new();
        self.names = String::new();
        self.rest = Vec::new();
    }

    fn add(&mut self, line: &[u8]) {
        if self.entries.len() >= MAX_ENTRIES || self.names.len() >= MAX_NAMES {
            // What was said first is what code was first replaced of.
            self.forget();
            self.cut = true;
        }
        let Some((start, size, name)) = parse(line) else {
            return;
        };
        let name = cut(name, MAX_NAME);
        self.entries.push(Entry {
            start,
            size,
            name: self.names.len() as u32,
            len: name.len() as u16,
        });
        self.names.push_str(name);
    }

    /// The function at an address, and the distance from its start.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.entries.partition_point(|e| e.start <= address);
        let mut before = self.entries[..after].iter().rev().take(MAX_BACK);
        let found = before.find(|e| address - e.start < e.size)?;
        let name = self.names.get(found.name as usize..)?;
        Some((name.get(..found.len.into())?, address - found.start))
    }

    /// What it takes to keep it, bytes.
    pub fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.names.len()
    }
}

/// Start, size and name; a name that is not UTF-8 is none.
fn parse(line: &[u8]) -> Option<(u64, u64, &str)> {
    let line = std::str::from_utf8(line)
        .ok()?
        .trim_end_matches(['\n', '\r']);
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok();
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let name = name.trim();
    (!name.is_empty()).then_some((hex(start)?, hex(size)?, name))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn map(text: &[u8]) -> (PerfMap, File) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        (PerfMap::read(file.try_clone().unwrap()).unwrap(), file)
    }

    #[test]
    fn functions_are_found_and_those_added_later_too() {
        let (mut m, mut file) = map(b"1000 20 LazyCompile:~a x.js:1\n2000 10 b\nnonsense\n30");
        assert_eq!(m.find(0x101f), Some(("LazyCompile:~a x.js:1", 0x1f)));
        assert_eq!(m.find(0x1020), None);
        assert_eq!(m.find(0x2000), Some(("b", 0)));
        assert_eq!(m.find(0), None);
        assert!(!m.renew().unwrap(), "nothing was added");
        file.write_all(b"00 8 late\n0x2000 10 c\n").unwrap();
        assert!(m.renew().unwrap());
        assert_eq!(
            m.find(0x3001),
            Some(("late", 1)),
            "the line was whole later"
        );
        assert_eq!(m.find(0x2004), Some(("c", 4)), "the last said holds");
        file.set_len(0).unwrap();
        file.write_at(b"1000 20 anew\n", 0).unwrap();
        assert!(m.renew().unwrap());
        assert_eq!(m.find(0x1001), Some(("anew", 1)));
        assert_eq!(m.find(0x2004), None);
    }

    #[test]
    fn a_map_of_any_size_takes_bounded_memory() {
        let line = |i: u64| format!("{:x} 10 {}\n", i * 16, "n".repeat(100));
        let mut text = String::new();
        for i in 1..=400_000 {
            text += &line(i);
        }
        let (m, _) = map(text.as_bytes());
        assert!(m.cut && m.bytes() < 32 << 20, "{}", m.bytes());
        assert!(m.find(400_000 * 16).is_some(), "the newest is kept");
        assert!(m.find(16).is_none());

        let (m, _) = map("x".repeat(30 << 20).as_bytes());
        assert_eq!(m.bytes(), 0);
        let (m, _) = map(format!("1 1 {}\n2 1 b\n", "é".repeat(9000)).as_bytes());
        assert!(m.find(1).is_none_or(|(name, _)| name.len() <= MAX_NAME));
        assert_eq!(m.find(2), Some(("b", 0)));
    }

    #[test]
    fn what_is_no_line_is_passed_over() {
        for bad in [
            "",
            "1",
            "1 2",
            "1 2 ",
            "x 1 f",
            "1 y f",
            "-1 1 f",
            "ffffffffffffffff0 1 f",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse(b"1 2 \xff"), None);
        let (m, _) = map(b"ffffffffffffffff ffffffffffffffff f\n");
        assert_eq!(m.find(u64::MAX), Some(("f", 0)));
        assert_eq!(m.find(u64::MAX - 1), None);
    }
}
