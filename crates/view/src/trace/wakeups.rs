//! `trace wakeups`: who slept, who woke it, with which kernel stack, and the segment behind it.

use std::io;

use analysis::epolls::{self, Epolls};
use explain::Arrival;
use recording::tables::Wait;
use recording::{Cell, Filter, Row, Waker};

use super::stacks::{self, Stacks};
use crate::columns::{Fields, Unit, Value, columns, heads, json, left, right};
use crate::screen::Screen;
use crate::view::View;

/// A sleep that ended: the stacks of the sleeper and of its waker, the innermost function first, the timer that the
/// waker ran for, and the segment behind it in words.
pub(crate) struct Woken {
    wait: Box<Wait>,
    slept: Option<Vec<String>>,
    stack: Option<Vec<String>>,
    timer: Option<String>,
    cause: Option<String>,
    behind: Option<String>,
}

columns! {
    Woken = "wakeup" {
        text TIME PID TID COMM SLEPT SYSCALL FD RUNQ CPU WAKER;
        json TIME PID TID COMM CGROUP NETNS STATE SYSCALL FD SLEPT RUNQ WAKER
            WAKER_PID WAKER_TID WAKER_COMM CPU STACK CAUSE SLEPT_IN TIMER BEHIND;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.wait.time_ns);
    /// Process that slept.
    PID: heads::PID => |l, _| l.wait.pid.into();
    /// Thread that slept.
    TID: right("TID", 7, &["tid"], Unit::Id) => |l, _| l.wait.tid.into();
    /// Its name.
    COMM: heads::COMM => |l, _| (&l.wait.comm).into();
    /// How long it slept.
    SLEPT: right("SLEPT(ms)", 10, &["waited_ns"], Unit::Ns) => |l, _| l.wait.waited_ns.into();
    /// In which system call.
    SYSCALL: left("SYSCALL", 12, &["syscall"], Unit::Name) => |l, _| l.wait.syscall.as_ref().into();
    /// On which descriptor.
    FD: right("FD", 4, &["fd"], Unit::Id) => |l, _| l.wait.fd.into();
    /// How long it then waited for a CPU.
    RUNQ: right("RUNQ(ms)", 8, &["runqueue_ns"], Unit::Ns) => |l, _| l.wait.runqueue_ns.into();
    /// CPU that the waker ran on.
    CPU: right("CPU", 3, &["waker_cpu"], Unit::Id) => |l, _| l.wait.waker_cpu.into();
    /// Who woke it: a task, or `softirq`, `irq`, `timer` on a CPU where a bystander ran; JSON has the kind alone.
    WAKER: left("WAKER", 1, &["waker"], Unit::Name) => |l, _| Value::Told(l.wait.waker.value(), waker(&l.wait));
    /// Its cgroup v2 id.
    CGROUP: json(&["cgroup"], Unit::Id) => |l, _| l.wait.cgroup.into();
    /// Inode of its network namespace.
    NETNS: json(&["netns"], Unit::Id) => |l, _| l.wait.netns.into();
    /// State that it slept in, as `ps` names it.
    STATE: json(&["state"], Unit::Name) => |l, _| (&l.wait.state).into();
    /// Process of the task that ran on the waker's CPU.
    WAKER_PID: json(&["waker_pid"], Unit::Id) => |l, _| l.wait.waker_pid.into();
    /// That task.
    WAKER_TID: json(&["waker_tid"], Unit::Id) => |l, _| l.wait.waker_tid.into();
    /// Its name.
    WAKER_COMM: json(&["waker_comm"], Unit::Name) => |l, _| (&l.wait.waker_comm).into();
    /// Functions of the kernel that woke it, the innermost first.
    STACK: json(&["waker_stack"], Unit::Name) => |l, _| l.stack.clone().into();
    /// Null, or the segment behind it: `sender_addr`, `sender_port`, `receiver_addr`, `receiver_port`, `retransmission` (its number, or null), `answer` (it answered that retransmission, which the receiver had sent), `sender_state`, `sent_ago_ns`, `says`, `retransmit_kind` (what made the kernel retransmit, or null).
    CAUSE: json(&["cause"], Unit::Words) => |l, _| l.cause().into();
    /// Functions of the kernel that it slept in, the innermost first; null where the kernel does not tell them.
    SLEPT_IN: json(&["slept_stack"], Unit::Name) => |l, _| l.slept.clone().into();
    /// The timer that the waker ran for, in words; null where it was none, or one that has no name here.
    TIMER: json(&["timer"], Unit::Words) => |l, _| l.timer.as_deref().into();
    /// What is behind the descriptor of epoll that it slept on, in words; null where it is none, or not known yet.
    BEHIND: json(&["behind"], Unit::Words) => |l, _| l.behind.as_deref().into();
}

