//! From the kernel's records of a wait and its end to a row of the table `wait`.

use std::collections::HashMap;
use std::mem::offset_of;

use recording::tables::Wait;
use recording::{Addr, TableWriter, Text, Waker};

use crate::error::Error;
use crate::kernel::{Names, Syscalls, epoll_calls, retransmit_kind, takes_fd};
use crate::stacks::{By, KernelStack, Stacks};
use crate::wire::{read, read_partly, text, tw_on, tw_wait, tw_wait_bits};

/// Rows of the table, and those whose thread has not run yet.
pub struct Waits {
    table: TableWriter<Wait>,
    stacks: Stacks,
    names: Names,
    syscalls: Syscalls,
    /// By thread: a thread waits once at a time.
    pending: HashMap<u32, Wait>,
    states: HashMap<u32, Text>,
    /// When the recording began, ns.
    from_ns: u64,
}

/// Rows held in memory: each has thirty columns, and names that any user chooses.
const MAX_HELD: usize = 16_384;
/// A thread that was woken runs within milliseconds, or the host has as many runnable threads.
const MAX_PENDING: usize = 1 << 15;

impl Waits {
    /// Rows for `table`.
    pub fn new(table: TableWriter<Wait>, stacks: Stacks, names: Names) -> Waits {
        Waits {
            table: table.holding(MAX_HELD),
            stacks,
            names,
            syscalls: Syscalls::default(),
            pending: HashMap::new(),
            states: HashMap::new(),
            from_ns: 0,
        }
    }

    /// The recording begins at this moment, ns; what a thread has waited before it does not count.
    pub fn from(&mut self, from_ns: u64) {
        self.from_ns = from_ns;
    }

    /// A thread was woken. Gives its process and the descriptor of epoll that it slept on, if it did.
    pub fn woken(&mut self, record: &[u8]) -> Result<Option<(u32, i32)>, Error> {
        let Some(w) = read_partly::<tw_wait>(record, offset_of!(tw_wait, frames)) else {
            return Ok(None);
        };
        let row = self.row(&w)?;
        let epoll = epoll_calls().any(|call| call == w.syscall);
        if self.pending.len() >= MAX_PENDING {
            self.flush()?;
        }
        // The end of its previous wait did not come: its record was lost.
        if let Some(before) = self.pending.insert(w.tid, row) {
            self.table.push(before)?;
        }
        Ok(epoll.then_some((w.pid, w.arg)))
    }

    /// A thread that was woken runs.
    pub fn runs(&mut self, record: &[u8]) -> Result<(), Error> {
        let Some(on) = read::<tw_on>(record) else {
            return Ok(());
        };
        let Some(mut row) = self.pending.remove(&on.tid) else {
            return Ok(());
        };
        if row.time_ns == on.woken_ns {
            row.runqueue_ns = Some(on.runqueue_ns);
        }
        Ok(self.table.push(row)?)
    }

