//! Waits and what ended them, walked from waker to waker until something other than a task is found.

use ahash::AHashMap;
use recording::tables::Wait;
use recording::{Addr, Error, Recording, RetransmitKind, RowRef, TcpState, Text, Waker};

use super::place::Endpoint;
use crate::bounded::{Interest, fold_list};
use crate::timers::sent_by;
use crate::words::duration;

/// Waits kept; beyond that, the shortest are counted. About 50 MB, or 75 where each has a name of its own.
const MAX_WAITS: usize = 1 << 18;
/// A chain of wakers longer than this is cut: two tasks may wake each other for ever.
const MAX_HOPS: usize = 8;

/// One wait.
#[derive(Clone, Debug)]
pub struct Waited {
    /// The row.
    pub row: RowRef,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its command name.
    pub comm: Text,
    /// The kernel's letter for how it waited.
    pub state: Text,
    /// System call in which it waited.
    pub syscall: Option<Text>,
    /// How long it was off the CPU, ns.
    pub waited_ns: u64,
    /// How long it then waited for a CPU, ns; `None` when it had not run again.
    pub runqueue_ns: Option<u64>,
    /// When it was woken.
    pub end_ns: u64,
    /// What woke it.
    pub waker: Waker,
    waker_tid: u32,
    /// Command name of the task on the waker's CPU.
    pub waker_comm: Text,
    /// Its network namespace.
    pub netns: u32,
    /// Its cgroup v2 id.
    pub cgroup: u64,
    /// The name server whose socket it polled or read; `None` where it waited for something else.
    pub name_server: Option<Addr>,
    /// The packet that woke it; `None` when none did.
    pub cause: Option<Box<Arrival>>,
}

impl Waited {
    /// That of a row.
    pub(crate) fn of(at: RowRef, row: Wait) -> Waited {
        let cause = Arrival::of(&row).map(Box::new);
        Waited {
            row: at,
            pid: row.pid,
            tid: row.tid,
            comm: row.comm,
            state: row.state,
            syscall: row.syscall,
            waited_ns: row.waited_ns,
            runqueue_ns: row.runqueue_ns,
            end_ns: row.time_ns,
            waker: match row.waker {
                Waker::Softirq | Waker::Irq | Waker::Timer => row.waker.clone(),
                _ => Waker::Task,
            },
            waker_tid: row.waker_tid,
            waker_comm: row.waker_comm,
            netns: row.netns,
            cgroup: row.cgroup,
            name_server: row.name_server,
            cause,
        }
    }
}

/// By how long it was.
impl Interest for Waited {
    fn interest(&self) -> u64 {
        self.waited_ns
    }
    fn counted(&self) -> u64 {
        1
    }
}

/// The TCP packet whose arrival woke a thread.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Receiver's end.
    pub to: Endpoint,
    /// Sender's end.
    pub from: Endpoint,
    /// 0 when it was not a retransmission of this host.
    pub attempt: u32,
    /// It answered that retransmission, which `to` had sent.
    pub answer: bool,
    /// State of the sender when it retransmitted.
    pub sender_state: Option<TcpState>,
    /// From the retransmission to the wakeup, ns.
    pub sent_ago_ns: Option<u64>,
    /// What made the sender retransmit.
    pub kind: Option<RetransmitKind>,
}

impl Arrival {
    /// The one that ended a wait, if one did.
    pub fn of(row: &Wait) -> Option<Arrival> {
        Some(Arrival {
            attempt: row.cause_attempt?,
            to: Endpoint::new(row.cause_local_addr, row.cause_local_port),
            from: Endpoint::new(row.cause_remote_addr, row.cause_remote_port),
            answer: row.cause_answer == Some(true),
            sender_state: row.cause_sender_state.clone(),
            sent_ago_ns: row.cause_sent_ago_ns,
            kind: row.cause_retransmit_kind.clone(),
        })
    }

    /// What the thread was woken by, in words.
    pub fn says(&self) -> String {
        let (sender, receiver) = self.resent();
        if self.attempt == 0 {
            return format!("a segment of {sender} → {receiver}, no retransmission of this host");
        }
        let answer = if self.answer { "the answer to " } else { "" };
        let attempt = self.attempt;
        let state = self.sender_state.as_ref();
        let state = state.map_or_else(String::new, |state| format!(" ({state})"));
        let ago = self.sent_ago_ns;
        let by = self.kind.as_ref();
        let by = by.and_then(|kind| sent_by(kind, self.sender_state.as_ref()));
        let by = by.map_or_else(String::new, |by| format!(" {by}"));
        let ago = ago.map_or_else(String::new, |ns| {
            format!(", sent {} before{by}", duration(ns))
        });
        format!("{answer}retransmission {attempt}{state} of {sender} → {receiver}{ago}")
    }

    /// Who sent the retransmission, and to whom.
    pub fn resent(&self) -> (Endpoint, Endpoint) {
        if self.answer {
            (self.to, self.from)
        } else {
            (self.from, self.to)
        }
    }
}

