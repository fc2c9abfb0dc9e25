//! Files of /proc and /sys, read anew each round into a buffer that is kept.
//!
//! Parsed in place: what these sources need of a file are a few numbers per line, and a library
//! that makes a struct with its own strings of each line costs more than the reading.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// More than any of the files read here has on the largest host.
const MAX_BYTES: usize = 16 << 20;

/// Reads files, one at a time.
#[derive(Default)]
pub struct ProcFile {
    bytes: Vec<u8>,
    filled: usize,
}

impl ProcFile {
    /// The file's text; bytes that are not UTF-8 are replaced.
    pub fn read(&mut self, path: impl AsRef<Path>) -> io::Result<Cow<'_, str>> {
        // Whatever is there, opening it does not wait.
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK.bits() as i32;
        let mut file = options.read(true).custom_flags(flags).open(path)?;
        self.filled = 0;
        loop {
            if self.filled == self.bytes.len() {
                if self.filled >= MAX_BYTES {
                    return Err(io::Error::other("the file is larger than it can be"));
                }
                self.bytes.resize((self.filled * 2).max(16 << 10), 0);
            }
            match file.read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Ok(String::from_utf8_lossy(&self.bytes[..self.filled])),
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The file's first number.
    pub fn number(&mut self, path: impl AsRef<Path>) -> Option<u64> {
        let text = self.read(path).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    }
}

/// The numbers of a line, up to the first word that is none.
pub fn numbers(line: &str) -> impl Iterator<Item = u64> + '_ {
    line.split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
}

/// The number behind `name` in a text of lines `name number`, whatever is between them.
pub fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix([':', ' ', '\t', '='])?;
        rest.split_ascii_whitespace().next()?.parse().ok()
    })
}

/// The CPU numbers that head a table of /proc: `CPU0 CPU2 …`.
pub fn cpu_columns(header: &str) -> Vec<u32> {
    let words = header.split_ascii_whitespace();
    words
        .map_while(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_read_whole_and_the_next_is_not_mixed_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let (long, short) = (dir.path().join("long"), dir.path().join("short"));
        std::fs::write(&long, "x".repeat(100_000)).unwrap();
        std::fs::write(&short, b"7 \xff\n").unwrap();
        let mut file = ProcFile::default();
        assert_eq!(file.read(&long).unwrap().len(), 100_000);
        assert_eq!(file.read(&short).unwrap(), "7 \u{fffd}\n");
        assert_eq!(file.number(&short), Some(7));
        assert_eq!(file.number(dir.path().join("none")), None);
    }

    #[test]
    fn lines_are_taken_apart() {
        assert_eq!(numbers(" 1 2 x 3").collect::<Vec<_>>(), [1, 2]);
        let text = "MemTotal:  16 kB\nMemTotalX: 5\npgmajfault 9\n";
        assert_eq!(value(text, "MemTotal"), Some(16));
        assert_eq!(value(text, "pgmajfault"), Some(9));
        assert_eq!(value(text, "Mem"), None);
        assert_eq!(cpu_columns("      CPU0   CPU2 \n"), [0, 2]);
    }
}
