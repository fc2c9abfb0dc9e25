//! What processes and threads do: CPU time, waits and what ended them, the CPU profile.

use crate::table::table;
use crate::vocabulary::{FileKind, RetransmitKind, SignalName, TcpState, Waker};
use crate::{Addr, Text};

table! {
    /// One sample of a process that holds a listening socket.
    Process = "process" {
        /// When it was sampled.
        time_ns: u64, Ns;
        /// Process.
        pid: u32, Id;
        /// Its parent.
        ppid: u32, Id;
        /// Command name.
        comm: Text, Program;
        /// Command line, arguments joined by spaces, cut at 512 characters.
        cmdline: Text, CommandLine;
        /// Scheduler state of its main thread: R running, S sleeping, D uninterruptible, T stopped, t traced, Z zombie.
        state: Text, Name;
        /// CPU time in user mode since it started.
        user_ms: u64, Ms;
        /// CPU time in the kernel since it started.
        system_ms: u64, Ms;
        /// Time its main thread waited for a CPU since it started.
        runqueue_ms: Option<u64>, Ms, null "the kernel keeps no schedstat";
        /// File descriptors it may open (RLIMIT_NOFILE, soft).
        fd_limit: Option<u64>, Count, null "unlimited or not readable";
        /// cgroup v2 path; where that is the root, that of the cpu controller of cgroup v1.
        cgroup_path: Text, Cgroup;
    }
}

table! {
    /// A cgroup v2, when first seen: what the ids in other tables are called.
    Cgroup = "cgroup" {
        /// When it was seen.
        time_ns: u64, Ns;
        /// Its id.
        cgroup: u64, Id;
        /// Its path below where the hierarchy is mounted for the recorder; `/` is its root.
        path: Text, Cgroup;
        /// What its container is called, as its runtime's files on this host say (Docker, containerd, CRI-O, podman): `namespace/pod/container` in Kubernetes.
        name: Option<Text>, Cgroup, null "no container, its runtime's files cannot be read, or an earlier version";
    }
}

