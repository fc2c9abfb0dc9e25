//! Which namespaces this process is in, where that changes what it can tell of the host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use recording::Verdict;

/// The kernel's numbers of the namespaces that it starts with, the same since Linux 3.8.
const FIRST_PID: u64 = 0xEFFF_FFFC;
const FIRST_USER: u64 = 0xEFFF_FFFD;

/// Whether the numbers by which the kernel's programs tell processes are those of /proc, as they are in
/// the host's PID namespace. Elsewhere a process of that number is another one, or none.
pub fn pids_are_ours() -> bool {
    static ARE: OnceLock<bool> = OnceLock::new();
    *ARE.get_or_init(|| inode("pid").is_none_or(|inode| inode == FIRST_PID))
}

/// Whether this process is root only as far as a user namespace of its own reaches.
pub fn is_user_namespace() -> bool {
    inode("user").is_some_and(|inode| inode != FIRST_USER)
}

fn inode(kind: &str) -> Option<u64> {
    let meta = fs::metadata(format!("/proc/self/ns/{kind}"));
    meta.ok().map(|meta| meta.ino())
}

/// What cannot be told from within a PID namespace, and what to do.
pub const OWN_PIDS: &str = "this process is in a PID namespace of its own, where processes of the host \
                            have other numbers or none; run it in the host's (--pid=host, hostPID: true)";

/// Whether what is told of processes can be told from here.
pub fn pids_verdict() -> Verdict {
    if pids_are_ours() {
        Verdict::Attached
    } else {
        Verdict::Unsupported(OWN_PIDS.into())
    }
}

/// What is wrong with the place that we are in, a line each.
pub fn notes() -> Vec<String> {
    let mut notes = Vec::new();
    if !pids_are_ours() {
        notes.push(format!(
            "owners of sockets and requests under way are not told, and only network namespaces of processes here are \
             visited: {OWN_PIDS}"
        ));
    }
    if !recording::clock_is_known() {
        notes.push(
            "times of events and of samples may differ: this process is in a time namespace whose \
             offset cannot be read"
                .into(),
        );
    }
    notes
}
