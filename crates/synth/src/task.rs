//! A process with one thread, and the rows that tell of it.

use recording::CallKind;
use recording::tables::{Call, Holder, Process, Sample, Thread, ThreadSleep, Wait};

/// A process whose only thread has its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// Id of the process and of its thread.
    pub pid: u32,
    /// Command name.
    pub comm: &'a str,
}

impl<'a> Task<'a> {
    /// The task of an id and a name.
    pub const fn new(pid: u32, comm: &'a str) -> Task<'a> {
        Task { pid, comm }
    }

    /// The process in /proc.
    pub fn process(&self, time_ns: u64, ppid: u32, state: &str) -> Process {
        Process {
            time_ns,
            pid: self.pid,
            ppid,
            comm: self.comm.into(),
            state: state.into(),
            ..Process::default()
        }
    }

    /// It holds a socket, by its inode.
    pub fn holds(&self, time_ns: u64, inode: u64, fd: u32) -> Holder {
        Holder {
            time_ns,
            inode,
            pid: self.pid,
            comm: self.comm.into(),
            fd,
        }
    }

    /// Its microstates over an interval that ends now: none so far.
    pub fn thread(&self, time_ns: u64, interval_ns: u64) -> Thread {
        Thread {
            time_ns,
            interval_ns,
            pid: self.pid,
            tid: self.pid,
            comm: self.comm.into(),
            ..Thread::default()
        }
    }

    /// What it slept in, for as long as its microstates say; each sleep was voluntary.
    pub fn slept(&self, thread: &Thread, syscall: &str) -> Option<ThreadSleep> {
        (thread.sleep_ns > 0).then(|| ThreadSleep {
            time_ns: thread.time_ns,
            pid: self.pid,
            tid: self.pid,
            syscall: syscall.into(),
            sleep_ns: thread.sleep_ns,
            count: thread.voluntary,
            epoll_fd: None,
        })
    }

    /// A wait of it ends now; nothing else wanted its CPU.
    pub fn wait(&self, time_ns: u64, netns: u32, waited_ns: u64) -> Wait {
        Wait {
            time_ns,
            pid: self.pid,
            tid: self.pid,
            comm: self.comm.into(),
            netns,
            waited_ns,
            runqueue_ns: Some(0),
            ..Wait::default()
        }
    }

    /// A system call returns now.
    pub fn call(&self, time_ns: u64, netns: u32, call: CallKind, duration_ns: u64) -> Call {
        Call {
            time_ns,
            pid: self.pid,
            tid: self.pid,
            comm: self.comm.into(),
            netns,
            call,
            duration_ns,
            ..Call::default()
        }
    }

    /// The profiler finds it on a CPU: in this kernel stack, or in user mode.
    pub fn on_cpu(&self, time_ns: u64, cpu: u32, kernel_stack: Option<u64>) -> Sample {
        Sample {
            time_ns,
            cpu,
            pid: self.pid,
            tid: self.pid,
            comm: self.comm.into(),
            softirq: false,
            kernel_stack,
            user_stack: None,
        }
    }
}
