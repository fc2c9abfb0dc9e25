//! C35: the thread that serves connections waits for a CPU, behind others or for its own quota.

mod quota;

use std::collections::BTreeSet;

use analysis::Thread;
use analysis::stats::ratio;
use analysis::words::{count, duration, figure, fitting, percent, plural};

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::doubts;
use crate::places::runqueue::{Rivals, serves_softirq, softirq_waited, thread_step};
use crate::vocabulary::*;
use quota::Quota;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CPU_CONTENTION,
    number: "C35",
    title: "the application waits for a CPU",
    page: include_str!("cpu_contention.md"),
    ground: Ground::Host,
    needs: &[&[SourceName::Threads]],
    seen_from: "a thread runnable 30 % of the time, 200 ms in all",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

/// Below this share of the time, waiting is what every busy host has.
const LEAST_SHARE: f64 = 0.30;
/// Waiting less than this in all is a start or a burst, ns.
const LEAST_WAIT_NS: u64 = 200_000_000;
/// A thread that waits less than this beside its running has most of what it wants.
const LEAST_TO_RUNNING: f64 = 0.5;
/// A mean wait of less, each time that it wants a CPU, is the scheduler's ordinary work, ns.
const LEAST_MEAN_NS: u64 = 1_000_000;

/// A thread that waits, and for what.
struct Case<'a> {
    story: &'a Story,
    thread: &'a Thread,
    why: Why<'a>,
    /// Connections of its process.
    conns: Vec<&'a Conn>,
}