/// All waits of a recording.
#[derive(Debug, Default)]
pub struct Waits {
    /// The waits kept.
    pub all: Vec<Waited>,
    /// By thread, in order of their ends.
    of_tid: AHashMap<u32, Vec<u32>>,
    /// Waits beyond the bound.
    pub folded: u64,
}

impl Waits {
    pub(crate) fn read(recording: &Recording) -> Result<Waits, Error> {
        let mut waits = Waits::default();
        for batch in recording.scan::<Wait>()? {
            for (at, row) in batch?.rows() {
                waits.add(at, row);
            }
        }
        waits.finish();
        Ok(waits)
    }

    /// Sorts what was kept.
    fn finish(&mut self) {
        for (wait, index) in self.all.iter().zip(0..) {
            self.of_tid.entry(wait.tid).or_default().push(index);
        }
        for of_one in self.of_tid.values_mut() {
            of_one.sort_by_key(|i| self.all[*i as usize].end_ns);
        }
    }

    fn add(&mut self, at: RowRef, row: Wait) {
        if self.all.len() >= MAX_WAITS {
            self.folded += fold_list(&mut self.all);
        }
        self.all.push(Waited::of(at, row));
    }

    /// Who woke the waker: the wait itself, then the wait of the task that ended it, if that task
    /// was itself asleep for a part of that time, and so on.
    pub fn walk<'w>(&'w self, wait: &'w Waited) -> Vec<&'w Waited> {
        let mut hops = vec![wait];
        let mut last = wait;
        while last.waker == Waker::Task && hops.len() < MAX_HOPS {
            let Some(next) = self.latest(last.waker_tid, last.end_ns) else {
                break;
            };
            // Woken before our thread fell asleep, or a walk in a circle: it explains nothing.
            let began = last.end_ns.saturating_sub(last.waited_ns);
            if next.end_ns <= began || hops.iter().any(|h| h.row == next.row) {
                break;
            }
            hops.push(next);
            last = next;
        }
        hops
    }

    /// The waits of a thread that ended between two moments.
    pub(crate) fn of(&self, tid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Waited> {
        let of_one = self.of_tid.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = of_one.partition_point(|i| self.all[*i as usize].end_ns <= from_ns);
        let rest = of_one[first..].iter().map(|i| &self.all[*i as usize]);
        rest.take_while(move |w| w.end_ns <= to_ns)
    }

    /// The last wait of a thread that ended by `before_ns`.
    fn latest(&self, tid: u32, before_ns: u64) -> Option<&Waited> {
        let of_one = self.of_tid.get(&tid)?;
        let n = of_one.partition_point(|i| self.all[*i as usize].end_ns <= before_ns);
        Some(&self.all[*of_one.get(n.checked_sub(1)?)? as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tid: u32, from_ns: u64, end_ns: u64, waker: Waker, waker_tid: u32) -> Wait {
        Wait {
            time_ns: end_ns,
            tid,
            waited_ns: end_ns - from_ns,
            waker,
            waker_tid,
            ..Wait::default()
        }
    }

    fn waits(rows: Vec<Wait>) -> Waits {
        let mut waits = Waits::default();
        for (i, row) in rows.into_iter().enumerate() {
            let at = RowRef {
                table: "wait",
                segment: 1,
                row: i as u32,
            };
            waits.add(at, row);
        }
        waits.finish();
        waits
    }

    fn walk(waits: &Waits, i: usize) -> Vec<u32> {
        waits.walk(&waits.all[i]).iter().map(|w| w.tid).collect()
    }

    #[test]
    fn the_walk_goes_from_waker_to_waker_to_the_packet() {
        // 3 slept from 10 to 100, woken by 2, which slept from 20 to 90, woken by 1, woken by softirq.
        let waits = waits(vec![
            row(1, 30, 80, Waker::Softirq, 0),
            row(2, 20, 90, Waker::Task, 1),
            row(3, 10, 100, Waker::Task, 2),
        ]);
        assert_eq!(walk(&waits, 2), [3, 2, 1]);
        assert_eq!(walk(&waits, 0), [1]);
    }

    #[test]
    fn a_waker_that_was_awake_all_the_time_ends_the_walk() {
        let waits = waits(vec![
            row(2, 1, 5, Waker::Softirq, 0),
            row(3, 10, 100, Waker::Task, 2),
        ]);
        assert_eq!(walk(&waits, 1), [3]);
    }

    #[test]
    fn two_that_wake_each_other_do_not_walk_for_ever() {
        let rows = (0..100)
            .map(|i| {
                row(
                    i % 2,
                    u64::from(i) * 10,
                    u64::from(i) * 10 + 15,
                    Waker::Task,
                    (i + 1) % 2,
                )
            })
            .collect();
        let waits = waits(rows);
        assert!(walk(&waits, 99).len() <= MAX_HOPS);
    }
}