table! {
    /// A thread was off the CPU for at least the threshold, and what ended that. A wait that had begun before the recording counts from the recording's start; one that has not ended has no row.
    Wait = "wait" {
        /// When it was woken.
        time_ns: u64, Ns;
        /// Process.
        pid: u32, Id;
        /// Thread.
        tid: u32, Id;
        /// Command name of the thread.
        comm: Text, Program;
        /// cgroup v2 id of the thread.
        cgroup: u64, Id;
        /// Network namespace of the thread.
        netns: u32, Id;
        /// The kernel's letter for how it waited: S interruptible, D uninterruptible, T stopped, t traced, I idle, P parked.
        state: Text, Name;
        /// System call in which it waited, as a 64-bit program names it.
        syscall: Option<Text>, Name, null "not in a system call: a page fault, or a kernel thread";
        /// First argument of that call, where it is a file descriptor.
        fd: Option<i32>, Id, null "the call takes no file descriptor";
        /// How long it was off the CPU before it was woken.
        waited_ns: u64, Ns;
        /// How long it then waited for a CPU.
        runqueue_ns: Option<u64>, Ns, null "it had not run again when the recording ended";
        /// What woke it.
        waker: Waker, Name;
        /// Process on the waker's CPU: the waker for `task`, a bystander otherwise (0 when the CPU was idle).
        waker_pid: u32, Id;
        /// Its thread.
        waker_tid: u32, Id;
        /// Its command name.
        waker_comm: Text, Program;
        /// CPU on which the waker ran.
        waker_cpu: u32, Id;
        /// Kernel stack of the waker, as in `stack`.
        waker_stack: Option<u64>, Id, null "the stack could not be read";
        /// Socket that the packet was for whose arrival woke it, as in `event`.
        cause_sock: Option<u64>, Id, null "not woken by the arrival of a TCP packet";
        /// 4 or 6; 0 when not woken by a TCP packet. The connection is told from the receiver's side.
        cause_family: u8, Id;
        /// Receiver's address.
        cause_local_addr: Addr, Address;
        /// Receiver's port.
        cause_local_port: u16, Id;
        /// Sender's address.
        cause_remote_addr: Addr, Address;
        /// Sender's port.
        cause_remote_port: u16, Id;
        /// Which retransmission of its segment the packet was: 1 the first; 0 when it was not a retransmission that this host sent. Where the packet completed a handshake, what counts is the SYN (or SYN-ACK) of that handshake, of either side: the segment that was waited for.
        cause_attempt: Option<u32>, Count, null "not woken by the arrival of a TCP packet";
        /// State of the sender when it retransmitted: SYN_SENT for a SYN, NEW_SYN_RECV for a SYN-ACK.
        cause_sender_state: Option<TcpState>, Name, null "cause_attempt is 0 or null";
        /// Whether the packet was the answer to that retransmission, which the receiver had sent: its own SYN or SYN-ACK.
        cause_answer: Option<bool>, Flag, null "cause_attempt is 0 or null";
        /// From the retransmission to the wakeup.
        cause_sent_ago_ns: Option<u64>, Ns, null "cause_attempt is 0 or null";
        /// What made the kernel retransmit, as in `event`; of a SYN-ACK, `rto` is its own timer.
        cause_retransmit_kind: Option<RetransmitKind>, Name, null "cause_attempt is 0 or null, kernel symbols cannot be read, or an earlier version";
        /// Kernel stack of the thread itself as it slept, as in `stack`.
        slept_stack: Option<u64>, Id, null "the stack could not be read, the kernel does not tell it (source `wait-slept`), or an earlier version";
        /// The name server that it waited for: it polled or read a UDP socket connected to port 53. (One that is not connected, as musl's, does not tell.)
        name_server: Option<Addr>, Address, null "it waited for something else, or for less than 100 ms, or an earlier version";
    }
}

table! {
    /// A signal that stops a process, or lets it go on, as it was sent.
    Signal = "signal" {
        /// When it was sent.
        time_ns: u64, Ns;
        /// The signal.
        signal: SignalName, Name;
        /// Process that it was sent to.
        pid: u32, Id;
        /// Command name of the thread that it was sent to.
        comm: Text, Program;
        /// Process that sent it.
        sender_pid: Option<u32>, Id, null "the kernel sent it, for a terminal";
        /// Command name of the thread that sent it.
        sender_comm: Option<Text>, Program, null "the kernel sent it, for a terminal";
    }
}

table! {
    /// What a thread did with its time since its previous row (or since it was first seen). The parts sum to the interval; user and system are what the kernel's tick says, scaled to the time on CPU. A thread that stayed asleep or stopped for a whole interval has no row for it: its next row covers that time, at the latest after ten intervals, at its end and at the recording's end.
    Thread = "thread" {
        /// End of the interval.
        time_ns: u64, Ns;
        /// Its length.
        interval_ns: u64, Ns;
        /// Process.
        pid: u32, Id;
        /// Thread.
        tid: u32, Id;
        /// Command name.
        comm: Text, Program;
        /// cgroup v2 id.
        cgroup: u64, Id;
        /// On a CPU in user mode.
        user_ns: u64, Ns;
        /// On a CPU in the kernel.
        system_ns: u64, Ns;
        /// Runnable, waiting for a CPU (LAT).
        runqueue_ns: u64, Ns;
        /// Asleep in a system call other than futex (SLP).
        sleep_ns: u64, Ns;
        /// Asleep in futex (LCK).
        lock_ns: u64, Ns;
        /// Uninterruptible: mostly disk, also vfork and the kernel's own locks (DSK).
        disk_ns: u64, Ns;
        /// Blocked outside of a system call: in a page fault (FLT).
        fault_ns: u64, Ns;
        /// Stopped or traced (STP).
        stopped_ns: u64, Ns;
        /// Voluntary context switches.
        voluntary: u64, Count;
        /// Involuntary context switches.
        involuntary: u64, Count;
        /// System calls made.
        syscalls: Option<u64>, Count, null "not counted: that costs every system call of the host";
    }
}