impl Woken {
    fn cause(&self) -> Option<Fields<'_>> {
        let (w, says) = (&self.wait, self.cause.as_deref()?);
        Some(vec![
            ("sender_addr", w.cause_remote_addr.into()),
            ("sender_port", w.cause_remote_port.into()),
            ("receiver_addr", w.cause_local_addr.into()),
            ("receiver_port", w.cause_local_port.into()),
            ("retransmission", w.cause_attempt.filter(|n| *n > 0).into()),
            ("answer", (w.cause_answer == Some(true)).into()),
            ("sender_state", w.cause_sender_state.value()),
            ("sent_ago_ns", w.cause_sent_ago_ns.into()),
            ("says", says.into()),
            ("retransmit_kind", w.cause_retransmit_kind.value()),
        ])
    }
}

pub(super) struct Wakeups {
    least_ns: u64,
    stacks: Stacks,
    epolls: Epolls,
}

impl Wakeups {
    pub(super) fn new(least_ns: u64) -> Wakeups {
        Wakeups {
            least_ns,
            stacks: Stacks::default(),
            epolls: Epolls::default(),
        }
    }
}

/// The set that it slept on.
fn epoll_fd(w: &Wait) -> Option<i32> {
    let is_epoll = |call: &str| call.starts_with("epoll_");
    w.fd.filter(|_| w.syscall.as_deref().is_some_and(is_epoll))
}

/// What woke it. In a softirq or an interrupt the task on the CPU is a bystander.
fn waker(w: &Wait) -> String {
    match &w.waker {
        Waker::Task => format!("{}/{}", w.waker_comm, w.waker_tid),
        waker => format!("{waker} on {}/{}", w.waker_comm, w.waker_tid),
    }
}

impl View for Wakeups {
    fn tables(&self) -> Vec<&'static str> {
        [&["wait"], stacks::TABLES, epolls::TABLES].concat()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        let Row::Wait(wait) = row else {
            self.stacks.take(&row);
            self.epolls.learn(&row);
            return Ok(());
        };
        if wait.waited_ns < self.least_ns || !asked(&wait, &screen.how.filter) {
            return Ok(());
        }
        let line = Woken {
            slept: wait.slept_stack.and_then(|s| self.stacks.functions(s)),
            stack: wait.waker_stack.and_then(|s| self.stacks.functions(s)),
            timer: wait.waker_stack.and_then(|s| self.stacks.timer(s)),
            behind: epoll_fd(&wait).and_then(|fd| self.epolls.says(wait.pid, fd)),
            cause: Arrival::of(&wait).map(|a| format!("woken by {}", a.says())),
            wait,
        };
        screen.show(&line)?;
        if let Some(behind) = &line.behind {
            screen.more(&format!("    slept on: {behind}"))?;
        }
        if line.slept.is_some() {
            screen.more("    slept in:")?;
            stacks::show(line.slept.as_deref(), screen)?;
        }
        if line.stack.is_some() || line.timer.is_some() {
            let timer = line.timer.as_deref().unwrap_or_default();
            screen.more(&format!("    woken by: {timer}"))?;
        }
        stacks::show(line.stack.as_deref(), screen)?;
        match &line.cause {
            Some(says) => screen.more(&format!("    {says}")),
            None => Ok(()),
        }
    }
}

fn asked(w: &Wait, f: &Filter) -> bool {
    f.netns_ok(w.netns)
        && f.task_ok(Some(w.pid), Some(&w.comm), Some(w.cgroup))
        && f.ports_ok(w.cause_local_port, w.cause_remote_port)
        && f.addrs_ok(w.cause_local_addr, w.cause_remote_addr)
}
