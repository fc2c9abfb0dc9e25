//! Reads recordings without rights: no capabilities, no new ones, no files and no calls but those that it takes.
//!
//! A recording may be anybody's, and whoever explains one is often root. Should it ever make the code that reads it
//! do what it was not written to do, there is then little to do: files can be read that the verb was told to read and
//! those of the system that everybody may read, and written where the verb writes.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use syscalls::Sysno;

/// What of Landlock is used where the kernel has it.
const KNOWN: ABI = ABI::V6;

/// What programs need that everybody may read: libraries, time zones, terminals, pagers.
const SYSTEM: &[&str] = &[
    "/bin",
    "/lib",
    "/lib64",
    "/usr",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/terminfo",
    "/proc/self",
];
/// Devices that are read and written.
const DEVICES: &[&str] = &["/dev/null", "/dev/pts", "/dev/tty", "/dev/urandom"];

/// Calls that reading never makes, and that would do something to others. They fail with EPERM.
const REFUSED: &[&str] = &[
    "accept",
    "accept4",
    "acct",
    "add_key",
    "adjtimex",
    "bind",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "connect",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "listen",
    "mknod",
    "mknodat",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "sendto",
    "sendmsg",
    "setdomainname",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "sethostname",
    "setns",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "settimeofday",
    "setuid",
    "socket",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
];

/// What a process keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Files: whether the kernel holds it to them.
    pub files: bool,
    /// Calls.
    pub calls: bool,
}

/// From now on this thread, and every thread and program that it starts, reads what is at `reads`, and writes where
/// `writes` say: into a directory, or what has this name.
///
/// What the kernel does not have is left out. Of root's capabilities nothing is kept, but for CAP_DAC_OVERRIDE where
/// some of that is another user's, such as who called sudo: without it root could not read it.
pub fn confine(reads: &[&Path], writes: &[&Path]) -> Confined {
    // Where one of them is refused, nothing is worse than before.
    let _ = set_no_new_privs(true);
    let calls = refuse().is_some();
    let files = restrict(reads, writes).unwrap_or(false);
    let mut named = reads
        .iter()
        .copied()
        .chain(writes.iter().map(|path| place(path)));
    let kept = if named.all(is_ours) {
        CapabilitySet::empty()
    } else {
        CapabilitySet::DAC_OVERRIDE
    };
    if let Ok(has) = capabilities(None) {
        let less = CapabilitySets {
            effective: has.effective & kept,
            permitted: has.permitted & kept,
            inheritable: CapabilitySet::empty(),
        };
        let _ = set_capabilities(None, less);
    }
    Confined { files, calls }
}

/// Whether it and the directories above it are of this user, or may be passed by everybody.
fn is_ours(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        // What is not there is not read.
        return true;
    };
    let us = rustix::process::geteuid().as_raw();
    let owned = |at: &Path| fs::metadata(at).is_ok_and(|at| at.uid() == us);
    let passed =
        |at: &Path| fs::metadata(at).is_ok_and(|at| at.uid() == us || at.mode() & 0o001 != 0);
    owned(&path) && path.ancestors().skip(1).all(passed)
}

/// What this kernel could hold a process to, tried by a thread that then ends.
pub fn tried() -> Confined {
    let thread = std::thread::spawn(|| confine(&[], &[]));
    thread.join().unwrap_or(Confined {
        files: false,
        calls: false,
    })
}

fn refuse() -> Option<()> {
    let calls = REFUSED.iter().filter_map(|name| name.parse::<Sysno>().ok());
    let rules = calls
        .map(|call| (i64::from(call.id()), Vec::new()))
        .collect();
    let refused = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error().unsigned_abs());
    let arch = TargetArch::try_from(env::consts::ARCH).ok()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).ok()?;
    let program = BpfProgram::try_from(filter).ok()?;
    seccompiler::apply_filter(&program).ok()
}

fn restrict(reads: &[&Path], writes: &[&Path]) -> Option<bool> {
    let (read, all) = (AccessFs::from_read(KNOWN), AccessFs::from_all(KNOWN));
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .ok()?
        .handle_access(AccessNet::from_all(KNOWN))
        .ok()?
        .scope(Scope::from_all(KNOWN))
        .ok()?
        .create()
        .ok()?;
    for path in SYSTEM.iter().map(Path::new).chain(reads.iter().copied()) {
        rules = allow(rules, path, read)?;
    }
    for path in DEVICES.iter().map(Path::new) {
        let may = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules = allow(rules, path, may)?;
    }
    for path in writes {
        rules = allow(rules, place(path), all)?;
    }
    // Temporary directories that are ours already go at the end, once they are empty.
    rules = allow(rules, &env::temp_dir(), AccessFs::RemoveDir.into())?;
    let restricted = rules.restrict_self().ok()?;
    Some(restricted.ruleset != RulesetStatus::NotEnforced)
}

/// What is not there is not allowed.
fn allow(rules: RulesetCreated, path: &Path, may: BitFlags<AccessFs>) -> Option<RulesetCreated> {
    let Ok(there) = PathFd::new(path) else {
        return Some(rules);
    };
    // Of a file, what a file knows.
    let may = if path.is_dir() {
        may
    } else {
        may & AccessFs::from_file(KNOWN)
    };
    rules.add_rule(PathBeneath::new(there, may)).ok()
}

/// The directory that is written to: what has a name is made beside it and renamed.
fn place(path: &Path) -> &Path {
    match path.parent() {
        _ if path.is_dir() => path,
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;

    use super::*;

    /// What a confined thread says of these.
    fn confined<T: Send + 'static>(
        reads: &Path,
        writes: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Confined, T) {
        let (reads, writes) = (reads.to_path_buf(), writes.to_path_buf());
        let thread = std::thread::spawn(move || (confine(&[&reads], &[&writes]), work()));
        thread.join().unwrap()
    }

    #[test]
    fn files_and_calls_are_those_that_reading_takes() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for dir in ["read", "write", "other"] {
            fs::create_dir(at(dir)).unwrap();
            fs::write(at(dir).join("file"), "x").unwrap();
        }
        let (read, other, write) = (at("read"), at("other"), at("write"));
        let new = write.join("page.html");
        let (kept, (reading, elsewhere, writing, over, listening)) =
            confined(&read.clone(), &new.clone(), move || {
                (
                    fs::read(read.join("file")).is_ok(),
                    fs::read(other.join("file")).is_ok(),
                    fs::write(write.join(".x"), "y")
                        .and_then(|()| fs::rename(write.join(".x"), new)),
                    File::create(read.join("file")).is_ok(),
                    TcpListener::bind("127.0.0.1:0").is_ok(),
                )
            });
        assert!(reading);
        writing.unwrap();
        assert_eq!(elsewhere, !kept.files);
        assert_eq!(over, !kept.files);
        assert_eq!(listening, !kept.calls);
        assert!(TcpListener::bind("127.0.0.1:0").is_ok(), "one thread alone");
    }

    #[test]
    fn every_call_that_is_refused_is_one() {
        let unknown = REFUSED.iter().filter(|name| name.parse::<Sysno>().is_err());
        assert_eq!(unknown.count(), 0, "on x86-64");
    }
}
