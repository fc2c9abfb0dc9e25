//! What to do about a full accept queue: accept sooner, or a larger backlog.

use analysis::ProcessState;
use analysis::stats::most_within;
use analysis::words::{count, duration, figure};

use super::{Overflow, culprit};
use crate::advice::{Advice, Change};
use crate::finding::Scope;
use crate::limits;
use crate::places::listener::{raise_backlog, roomy_backlog};
use crate::scope::{namespace, process};
use crate::shell;
use crate::stopped_by;

/// Arrivals exceed accepts by this factor where a longer queue fills as well.
const ADVISED_OVERLOAD: f64 = 1.05;

/// Why the queue was too short.
enum Strain {
    /// More arrived per second than were taken.
    Overload(f64, f64),
    /// As many were taken as arrived, but for a while nothing was; arrivals per second, ns.
    Pause(f64, u64),
    /// Many came at once, or it is unknown.
    Burst,
}

impl Overflow<'_> {
    fn strain(&self) -> Strain {
        match (self.rates(), self.outage) {
            (Some((arrived, taken)), _) if arrived > taken * ADVISED_OVERLOAD => {
                Strain::Overload(arrived, taken)
            }
            (Some((arrived, _)), Some(outage)) if arrived > 0.0 => {
                Strain::Pause(arrived, outage.ns())
            }
            _ => Strain::Burst,
        }
    }

    pub(super) fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let mut advice = self.backlog_advice(scope);
        let at = if self.sustained(scope) {
            0
        } else {
            advice.len()
        };
        advice.insert(at, self.faster_advice(scope));
        advice
    }

    pub(super) fn new_backlog(&self, scope: &Scope) -> u32 {
        let peak = self
            .here
            .listener
            .fullest()
            .map_or(0, |s| s.longest_accept_queue.0);
        let burst = if self.sustained(scope) {
            0
        } else {
            most_within(&mut self.times.began.clone(), limits::BURST.ns())
        };
        roomy_backlog(self.here, burst.max(peak.into()))
    }

    fn faster_advice(&self, scope: &Scope) -> Advice {
        let who = process(scope);
        let state = culprit(scope).map(|d| d.state);
        let stopped = scope.pid.filter(|_| state == Some(ProcessState::Stopped));
        let (action, command) = match (state, scope.pid) {
            (Some(ProcessState::WasStopped), _) => (
                format!("Find out what stopped {who}: a debugger, a signal, a frozen cgroup."),
                None,
            ),
            (Some(ProcessState::Stopped), Some(pid)) => (
                stopped_by::fix(self.here.story, &who, Some(pid), true),
                shell!("kill -CONT {pid}", pid),
            ),
            (Some(ProcessState::Blocked), Some(pid)) => (
                format!("Find out what {who} waits for in the kernel."),
                shell!("cat /proc/{pid}/wchan /proc/{pid}/stack", pid),
            ),
            (Some(ProcessState::OnCpu), Some(pid)) => (
                format!("Give {who} more CPU, or start more workers that accept."),
                shell!("tcpwhy stat threads --pid {pid}", pid),
            ),
            (_, Some(pid)) => (
                format!(
                    "Make {who} call accept() whenever a connection waits, not between other work."
                ),
                shell!("tcpwhy stat threads --pid {pid}", pid),
            ),
            (_, None) => ("Make the application call accept() sooner.".into(), None),
        };
        let expected = match self.strain() {
            Strain::Overload(arrived, taken) => format!(
                "The queue stays short once it accepts {} connections per second, not {}.",
                figure(arrived),
                figure(taken)
            ),
            Strain::Pause(arrived, ns) => format!(
                "Without the {} in which nothing was accepted there is no overflow: it accepts {} \
                 connections per second on average.",
                duration(ns),
                figure(arrived)
            ),
            Strain::Burst => "The queue drains, and SYNs are answered at once.".into(),
        };
        Advice::to(action)
            .by(command)
            .undo(stopped.and_then(|pid| shell!("kill -STOP {pid}", pid)))
            .at(format!("{who} in {}", namespace(&scope.netns)))
            .risk("None for TCP; the application handles more connections at a time.")
            .effect(expected)
            .change(Change::AcceptFaster {
                listener: scope.listener.clone(),
            })
    }

    fn backlog_advice(&self, scope: &Scope) -> Vec<Advice> {
        let backlog = self.new_backlog(scope);
        let expected = match self.strain() {
            Strain::Overload(arrived, taken) => format!(
                "It absorbs {} of this overload ({} arriving, {} accepted per second), no more.",
                duration((f64::from(backlog) / (arrived - taken) * 1e9) as u64),
                figure(arrived),
                figure(taken)
            ),
            Strain::Pause(arrived, ns) => format!(
                "It rides out {} without accept() at {} connections per second; this one lasted {}.",
                duration((f64::from(backlog) / arrived * 1e9) as u64),
                figure(arrived),
                duration(ns)
            ),
            Strain::Burst => format!("A burst of {} connections fits.", count(backlog.into())),
        };
        let risk = "Clients wait in the queue instead of retrying: under sustained overload they wait \
                    longer, and some have given up by the time they are accepted.";
        raise_backlog(self.here, scope, backlog, risk, expected)
    }
}
