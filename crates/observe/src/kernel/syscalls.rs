//! System calls by number: their names, which of them wait for a lock, which take a file descriptor.

use recording::Text;
use syscalls::Sysno;

/// Names of system calls, made once each.
#[derive(Default)]
pub struct Syscalls {
    names: Vec<Option<Text>>,
}

/// Beyond this there are no system calls, whatever a register holds.
const MAX_NUMBER: usize = 1024;

/// Calls whose first argument is a file descriptor and that wait: those that `wait` rows show.
const TAKE_FD: &[&str] = &[
    "accept",
    "accept4",
    "close",
    "connect",
    "copy_file_range",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fallocate",
    "fdatasync",
    "flock",
    "fsync",
    "ftruncate",
    "getdents",
    "getdents64",
    "io_uring_enter",
    "ioctl",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "shutdown",
    "splice",
    "sync_file_range",
    "syncfs",
    "tee",
    "vmsplice",
    "write",
    "writev",
];

/// Calls that wait for a lock or condition variable of user space.
const LOCK_CALLS: &[Sysno] = &[Sysno::futex, Sysno::futex_waitv, Sysno::futex_wait];

/// Their numbers.
pub fn lock_calls() -> impl Iterator<Item = i32> {
    LOCK_CALLS.iter().map(|c| c.id())
}

/// Calls that wait for any of a set of descriptors, which the kernel keeps behind one.
const EPOLL_CALLS: &[Sysno] = &[
    #[cfg(target_arch = "x86_64")]
    Sysno::epoll_wait,
    Sysno::epoll_pwait,
    Sysno::epoll_pwait2,
];

/// Their numbers.
pub fn epoll_calls() -> impl Iterator<Item = i32> {
    EPOLL_CALLS.iter().map(|c| c.id())
}

/// Calls that wait for some of a list of descriptors, which they keep on the kernel's stack.
const POLL_CALLS: &[Sysno] = &[
    #[cfg(target_arch = "x86_64")]
    Sysno::poll,
    Sysno::ppoll,
    #[cfg(target_arch = "x86_64")]
    Sysno::select,
    Sysno::pselect6,
];

/// Their numbers.
pub fn poll_calls() -> impl Iterator<Item = i32> {
    POLL_CALLS.iter().map(|c| c.id())
}

/// Calls that receive from the descriptor that is their first argument.
const READ_CALLS: &[Sysno] = &[
    Sysno::recvfrom,
    Sysno::recvmsg,
    Sysno::recvmmsg,
    Sysno::read,
];

/// Their numbers.
pub fn read_calls() -> impl Iterator<Item = i32> {
    READ_CALLS.iter().map(|c| c.id())
}

impl Syscalls {
    /// The call's name; its number when it is newer than we are.
    pub fn name(&mut self, number: u32) -> Text {
        let index = number as usize;
        if index >= MAX_NUMBER {
            return number.to_string().into();
        }
        if self.names.len() <= index {
            self.names.resize(index + 1, None);
        }
        let name = self.names[index].get_or_insert_with(|| match Sysno::new(index) {
            Some(call) => call.name().into(),
            None => number.to_string().into(),
        });
        name.clone()
    }
}

/// Whether the call's first argument is a file descriptor.
pub fn takes_fd(name: &str) -> bool {
    TAKE_FD.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        let mut calls = Syscalls::default();
        assert_eq!(calls.name(Sysno::epoll_wait as u32), "epoll_wait");
        assert_eq!(calls.name(1023), "1023");
        assert_eq!(calls.name(u32::MAX), "4294967295");
    }

    #[test]
    fn calls_with_descriptors_are_sorted_and_real() {
        assert!(TAKE_FD.is_sorted());
        assert!(takes_fd("accept4") && !takes_fd("futex"));
        for call in TAKE_FD {
            assert!(call.parse::<Sysno>().is_ok(), "{call}");
        }
    }
}
