//! The clock of every table: CLOCK_MONOTONIC as the host's kernel has it.
//!
//! In a time namespace (`unshare -T`, CRIU) a process is told another time. Events come with the
//! kernel's: what is sampled takes the same.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

const NS: i64 = 1_000_000_000;

/// Now, in ns of the host's CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    let now = t.tv_sec * NS + t.tv_nsec;
    now.saturating_sub(offset().unwrap_or(0)).max(0) as u64
}

/// Whether it is known how far the clock that this process is told is from the host's.
pub fn clock_is_known() -> bool {
    offset().is_some()
}

/// What our time namespace adds, ns; `None` when it cannot be read. A process stays in its own.
fn offset() -> Option<i64> {
    static OFFSET: OnceLock<Option<i64>> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        /// The number of the namespace that the kernel starts with.
        const FIRST: u64 = 0xEFFF_FFFA;
        let inode = |name| fs::metadata(format!("/proc/self/ns/{name}")).map(|m| m.ino());
        let Ok(own) = inode("time") else {
            return Some(0); // before Linux 5.6, or without CONFIG_TIME_NS
        };
        if own == FIRST {
            return Some(0);
        }
        // The file tells of the namespace that children are born in.
        let same = inode("time_for_children").is_ok_and(|children| children == own);
        let offsets = fs::read_to_string("/proc/self/timens_offsets").ok()?;
        same.then(|| parse(&offsets))?
    })
}

fn parse(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|l| l.strip_prefix("monotonic"))?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse::<i64>);
    let (s, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    s.checked_mul(NS)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        let text = "monotonic      100000         5\nboottime            0         0\n";
        assert_eq!(parse(text), Some(100_000 * NS + 5));
        let back = "monotonic        -10         250000000\n";
        assert_eq!(parse(back), Some(-10 * NS + 250_000_000));
        for bad in [
            "",
            "boottime 1 1",
            "monotonic 1",
            "monotonic x 1",
            "monotonic 99999999999999 0",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn it_goes_on() {
        let before = monotonic_ns();
        assert!(before > 0 && monotonic_ns() >= before);
    }
}
