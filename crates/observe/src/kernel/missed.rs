//! Runs of a program that did not happen: the kernel passes over one that already runs on the CPU.
//!
//! That is so when an interrupt comes in the middle of it and, since Linux 7, when its task is
//! preempted there. What it would have recorded is lost as surely as with a full ring.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::Object;

/// The words for the `health` table.
pub const MISSED: &str = "the kernel does not run a program that was interrupted on the same CPU";

/// What each program has missed so far.
#[derive(Default)]
pub struct Missed(BTreeMap<String, u64>);

impl Missed {
    /// Runs that the loaded programs have missed since the last call, by name of the program.
    pub fn news(&mut self, object: &Object) -> Vec<(String, u64)> {
        let mut news = Vec::new();
        // One that is not loaded has no descriptor.
        for program in object.progs().filter(|p| p.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            let fd = program.as_fd().as_raw_fd();
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
            let total = recursion_misses(&info);
            let known = self.0.entry(name.clone()).or_default();
            if total > *known {
                news.push((name, total - *known));
                *known = total;
            }
        }
        news
    }
}

/// Zero where the kernel does not count (before Linux 5.12).
fn recursion_misses(fdinfo: &str) -> u64 {
    let mut lines = fdinfo.lines();
    let count = lines.find_map(|l| l.strip_prefix("recursion_misses:"));
    count.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let info = "prog_type:\t26\nrun_cnt:\t6\nrecursion_misses:\t67\nverified_insns:\t1207\n";
        assert_eq!(recursion_misses(info), 67);
        assert_eq!(recursion_misses("prog_type:\t26\n"), 0);
    }
}