table! {
    /// In which system calls a thread slept during an interval of `thread`, locks and disk included.
    ThreadSleep = "thread_sleep" {
        /// End of the interval, as in `thread`.
        time_ns: u64, Ns;
        /// Process.
        pid: u32, Id;
        /// Thread.
        tid: u32, Id;
        /// System call; `other` for those beyond the first seven of a thread.
        syscall: Text, Name;
        /// Time asleep in it.
        sleep_ns: u64, Ns;
        /// How often it slept in it.
        count: u64, Count;
        /// Descriptor of the epoll set that it slept on, as in `epoll`; each has a row of its own.
        epoll_fd: Option<i32>, Id, null "the call is none of epoll, or an earlier version";
    }
}

table! {
    /// A descriptor that is behind one of epoll on which a thread slept. Rows of one reading carry the same time; a set is read when a thread has slept on it, at most every five seconds.
    Epoll = "epoll" {
        /// When the set was read.
        time_ns: u64, Ns;
        /// Process.
        pid: u32, Id;
        /// Descriptor of the set, as in `thread_sleep` and `wait`.
        epoll_fd: u32, Id;
        /// A descriptor in it: its number when it was put there.
        fd: u32, Id;
        /// What it is.
        kind: FileKind, Name;
        /// Inode of a socket, as in `socket` and `listener`, or of a pipe.
        inode: Option<u64>, Id, null "neither a socket nor a pipe";
        /// Events that are waited for: the kernel's bits, EPOLLIN is 1; 0 once EPOLLONESHOT has fired.
        events: u32, Id;
        /// Descriptors that the set held; those beyond the first 1,024 have no row.
        total: u32, Count;
    }
}

table! {
    /// One sample of the CPU profile.
    Sample = "sample" {
        /// When it was taken.
        time_ns: u64, Ns;
        /// CPU.
        cpu: u32, Id;
        /// Process that was on it; 0 when the CPU was idle, or in a softirq on the time of a process of a network namespace that is not recorded.
        pid: u32, Id;
        /// Its thread.
        tid: u32, Id;
        /// Its command name; `softirq` of such a process.
        comm: Text, Program;
        /// The CPU was in a softirq, whoever was interrupted by it.
        softirq: bool, Flag;
        /// Kernel stack, as in `stack`.
        kernel_stack: Option<u64>, Id, null "the CPU was in user mode or idle";
        /// User stack, as in `stack`.
        user_stack: Option<u64>, Id, null "a kernel thread, idle, or user stacks were not asked for";
    }
}

table! {
    /// One frame of a stack that `sample` and `wait` refer to; every stack once. Stacks taken inside a tracepoint begin with the function that the tracepoint stands in.
    Stack = "stack" {
        /// When the stack was first seen.
        time_ns: u64, Ns;
        /// The stack.
        stack: u64, Id;
        /// Depth: 0 is the innermost function.
        depth: u32, Count;
        /// The frame, as in `frame`.
        frame: u64, Id;
    }
}

table! {
    /// A place in code that a stack passes through; every one once.
    Frame = "frame" {
        /// When it was first seen.
        time_ns: u64, Ns;
        /// The frame.
        frame: u64, Id;
        /// Function; in hexadecimal, where its symbol is not known, the offset in the file, or the address where there is no file.
        function: Text, Name;
        /// `kernel`, a kernel module, or the file that was executed; empty when the process had gone before it was looked at.
        module: Text, File;
        /// Distance from the function's start; 0 when that is not known.
        offset: u64, Bytes;
    }
}
