//! `trace wakeups`: who slept, who woke it, with which kernel stack, and the segment behind it.

use std::io;

use explain::Arrival;
use recording::tables::Wait;
use recording::{Addr, Row, TcpState, Text, Waker};
use serde::Serialize;

use super::stacks::Stacks;
use crate::numbers::{ms, or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};
use crate::view::View;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("TID", 7),
    ("COMM", -15),
    ("SLEPT(ms)", 10),
    ("SYSCALL", -12),
    ("FD", 4),
    ("RUNQ(ms)", 8),
    ("CPU", 3),
    ("WAKER", -1),
];

pub(super) struct Wakeups {
    least_ns: u64,
    stacks: Stacks,
}

#[derive(Serialize)]
struct Line<'w> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    pid: u32,
    tid: u32,
    comm: &'w Text,
    cgroup: u64,
    netns: u32,
    state: &'w Text,
    syscall: &'w Option<Text>,
    fd: Option<i32>,
    waited_ns: u64,
    runqueue_ns: Option<u64>,
    waker: &'w Waker,
    waker_pid: u32,
    waker_tid: u32,
    waker_comm: &'w Text,
    waker_cpu: u32,
    waker_stack: Option<Vec<String>>,
    cause: Option<Cause<'w>>,
}

/// The segment behind a wakeup.
#[derive(Serialize)]
struct Cause<'w> {
    sender_addr: Addr,
    sender_port: u16,
    receiver_addr: Addr,
    receiver_port: u16,
    retransmission: Option<u32>,
    /// The receiver had sent the retransmission, and this was the answer.
    answer: bool,
    sender_state: &'w Option<TcpState>,
    sent_ago_ns: Option<u64>,
    says: String,
}

impl Wakeups {
    pub(super) fn new(least_ns: u64) -> Wakeups {
        Wakeups {
            least_ns,
            stacks: Stacks::default(),
        }
    }

    fn line(&self, w: &Wait, screen: &mut Screen) -> io::Result<()> {
        let functions = w.waker_stack.and_then(|s| self.stacks.functions(s));
        let cause = cause(w);
        if screen.how.json {
            return screen.json(&Line {
                r#type: "wakeup",
                when: When::of(w.time_ns, screen.how),
                pid: w.pid,
                tid: w.tid,
                comm: &w.comm,
                cgroup: w.cgroup,
                netns: w.netns,
                state: &w.state,
                syscall: &w.syscall,
                fd: w.fd,
                waited_ns: w.waited_ns,
                runqueue_ns: w.runqueue_ns,
                waker: &w.waker,
                waker_pid: w.waker_pid,
                waker_tid: w.waker_tid,
                waker_comm: &w.waker_comm,
                waker_cpu: w.waker_cpu,
                waker_stack: functions,
                cause,
            });
        }
        let cells = [
            screen.how.time(w.time_ns),
            w.pid.to_string(),
            w.tid.to_string(),
            w.comm.to_string(),
            ms(w.waited_ns),
            text_or_dash(w.syscall.as_deref()),
            or_dash(w.fd),
            or_dash(w.runqueue_ns.map(ms)),
            w.waker_cpu.to_string(),
            waker(w),
        ];
        screen.line(COLUMNS, &cells)?;
        for function in functions.iter().flatten() {
            screen.more(&format!("              {function}"))?;
        }
        match cause {
            Some(cause) => screen.more(&format!("    {}", cause.says)),
            None => Ok(()),
        }
    }
}

/// Who woke it. In a softirq or an interrupt the task on the CPU is a bystander.
fn waker(w: &Wait) -> String {
    match &w.waker {
        Waker::Task => format!("{}/{}", w.waker_comm, w.waker_tid),
        waker => format!("{waker} on {}/{}", w.waker_comm, w.waker_tid),
    }
}

fn cause(w: &Wait) -> Option<Cause<'_>> {
    let arrival = Arrival::of(w)?;
    Some(Cause {
        sender_addr: w.cause_remote_addr,
        sender_port: w.cause_remote_port,
        receiver_addr: w.cause_local_addr,
        receiver_port: w.cause_local_port,
        retransmission: w.cause_attempt.filter(|n| *n > 0),
        answer: w.cause_answer == Some(true),
        sender_state: &w.cause_sender_state,
        sent_ago_ns: w.cause_sent_ago_ns,
        says: format!("woken by {}", arrival.says()),
    })
}

impl View for Wakeups {
    fn tables(&self) -> Vec<&'static str> {
        vec!["wait", "stack", "frame"]
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        match row {
            Row::Wait(w) if w.waited_ns >= self.least_ns && asked(w, screen) => {
                return self.line(w, screen);
            }
            _ => self.stacks.take(row),
        }
        Ok(())
    }
}

fn asked(w: &Wait, screen: &Screen) -> bool {
    let f = &screen.how.filter;
    f.netns_ok(w.netns)
        && f.task_ok(Some(w.pid), Some(&w.comm), Some(w.cgroup))
        && f.ports_ok(w.cause_local_port, w.cause_remote_port)
        && f.addrs_ok(w.cause_local_addr, w.cause_remote_addr)
}
