//! C16: the kernel's thread that handles packets waits for a CPU.

use std::collections::BTreeSet;

use analysis::Thread;
use analysis::words::{count, duration, fitting, percent, plural};

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::doubts;
use crate::places::runqueue::{Rivals, serves_softirq, thread_step};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SOFTIRQ_STARVATION,
    number: "C16",
    title: "packets wait for the kernel's turn on a CPU",
    page: include_str!("softirq_starvation.md"),
    ground: Ground::Host,
    needs: &[&[SourceName::Threads]],
    seen_from: "ksoftirqd runnable 10 % of the time, 100 ms in all",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

/// Waiting less than this share of the time is what a busy host has.
const LEAST_SHARE: f64 = 0.10;
/// Waiting less than this in all is a burst, ns.
const LEAST_WAIT_NS: u64 = 100_000_000;
/// A mean wait of less, each time that packets want to be handled, is not felt, ns.
const LEAST_MEAN_NS: u64 = 500_000;
/// Waiting for so much of the time is felt, however short each wait.
const OBVIOUS_SHARE: f64 = 0.30;

/// `ksoftirqd` is woken for other work than packets, too, and what is left to it another softirq may
/// handle first: for packets it waits where at least this share of its turns follows a softirq that
/// ran out of its budget with packets left.
const LEAST_OVERRUNS: f64 = 0.5;

/// A thread of the kernel that waits.
struct Case<'a> {
    story: &'a Story,
    thread: &'a Thread,
    rivals: Rivals<'a>,
    /// Of `ksoftirqd`.
    overruns: Option<Overruns>,
}

fn find(story: &Story) -> Vec<Finding> {
    let mut waiting: Vec<&Thread> = story.threads.all().collect();
    waiting.retain(|t| {
        serves_softirq(&t.comm)
            && t.waited_ns >= LEAST_WAIT_NS
            && t.waiting() >= LEAST_SHARE
            && (t.mean_wait_ns() >= LEAST_MEAN_NS || t.waiting() >= OBVIOUS_SHARE)
    });
    waiting.sort_by_key(|t| std::cmp::Reverse(t.waited_ns));
    waiting.truncate(MOST_PER_CAUSE);
    let cases = waiting
        .into_iter()
        .filter_map(|thread| Case::of(story, thread));
    // Of several threads behind the same process, the one that waits most.
    let mut places = BTreeSet::new();
    let first = cases.filter(|case| places.insert(case.rivals.place()));
    first.map(|case| case.finding()).collect()
}

/// Times that a softirq of a CPU left packets to its thread.
struct Overruns {
    count: u64,
    rows: [RowRef; 2],
}

