//! How long this process's programs run in the kernel: watched for a moment, as watching costs as well.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Instant;

use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};

/// A moment in which the kernel takes the time of programs, of all on the host: it ends with this.
pub struct Moment {
    began: Instant,
    programs: Vec<Program>,
    _counting: OwnedFd,
}

/// A program of ours, by its descriptor and its id, and how long it has run so far.
#[derive(Debug, PartialEq)]
struct Program {
    fd: String,
    id: u64,
    ran_ns: u64,
}

impl Moment {
    /// Has the kernel take the time; the error says why it does not.
    pub fn begin() -> io::Result<Moment> {
        // SAFETY: the call takes a number, and gives a descriptor or a negative error.
        let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the call just gave it to us.
        let counting = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Moment {
            programs: programs(),
            began: Instant::now(),
            _counting: counting,
        })
    }

    /// The share of one CPU that the programs took since it began.
    pub fn end(self) -> f64 {
        let over_ns = self.began.elapsed().as_nanos().max(1) as f64;
        let ran = self.programs.iter().map(|before| {
            // One that ended meanwhile may have left its descriptor to another.
            let now = Program::read(&before.fd).filter(|now| now.id == before.id);
            now.map_or(0, |now| now.ran_ns.saturating_sub(before.ran_ns))
        });
        ran.sum::<u64>() as f64 / over_ns
    }
}

/// Those that this process has loaded. Iterators are left out: they run in the thread that reads them, whose
/// time has theirs.
fn programs() -> Vec<Program> {
    let (mut all, mut iterators) = (Vec::new(), BTreeSet::new());
    for entry in fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
    {
        let fd = entry.file_name().to_string_lossy().into_owned();
        let is = fs::read_link(entry.path()).unwrap_or_default();
        match is.to_string_lossy().as_ref() {
            "anon_inode:bpf-prog" => all.extend(Program::read(&fd)),
            "anon_inode:bpf_link" => iterators.extend(iterated(&fdinfo(&fd))),
            _ => {}
        }
    }
    all.retain(|program| !iterators.contains(&program.id));
    all
}

impl Program {
    fn read(fd: &str) -> Option<Program> {
        let info = fdinfo(fd);
        Some(Program {
            fd: fd.into(),
            id: number(&info, "prog_id:")?,
            ran_ns: number(&info, "run_time_ns:")?,
        })
    }
}

/// The program of a link, if that is an iterator's.
fn iterated(link: &str) -> Option<u64> {
    let is_iterator = link.lines().any(|l| l == "link_type:\titer");
    number(link, "prog_id:").filter(|_| is_iterator)
}

fn fdinfo(fd: &str) -> String {
    fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default()
}

fn number(fdinfo: &str, key: &str) -> Option<u64> {
    let line = fdinfo.lines().find_map(|l| l.strip_prefix(key))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let program = "prog_type:\t26\nprog_id:\t57667\nrun_time_ns:\t1234\nrun_cnt:\t6\n";
        assert_eq!(number(program, "prog_id:"), Some(57667));
        assert_eq!(number(program, "run_time_ns:"), Some(1234));
        assert_eq!(number("pos:\t0\n", "run_time_ns:"), None);
        let iterator = "link_type:\titer\nlink_id:\t3\nprog_id:\t7\ntarget_name:\ttcp\n";
        assert_eq!(iterated(iterator), Some(7));
        let other =
            "link_type:\traw_tracepoint\nlink_id:\t3\nprog_id:\t7\ntp_name:\tsched_switch\n";
        assert_eq!(iterated(other), None);
    }
}