/// What keeps it waiting.
enum Why<'a> {
    /// Others have the CPU.
    Rivals(Rivals<'a>),
    /// The cgroup has spent its quota.
    Quota(Quota<'a>),
}

fn find(story: &Story) -> Vec<Finding> {
    let owners = owners(story);
    // Of a process, the thread that waits most.
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&Thread> = story.threads.all().filter(|t| waits(t)).collect();
    waiting.sort_by_key(|t| std::cmp::Reverse(t.waited_ns));
    waiting.retain(|t| owners.contains(&t.pid) && !serves_softirq(&t.comm));
    waiting.retain(|t| seen.insert(t.pid));
    waiting.truncate(MOST_PER_CAUSE);
    let mut cases: Vec<Case> = waiting
        .into_iter()
        .filter_map(|t| Case::of(story, t))
        .collect();
    // Where it is not known who is in a cgroup, its throttling explains one process.
    let mut guessed = BTreeSet::new();
    cases.retain(|case| match &case.why {
        Why::Quota(quota) if !quota.certain => guessed.insert(quota.cgroup),
        _ => true,
    });
    cases.iter().map(Case::finding).collect()
}

/// Whether a thread waits for a CPU more than it should.
fn waits(thread: &Thread) -> bool {
    thread.waited_ns >= LEAST_WAIT_NS
        && thread.waiting() >= LEAST_SHARE
        && thread.waited_ns as f64 >= LEAST_TO_RUNNING * thread.on_cpu_ns as f64
}

/// Processes that hold listeners, or that called connect().
fn owners(story: &Story) -> BTreeSet<u32> {
    let holders = story.listeners.all.iter().flat_map(|l| &l.holders);
    let callers = story.conns.iter().filter_map(|c| c.pid);
    holders.map(|h| h.pid).chain(callers).collect()
}

impl<'a> Case<'a> {
    fn of(story: &'a Story, thread: &'a Thread) -> Option<Case<'a>> {
        let conns = connections(story, thread.pid);
        let why = match Quota::of(story, thread) {
            Some(quota) => Why::Quota(quota),
            None => {
                let rivals = Rivals::of(story, thread, None);
                if !rivals.explain_the_wait() || thread.mean_wait_ns() < LEAST_MEAN_NS {
                    return None;
                }
                Why::Rivals(rivals)
            }
        };
        (!conns.is_empty()).then_some(Case {
            story,
            thread,
            why,
            conns,
        })
    }

    fn finding(&self) -> Finding {
        let checks = self.arithmetic();
        let advice = self.advice();
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: self.lost(),
            since: None,
            episodes: Vec::new(),
            title: self.title(),
            fix: self.fix(),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice,
            verify: format!(
                "Under the same load `tcpwhy stat threads` shows less than {} in column LAT for \
                 {}.",
                percent(LEAST_SHARE),
                self.thread.comm
            ),
            scope: self.scope(),
        }
    }

    fn scope(&self) -> Scope {
        let thread = self.thread;
        let listens = self.listens();
        let netns = self.conns.first().map_or(0, |c| c.netns);
        Scope {
            netns: self.story.netns(netns),
            resource: Some(match &self.why {
                Why::Rivals(rivals) => rivals.place(),
                Why::Quota(quota) => format!("cgroup {}", quota.cgroup),
            }),
            role: match listens {
                true => Role::Listener,
                false => Role::Client,
            },
            pid: Some(thread.pid),
            pids: vec![thread.pid],
            comm: Some(thread.comm.to_string()),
            ..Scope::default()
        }
    }

    fn listens(&self) -> bool {
        let mut holders = self.story.listeners.all.iter().flat_map(|l| &l.holders);
        holders.any(|h| h.pid == self.thread.pid)
    }

    fn who(&self) -> String {
        format!("{} (pid {})", self.thread.comm, self.thread.pid)
    }

    fn title(&self) -> String {
        let who = self.who();
        let share = percent(self.thread.waiting());
        match &self.why {
            Why::Rivals(rivals) => {
                let place = rivals.place();
                let first = rivals.others.first().map_or("others", |r| r.comm);
                fitting([
                    format!("{who} waits {share} of the time for {place}, behind {first}."),
                    format!("{who} waits {share} of the time for {place}."),
                ])
            }
            Why::Quota(quota) => fitting([
                format!(
                    "{who} waits {share} of the time: cgroup {} has spent its CPU quota.",
                    quota.cgroup
                ),
                format!("{who} waits {share} of the time: its cgroup's CPU quota is spent."),
            ]),
        }
    }

    fn fix(&self) -> String {
        match &self.why {
            Why::Rivals(rivals) => {
                let first = rivals.others.first().map_or("others", |r| r.comm);
                format!("Let {first} stand back (SCHED_IDLE), or give it another CPU.")
            }
            Why::Quota(quota) => fitting([
                format!(
                    "Raise the CPU quota of cgroup {} to {} CPUs.",
                    quota.cgroup,
                    figure(self.wanted_cpus())
                ),
                format!(
                    "Raise the CPU quota of its cgroup to {} CPUs.",
                    figure(self.wanted_cpus())
                ),
            ]),
        }
    }

    /// What its connections waited for it, in proportion to the share of the time that it wanted a CPU
    /// and had none.
    fn lost(&self) -> Lost {
        let wanted = self.thread.waited_ns.saturating_add(self.thread.on_cpu_ns);
        let share = self.thread.waited_ns as f64 / wanted.max(1) as f64;
        let mut lost = Lost::unknown();
        for conn in &self.conns {
            // Where both ends are here, the caller's time counts.
            let peer = conn.peer.and_then(|id| self.story.conn(id));
            let caller = peer.filter(|_| conn.side != Side::Opened);
            let (of, states) = match caller {
                Some(peer) => (peer, &[State::Awaiting][..]),
                None => (*conn, &[State::Unaccepted, State::Unread, State::Owing][..]),
            };
            lost = lost.and(Lost::states(self.story, [of], states, share));
        }
        lost.or(|| Lost::elsewhere(self.thread.waited_ns))
    }

    fn impact(&self) -> Impact {
        let n = self.conns.len() as u64;
        let says = format!(
            "{} of this process wait with it, {} each time it wants a CPU on average.",
            plural(n, "connection"),
            duration(self.thread.mean_wait_ns())
        );
        Impact::of(n, n, "connections", says)
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because("the scheduler itself told when the thread was runnable and when it ran");
        match &self.why {
            Why::Rivals(_) => doubts(
                self.story,
                &mut c,
                &[SourceName::Profile, SourceName::Threads],
            ),
            Why::Quota(quota) => {
                if !quota.certain {
                    c.at_most(
                        Level::Medium,
                        "the only cgroup that was throttled; that the process is in it is not \
                         recorded (cgroup v1)",
                    );
                }
                doubts(
                    self.story,
                    &mut c,
                    &[SourceName::Cgroups, SourceName::Threads],
                );
            }
        }
        c.weigh_checks(checks);
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let mut steps = vec![self.connections_step()];
        steps.extend(self.wake_step());
        steps.push(thread_step(self.thread, &self.who()));
        steps.push(match &self.why {
            Why::Rivals(rivals) => rivals.step(),
            Why::Quota(quota) => quota.step(),
        });
        steps
    }

    fn connections_step(&self) -> Step {
        let resent = self
            .conns
            .iter()
            .filter(|c| c.retransmits + c.syn_retries > 0);
        let n = self.conns.len() as u64;
        let resent = resent.count() as u64;
        let and = match resent {
            0 => "none of them had to retransmit anything".into(),
            resent => format!("{} of them had to retransmit something", count(resent)),
        };
        Step::new(format!(
            "{} belong to {}; {and}.",
            plural(n, "connection"),
            self.who()
        ))
        .number("connections", n)
        .number("with_retransmits", resent)
        .rows(self.conns.iter().filter_map(|c| c.row()).take(SHOWN_ROWS))
    }

    /// The longest wait for a CPU after it had been woken.
    fn wake_step(&self) -> Option<Step> {
        let own = self.story.waits.all.iter();
        let own = own.filter(|w| w.tid == self.thread.tid);
        let longest = own.max_by_key(|w| w.runqueue_ns)?;
        let after = longest.runqueue_ns.filter(|ns| *ns >= LEAST_MEAN_NS)?;
        let woken = match &longest.cause {
            Some(packet) => format!("a packet from {} had woken it", packet.from),
            None => "it had been woken".into(),
        };
        Some(
            Step::new(format!(
                "Once it waited {} for a CPU after {woken}.",
                duration(after)
            ))
            .number("longest_ms", after as f64 / 1e6)
            .rows([longest.row]),
        )
    }

    fn arithmetic(&self) -> Vec<Check> {
        match &self.why {
            Why::Rivals(rivals) => vec![rivals.check()],
            Why::Quota(quota) => quota.checks(self.story, self.thread),
        }
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let softirq = match softirq_waited(self.story) {
            Some(ns) => format!(
                "the kernel's threads for softirqs waited {} for a CPU in all",
                duration(ns)
            ),
            None => format!(
                "the thread that waits is {}; no kernel thread for softirqs was recorded",
                self.thread.comm
            ),
        };
        let resent: u64 = self.conns.iter().map(|c| u64::from(c.retransmits)).sum();
        vec![
            RuledOut::new(Id::SOFTIRQ_STARVATION, softirq),
            RuledOut::new(
                Id::PATH_LOSS,
                format!(
                    "{} retransmitted on {}",
                    plural(resent, "segment"),
                    plural(self.conns.len() as u64, "connection")
                ),
            ),
        ]
    }

    /// CPUs that the thread would have used, and half as much again for bursts.
    fn wanted_cpus(&self) -> f64 {
        let wanted = self.thread.on_cpu_ns.saturating_add(self.thread.waited_ns);
        let cpus = ratio(wanted as f64, self.thread.seen_ns as f64).unwrap_or(1.0);
        (cpus * 15.0).ceil() / 10.0
    }

    fn advice(&self) -> Vec<Advice> {
        let risk = "A batch job takes longer when the host is busy; one that must keep up does not \
                    suit.";
        match &self.why {
            Why::Rivals(rivals) => {
                let mut advice = rivals.advice(risk);
                advice.push(self.own_priority());
                advice
            }
            Why::Quota(quota) => vec![quota.advice(self.thread, self.wanted_cpus())],
        }
    }

    fn own_priority(&self) -> Advice {
        Advice {
            action: format!("Or give {} a larger share of the CPU.", self.who()),
            command: Some(format!("renice -n -10 -p {}", self.thread.pid)),
            r#where: "the host; for a service Nice or CPUWeight in its unit".into(),
            risk: "Others on that CPU get less, whatever they do.".into(),
            expected: "It comes first more often; at nice -10 it weighs nine times as much.".into(),
            change: None,
        }
    }
}

/// Connections that a process opened or accepted.
fn connections(story: &Story, pid: u32) -> Vec<&Conn> {
    let listeners = story.listeners.all.iter();
    let held = listeners.filter(|l| l.holders.iter().any(|h| h.pid == pid));
    let accepted = held.flat_map(|l| story.all(&l.accepted));
    let mut ids: BTreeSet<_> = accepted.map(|(id, _)| id).collect();
    let own = story
        .conns
        .iter()
        .zip(0..)
        .filter(|(c, _)| c.pid == Some(pid));
    ids.extend(own.map(|(_, id)| id));
    ids.into_iter().filter_map(|id| story.conn(id)).collect()
}

#[cfg(test)]
mod tests;
