//! What to do about a full accept queue: accept sooner, or a larger backlog.

use super::super::scene::{namespace, process, raise_backlog, roomy_backlog};
use super::{Case, culprit};
use crate::finding::{Advice, Change, Scope};
use crate::story::stats::most_within;
use crate::words::{count, duration, figure};

/// Clients that arrive within this time of each other are one burst: a dropped one is back then.
const BURST_NS: u64 = 1_000_000_000;

impl Case<'_> {
    pub(super) fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let mut advice = self.backlog_advice(scope);
        let at = match self.sustained(scope) {
            true => 0,
            false => advice.len(),
        };
        advice.insert(at, self.faster_advice(scope));
        advice
    }

    pub(super) fn new_backlog(&self, scope: &Scope) -> u32 {
        let peak = self
            .scene
            .listener
            .fullest()
            .map_or(0, |s| s.longest_accept_queue.0);
        let burst = match self.sustained(scope) {
            true => 0,
            false => most_within(&mut self.times.began.clone(), BURST_NS),
        };
        roomy_backlog(self.scene, burst.max(peak.into()))
    }

    fn faster_advice(&self, scope: &Scope) -> Advice {
        let who = process(scope);
        let (action, command) = match (culprit(scope).map(|d| d.state), scope.pid) {
            (Some("was-stopped"), _) => (
                format!("Find out what stopped {who}: a debugger, a signal, a frozen cgroup."),
                None,
            ),
            (Some("stopped"), Some(pid)) => (
                format!("Let {who} run again, and find out what stopped it."),
                Some(format!("kill -CONT {pid}")),
            ),
            (Some("blocked"), Some(pid)) => (
                format!("Find out what {who} waits for in the kernel."),
                Some(format!("cat /proc/{pid}/wchan /proc/{pid}/stack")),
            ),
            (Some("on-cpu"), Some(pid)) => (
                format!("Give {who} more CPU, or start more workers that accept."),
                Some(format!("perf top -p {pid}")),
            ),
            (_, Some(pid)) => (
                format!("Make {who} call accept() whenever one waits, not between other work."),
                Some(format!("strace -f -e trace=accept,accept4 -p {pid}")),
            ),
            (_, None) => ("Make the application call accept() sooner.".into(), None),
        };
        let expected = match self.rates() {
            Some((arrived, taken)) if arrived > taken => format!(
                "The queue stays short once it accepts {} connections per second, not {}.",
                figure(arrived),
                figure(taken)
            ),
            _ => "The queue drains, and SYNs are answered at once.".into(),
        };
        Advice {
            action,
            command,
            r#where: format!("{who} in {}", namespace(&scope.netns)),
            risk: "None for TCP; the application has more connections in hand at a time.".into(),
            expected,
            change: Some(Change::AcceptFaster {
                listener: scope.listener.clone(),
            }),
        }
    }

    fn backlog_advice(&self, scope: &Scope) -> Vec<Advice> {
        let backlog = self.new_backlog(scope);
        let expected = match self.rates() {
            Some((arrived, taken)) if arrived > taken => format!(
                "It absorbs {} of this overload ({} arriving, {} accepted per second), not more.",
                duration((f64::from(backlog) / (arrived - taken) * 1e9) as u64),
                figure(arrived),
                figure(taken)
            ),
            _ => format!("A burst of {} connections fits.", count(backlog.into())),
        };
        let risk = "Clients wait in the queue instead of trying again: under lasting overload they \
                    wait longer, and some have given up when they are accepted.";
        raise_backlog(self.scene, scope, backlog, risk, expected)
    }
}
