//! Why recording a live host failed, in one line that says what to do.

use std::cell::RefCell;

use libbpf_rs::PrintLevel;

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not enough rights.
    #[error("recording a live host needs root or some of its rights: {0}")]
    Rights(String),
    /// More files would have to be open than may be.
    #[error(
        "{what}: too many open files: this process may have {may} open, and recording {namespaces} \
             network namespaces takes some {needs}; raise the limit first: ulimit -n {needs}"
    )]
    Files {
        /// What was tried.
        what: String,
        /// How many may be open.
        may: u64,
        /// Network namespaces that there are.
        namespaces: u64,
        /// How many will be open.
        needs: u64,
    },
    /// The kernel cannot do it.
    #[error("this kernel cannot be recorded: {0}; `tcpwhy doctor` says what it allows")]
    Kernel(String),
    /// A BPF call failed.
    #[error("{what} failed: {why}; `tcpwhy doctor` says what this kernel allows")]
    Bpf {
        /// What was tried.
        what: String,
        /// The reason, from libbpf or the kernel.
        why: String,
    },
    /// A file or namespace could not be read.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        why: std::io::Error,
    },
    /// A wrong option.
    #[error("{0}")]
    Usage(String),
    /// Somebody wanted it to end before it had begun.
    #[error("ended while attaching to the kernel: nothing was recorded")]
    Stopped,
    /// The recording could not be written.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// A part of the recorder ended unexpectedly.
    #[error("the recorder's {0} thread ended unexpectedly; this is a bug in tcpwhy")]
    Thread(&'static str),
}

impl Error {
    /// The reason alone, for doctor and for verdicts: without the advice to ask doctor.
    pub fn reason(&self) -> String {
        match self {
            Error::Kernel(why) => why.clone(),
            Error::Bpf { what, why } => format!("{what} failed: {why}"),
            other => other.to_string(),
        }
    }
}

thread_local! {
    /// Warnings of libbpf to this thread since the last [`bpf_error`]; they say more than its error numbers. Parts attach at
    /// the same time.
    static WARNINGS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A verifier's log can be megabytes; its verdict is at the end.
const MAX_WARNINGS: usize = 256 << 10;

/// Keeps libbpf's messages off the terminal, and its warnings for [`bpf_error`].
pub fn quiet_libbpf() {
    fn keep(_: PrintLevel, message: String) {
        WARNINGS.with_borrow_mut(|warnings| {
            if warnings.len() + message.len() > MAX_WARNINGS {
                warnings.clear();
            }
            warnings.push_str(&message);
        });
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
}

/// An error of libbpf in one line, with the verifier's verdict where there is one.
pub fn bpf_error(e: &libbpf_rs::Error) -> String {
    let warnings = WARNINGS.take();
    match telling_line(&warnings) {
        Some(line) if refuses_reading(line) && locked_down() => format!(
            "the kernel is locked down in confidentiality mode ({LOCKDOWN}): no program may read \
             its memory"
        ),
        Some(line) => format!("{e} ({line})"),
        None => e.to_string(),
    }
}

/// Every kernel that runs BPF knows the helper; in this mode it is offered to none.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// What the verifier says, in old words and new, where the helper is not offered.
fn refuses_reading(line: &str) -> bool {
    line.contains("bpf_probe_read")
        && (line.starts_with("unknown func") || line.contains("cannot use helper"))
}

/// Whether it is so, as far as it can be read.
fn locked_down() -> bool {
    let mode = std::fs::read_to_string(LOCKDOWN);
    mode.map_or(true, |mode| mode.contains("[confidentiality]"))
}

/// The verifier's last word stands before its statistics; without it, libbpf's first warning is
/// nearest to the trouble.
fn telling_line(warnings: &str) -> Option<&str> {
    let lines = || warnings.lines().map(str::trim).filter(|l| !l.is_empty());
    let ends_log = |l: &&str| l.starts_with("processed ") && l.contains(" insns");
    let log = lines().position(|l| ends_log(&l));
    let verdict = log.and_then(|end| lines().take(end).last());
    // Who refuses before the verifier looks leaves its log empty.
    let verdict = verdict.filter(|l| !l.ends_with("BEGIN PROG LOAD LOG --"));
    let first = || lines().next().map(|l| l.trim_start_matches("libbpf: "));
    verdict.or_else(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_verdict_is_preferred() {
        let log = "libbpf: prog 'x': BPF program load failed: EACCES\n0: R1=ctx()\n\
                   R3 bitwise operator ^= on pointer prohibited\n\
                   processed 167 insns (limit 1000000)\n-- END --\nlibbpf: failed to load\n";
        assert_eq!(
            telling_line(log),
            Some("R3 bitwise operator ^= on pointer prohibited")
        );
        let plain = "libbpf: map 'ring': failed to create: EPERM\nlibbpf: failed to load\n";
        assert_eq!(
            telling_line(plain),
            Some("map 'ring': failed to create: EPERM")
        );
        let refused = "libbpf: prog 'walk': BPF program load failed: -EPERM\n\
                       libbpf: prog 'walk': -- BEGIN PROG LOAD LOG --\n\
                       processed 0 insns (limit 1000000)\n-- END --\n";
        let first = "prog 'walk': BPF program load failed: -EPERM";
        assert_eq!(telling_line(refused), Some(first));
        assert_eq!(telling_line(""), None);
    }

    #[test]
    fn lockdown_is_known_by_the_helper_that_is_missing() {
        for line in [
            "unknown func bpf_probe_read#4",
            "program of this type cannot use helper bpf_probe_read#4",
        ] {
            assert!(refuses_reading(line), "{line}");
        }
        assert!(!refuses_reading("invalid func unknown#162"));
    }
}