impl<'a> Case<'a> {
    fn of(story: &'a Story, thread: &'a Thread) -> Option<Case<'a>> {
        let number = thread.comm.strip_prefix("ksoftirqd/");
        let cpu = number.and_then(|n| n.parse().ok());
        let mut overruns = None;
        if let Some(number) = cpu {
            // Without a reading of softnet nobody knows what it waits for.
            let cpu = story.cpus.all().find(|c| c.number == number)?;
            if (cpu.squeezed as f64) < LEAST_OVERRUNS * thread.switches.max(1) as f64 {
                return None;
            }
            overruns = Some(Overruns {
                count: cpu.squeezed,
                rows: cpu.rows,
            });
        }
        let rivals = Rivals::of(story, thread, cpu).that_come_first();
        (rivals.explain_the_wait() && !story.conns.is_empty()).then_some(Case {
            story,
            thread,
            rivals,
            overruns,
        })
    }

    fn finding(&self) -> Finding {
        let checks = vec![self.rivals.check()];
        let risk = "What has a real-time priority has it for a reason: see what it needs first.";
        let first = self.rivals.others.first().map_or("others", |r| r.comm);
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: Lost::elsewhere(self.thread.waited_ns),
            since: None,
            episodes: Vec::new(),
            title: self.title(first),
            fix: format!(
                "Take {first} off {}, or let it stand back.",
                self.rivals.place()
            ),
            scope: Scope {
                resource: Some(self.rivals.place()),
                pid: Some(self.thread.tid),
                pids: vec![self.thread.tid],
                comm: Some(self.thread.comm.to_string()),
                ..Scope::default()
            },
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.rivals.advice(risk),
            verify: format!(
                "`tcpwhy stat threads` shows {} with next to nothing in column LAT, and requests \
                 no longer come in bursts.",
                self.thread.comm
            ),
        }
    }

    fn title(&self, first: &str) -> String {
        let (comm, place) = (&self.thread.comm, self.rivals.place());
        let share = percent(self.thread.waiting());
        fitting([
            format!(
                "Packets wait: {comm} wants {place} and waits {share} of the time, behind {first}."
            ),
            format!("Packets wait: {comm} waits {share} of the time for {place}."),
        ])
    }

    fn impact(&self) -> Impact {
        let n = self.story.conns.len() as u64;
        // A packet comes at any moment: of so many connections the first is late.
        let late = (n as f64 * self.thread.waiting()).ceil() as u64;
        let says = format!(
            "Packets that {} handles wait {} on average, {} of the time; {} were open or opened \
             meanwhile.",
            self.thread.comm,
            duration(self.thread.mean_wait_ns()),
            percent(self.thread.waiting()),
            plural(n, "connection")
        );
        Impact::of(late.min(n), n, "connections", says)
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "the scheduler itself told when {} was runnable and when it ran",
            self.thread.comm
        ));
        c.weigh_checks(checks);
        doubts(
            self.story,
            &mut c,
            &[SourceName::Profile, SourceName::Threads],
        );
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let what = format!("{} (tid {})", self.thread.comm, self.thread.tid);
        let mut steps = vec![thread_step(self.thread, &what)];
        steps.extend(self.overruns_step());
        steps.push(self.rivals.step());
        steps.extend(self.first_step());
        steps.extend(self.late_step());
        steps
    }

    /// Why it is packets that `ksoftirqd` waits for.
    fn overruns_step(&self) -> Option<Step> {
        let overruns = self.overruns.as_ref()?;
        let step = Step::new(format!(
            "The budget of a softirq on {} ran out {} with packets left: the rest is left to {}.",
            self.rivals.place(),
            plural(overruns.count, "time"),
            self.thread.comm
        ));
        Some(step.number("overruns", overruns.count).rows(overruns.rows))
    }

    /// Who comes first hardly waits.
    fn first_step(&self) -> Option<Step> {
        let first = self.rivals.others.first()?;
        let mut threads = self.story.threads.all();
        let thread = threads.find(|t| t.pid == first.pid)?;
        let step = Step::new(format!(
            "{} waited for a CPU for {} of the time: it comes first, as with a real-time priority.",
            thread.comm,
            percent(thread.waiting())
        ));
        Some(
            step.number("waiting_share", thread.waiting())
                .rows(thread.rows()),
        )
    }

    /// What was retransmitted because its acknowledgement was late.
    fn late_step(&self) -> Option<Step> {
        let conns = self.story.conns.iter();
        let resent: Vec<_> = conns
            .filter(|c| c.retransmits + c.syn_retries > 0)
            .collect();
        let n: u64 = resent
            .iter()
            .map(|c| u64::from(c.retransmits + c.syn_retries))
            .sum();
        (n > 0).then(|| {
            Step::new(format!(
                "{} retransmitted on {}: late is as good as lost to a timer.",
                plural(n, "segment"),
                plural(resent.len() as u64, "connection")
            ))
            .number("resent", n)
            .rows(resent.iter().filter_map(|c| c.row()).take(SHOWN_ROWS))
        })
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let squeezed: u64 = self.story.cpus.all().map(|c| c.squeezed).sum();
        let applications = self
            .story
            .threads
            .all()
            .filter(|t| !serves_softirq(&t.comm));
        let longest = applications.max_by_key(|t| t.waited_ns);
        let cpu_contention = match longest {
            Some(t) => format!(
                "the thread that waits is the kernel's; of the others {} waited longest, {} of \
                 the time",
                t.comm,
                percent(t.waiting())
            ),
            None => "the thread that waits is the kernel's".into(),
        };
        vec![
            RuledOut::new(Id::CPU_CONTENTION, cpu_contention),
            RuledOut::new(
                Id::LOOKUP_TABLE_GROWTH,
                format!(
                    "{} ran for {} of the time; the budget of a softirq ran out {} times",
                    self.thread.comm,
                    percent(self.thread.on_cpu_ns as f64 / self.thread.seen_ns.max(1) as f64),
                    count(squeezed)
                ),
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