    /// Writes what is due.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        // Rows refer to stacks: these come first.
        self.stacks.hand_over()?;
        Ok(self.table.seal_if_due()?)
    }

    /// Writes everything, also of threads that have not run again.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.stacks.seal()?;
        Ok(self.table.seal()?)
    }

    fn flush(&mut self) -> Result<(), Error> {
        for (_, row) in self.pending.drain() {
            self.table.push(row)?;
        }
        Ok(())
    }

    fn row(&mut self, w: &tw_wait) -> Result<Wait, Error> {
        let (waker, rest) = first_of(&w.frames, w.n_frames);
        let (slept, _) = first_of(rest, w.n_slept);
        let (stack, slept) = (self.stack(waker)?, self.stack(slept)?);
        let context = stack.map(|s| s.context).unwrap_or_default();
        let syscall = u32::try_from(w.syscall)
            .ok()
            .map(|number| self.syscalls.name(number));
        let fd = syscall.as_deref().filter(|name| takes_fd(name));
        let mut row = Wait {
            time_ns: w.time_ns,
            pid: w.pid,
            tid: w.tid,
            comm: text(&w.comm).into(),
            cgroup: w.cgroup,
            netns: w.netns,
            state: self.state(w.blocked),
            fd: fd.map(|_| w.arg),
            syscall,
            waited_ns: w.waited_ns.min(w.time_ns.saturating_sub(self.from_ns)),
            waker: match context.by {
                By::Unknown => Waker::NotSeen,
                By::Task => Waker::Task,
                By::Softirq => Waker::Softirq,
                By::Irq => Waker::Irq,
                By::Timer => Waker::Timer,
            },
            waker_pid: w.waker_pid,
            waker_tid: w.waker_tid,
            waker_comm: text(&w.waker_comm).into(),
            waker_cpu: w.waker_cpu,
            waker_stack: stack.and_then(|s| s.id),
            slept_stack: slept.and_then(|s| s.id),
            ..Wait::default()
        };
        // The CPU's last packet is the cause only where the waker was handling one. Without
        // symbols the lock of its socket must do, which the program has looked at.
        if bit(w, tw_wait_bits::TW_WAIT_CAUSE) && (context.tcp_packet || context.by == By::Unknown)
        {
            self.cause(w, &mut row);
        }
        // Whose datagram the CPU had last counts only where the waker was handling one.
        let is_told = !bit(w, tw_wait_bits::TW_WAIT_NAMES) || context.udp_packet;
        row.name_server = (w.server_family != 0 && is_told).then_some(Addr(w.server_addr));
        Ok(row)
    }

    fn stack(&self, frames: &[u64]) -> Result<Option<KernelStack>, Error> {
        match frames {
            [] => Ok(None),
            frames => Ok(Some(self.stacks.kernel(frames)?)),
        }
    }

    fn cause(&self, w: &tw_wait, row: &mut Wait) {
        row.cause_sock = Some(w.sock);
        row.cause_family = w.family;
        row.cause_local_addr = Addr(w.local_addr);
        row.cause_local_port = w.local_port;
        row.cause_remote_addr = Addr(w.remote_addr);
        row.cause_remote_port = w.remote_port;
        row.cause_attempt = Some(w.attempt);
        if bit(w, tw_wait_bits::TW_WAIT_RESENT) {
            row.cause_sender_state = Some(self.names.state(w.sender_state));
            row.cause_sent_ago_ns = Some(w.sent_ago_ns);
            row.cause_retransmit_kind = retransmit_kind(w.resent_caller).cloned();
            row.cause_answer = Some(bit(w, tw_wait_bits::TW_WAIT_ANSWER));
        }
    }

    fn state(&mut self, blocked: u32) -> Text {
        let letter = state_letter(blocked);
        let known = self.states.entry(blocked & 0xffff);
        known.or_insert_with(|| letter.into()).clone()
    }
}

/// As `ps` prints it.
fn state_letter(blocked: u32) -> &'static str {
    match blocked {
        b if b & 0x402 == 0x402 => "I",
        b if b & 2 != 0 => "D",
        b if b & 4 != 0 => "T",
        b if b & 8 != 0 => "t",
        b if b & 0x40 != 0 => "P",
        _ => "S",
    }
}

/// The first `n` frames, as far as there are so many, and the rest.
fn first_of(frames: &[u64], n: u32) -> (&[u64], &[u64]) {
    frames.split_at(frames.len().min(n as usize))
}

fn bit(w: &tw_wait, bit: tw_wait_bits) -> bool {
    u32::from(w.bits) & bit.0 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_letters_of_ps() {
        let letters: Vec<_> = [1, 2, 0x102, 0x402, 4, 8, 0x40, 0x2001]
            .map(state_letter)
            .into();
        assert_eq!(letters, ["S", "D", "D", "I", "T", "t", "P", "S"]);
    }
}
