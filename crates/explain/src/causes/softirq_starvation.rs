//! C16: the kernel's thread that handles packets waits for a CPU.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Thread;
use analysis::heartbeats::late_ns;
use analysis::profile::samples;
use analysis::words::{duration, percent};
use recording::tables::Gap;

use crate::limits;
use crate::places::runqueue::{Rivals, serves_softirq, thread_step};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SOFTIRQ_STARVATION,
    number: "C16",
    title: "packets wait until the kernel gets a CPU",
    page: include_str!("softirq_starvation.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[&[SourceName::Threads]],
    seen_from: || "ksoftirqd runnable 10 % of the time, 200 ms in total".into(),
    signature: &[
        "ksoftirqd at 100 %",
        "all connections stall together for tens of milliseconds",
        "time_squeeze rises in softnet_stat",
    ],
    rivals: &[Id::CPU_CONTENTION, Id::LOOKUP_TABLE_GROWTH],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| places(whole.story).iter().map(judge).collect(),
};

/// A thread of the kernel that waits.
struct Starved<'a> {
    story: &'a Story,
    thread: &'a Thread,
    rivals: Rivals<'a>,
    /// For `ksoftirqd`: how often a softirq of its CPU left packets to it.
    overruns: Option<Quantity>,
}

fn no(asked: &Asked) -> Option<Step> {
    if !asked.story.health.has(&SourceName::Threads) {
        return nobody_ahead(asked.story);
    }
    let threads = asked.story.threads.all();
    let serving: Vec<&Thread> = threads.filter(|t| serves_softirq(&t.comm)).collect();
    let waited = serving.iter().map(|t| t.waited_ns()).sum::<u64>();
    let rows = serving.iter().flat_map(|t| t.rows()).take(SHOWN_ROWS);
    let softirq_waited = Quantity::ns(waited).rows(rows);
    if serving.iter().any(|t| waits(t)) {
        return behind_equals(asked.story, &serving, softirq_waited);
    }
    let threads = asked.story.threads.all();
    let longest = match asked.place {
        Place::Process(pid) => threads
            .filter(|t| t.pid == *pid)
            .max_by_key(|t| t.waited_ns()),
        _ => None,
    };
    Some(match longest.map(|t| (&t.comm, t.waited_ns())) {
        Some((comm, waited_ns)) => say!(
            "the kernel's packet threads waited {softirq_waited} for a CPU in total, {comm} {waited}",
            softirq_waited,
            waited = Quantity::ns(waited_ns)
        ),
        None => say!(
            "the kernel's packet threads waited {softirq_waited} for a CPU in total",
            softirq_waited
        ),
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let threads = whole
        .story
        .threads
        .all()
        .filter(|t| serves_softirq(&t.comm));
    let places = threads.map(|thread| {
        let says = || {
            say!(
                "{comm} waited for a CPU for {softirq_waited}, {waiting_share} of the time, {mean_wait_ms} each",
                comm = Quantity::new(&*thread.comm, &*thread.comm),
                softirq_waited = Quantity::ns(thread.waited_ns()).rows(thread.rows()),
                waiting_share = Quantity::share(thread.waiting()),
                mean_wait_ms = Quantity::ns(thread.mean_wait_ns())
            )
        };
        let obvious = thread.waiting() >= limits::CONTENDED_SHARE.share();
        let mean = Test::lasts(thread.mean_wait_ns(), &limits::STARVED_MEAN, says());
        let waits = [
            Test::lasts(thread.waited_ns(), &limits::NOTICED, says()),
            Test::from(thread.waiting(), &limits::SMALL_PART, says()),
        ];
        every(waits.into_iter().chain((!obvious).then_some(mean)))
    });
    Verdict::nearest(places, "no kernel thread for packets was seen")
}

/// They wait, but not behind higher-priority work.
fn behind_equals(story: &Story, serving: &[&Thread], softirq_waited: Quantity) -> Option<Step> {
    let waiting = serving.iter().filter(|t| waits(t));
    let ahead = waiting.map(|t| Rivals::of(story, t, own_cpu(t)).that_come_first());
    let ahead: Vec<Rivals> = ahead.collect();
    let behind: u64 = ahead.iter().map(Rivals::explained_ns).sum();
    (!ahead.iter().any(Rivals::explain_the_wait)).then(|| {
        say!(
            "the kernel's packet threads waited {softirq_waited} for a CPU in total, {behind} of it behind \
             higher-priority work",
            softirq_waited,
            behind = Quantity::ns(behind)
        )
    })
}

/// Where threads were not recorded: what keeps the kernel from its work runs outside of it.
fn nobody_ahead(story: &Story) -> Option<Step> {
    let busy = story.profile.groups.iter().filter(|g| !g.is_idle());
    let outside = samples(busy.clone().filter(|g| !g.in_kernel()));
    let of = samples(busy);
    (!limits::SMALL_PART.reached(outside, of)).then(|| {
        say!(
            "{outside_kernel} of {busy_samples} were outside the kernel: nothing delayed it",
            outside_kernel = Quantity::count(outside),
            busy_samples = Quantity::of(of, "busy sample")
        )
    })
}

/// The CPU that a thread is bound to, from its name.
fn own_cpu(thread: &Thread) -> Option<u32> {
    thread.comm.strip_prefix("ksoftirqd/")?.parse().ok()
}

/// Whether a packet-handling thread waits long enough to matter.
fn waits(thread: &Thread) -> bool {
    thread.waited_ns() >= limits::NOTICED.ns()
        && thread.waiting() >= limits::SMALL_PART.share()
        && (thread.mean_wait_ns() >= limits::STARVED_MEAN.ns()
            || thread.waiting() >= limits::CONTENDED_SHARE.share())
}

fn places(story: &Story) -> Vec<Starved<'_>> {
    let serving = story.threads.all().filter(|t| serves_softirq(&t.comm));
    let mut waiting: Vec<&Thread> = serving.filter(|t| waits(t)).collect();
    waiting.sort_by_key(|t| std::cmp::Reverse(t.waited_ns()));
    waiting.truncate(MAX_PER_CAUSE);
    let starved = waiting.into_iter().filter_map(|t| Starved::of(story, t));
    // The thread that waits most, of several behind the same process.
    let mut places = BTreeSet::new();
    let first = starved.filter(|s| places.insert(s.rivals.place()));
    first.collect()
}

fn judge(starved: &Starved) -> Finding {
    let Starved {
        story,
        thread,
        rivals,
        ..
    } = starved;
    let (comm, place, ahead) = (&thread.comm, rivals.place(), rivals.ahead());
    let share = percent(thread.waiting());
    let scope = Scope {
        resource: Some(place.clone()),
        pid: Some(thread.tid),
        pids: vec![thread.tid],
        comm: Some(comm.to_string()),
        ..Scope::default()
    };
    Case::new(story, CAUSE, scope)
        .placed(Place::Cpus(rivals.cpus.clone()))
        .title([
            format!("Packets wait: {comm} waits {share} of the time for {place}, behind {ahead}."),
            format!("Packets wait: {comm} waits {share} of the time for {place}."),
        ])
        .fix([if rivals.may_yield() {
            format!("Move {ahead} off {place}, or run it under SCHED_IDLE.")
        } else {
            format!("Have packets handled on another CPU than {place}.")
        }])
        .affects(starved.impact(), Lost::elsewhere(thread.waited_ns()))
        .because(format!(
            "runnable and running times of {comm} come from sched_switch"
        ))
        .rests_on(&[SourceName::Profile])
        .steps([thread_step(thread, &format!("{comm} (tid {})", thread.tid))])
        .steps(starved.overruns_step())
        .steps([rivals.step()])
        .steps(starved.first_step())
        .steps(starved.late_step())
        .steps(starved.heartbeats_step())
        .checks([rivals.check()])
        .advise(starved.advice())
        .verify(sentence!(
            "`tcpwhy stat threads` shows {comm} with almost nothing in column LAT, and requests no \
             longer arrive in bursts.",
            comm
        ))
}

impl<'a> Starved<'a> {
    fn of(story: &'a Story, thread: &'a Thread) -> Option<Starved<'a>> {
        let cpu = own_cpu(thread);
        let mut overruns = None;
        if let Some(number) = cpu {
            // Without a softnet reading it is unknown what it waits for.
            let cpu = story.cpus.all().find(|c| c.number == number)?;
            if (cpu.squeezed as f64) < limits::MOST.share() * thread.switches.max(1) as f64 {
                return None;
            }
            overruns = Some(Quantity::of(cpu.squeezed, "time").rows(cpu.rows));
        }
        let rivals = Rivals::of(story, thread, cpu).that_come_first();
        (rivals.explain_the_wait() && !story.conns.is_empty()).then_some(Starved {
            story,
            thread,
            rivals,
            overruns,
        })
    }

    fn impact(&self) -> Impact {
        let n = self.story.conns.len() as u64;
        // A packet may come at any moment: this share of the connections gets its first one late.
        let late = (n as f64 * self.thread.waiting()).ceil() as u64;
        let says = format!(
            "{} was runnable but not running for {} of the time, {} on average; {} were open or \
             opened meanwhile.",
            self.thread.comm,
            percent(self.thread.waiting()),
            duration(self.thread.mean_wait_ns()),
            Quantity::of(n, "connection")
        );
        Impact::of(late.min(n), n, "connections", says)
    }

    /// Why `ksoftirqd` waits for packets and not for other work.
    fn overruns_step(&self) -> Option<Step> {
        let overruns = self.overruns.as_ref()?;
        let (place, comm) = (self.rivals.place(), &self.thread.comm);
        Some(say!(
            "The budget of a softirq on {place} ran out {overruns} with packets pending: {comm} handles the rest.",
            overruns
        ))
    }

    /// Higher-priority work almost never waits.
    fn first_step(&self) -> Option<Step> {
        let first = self.rivals.others.first()?;
        let mut threads = self.story.threads.all();
        let thread = threads.find(|t| t.pid == first.pid)?;
        let comm = &thread.comm;
        Some(say!(
            "{comm} waited for a CPU for {waiting_share} of the time: it runs first, as with a real-time priority.",
            waiting_share = Quantity::share(thread.waiting()).rows(thread.rows())
        ))
    }

    /// What was retransmitted because its acknowledgement was late.
    fn late_step(&self) -> Option<Step> {
        let again = |c: &Conn| u64::from(c.retransmits + c.syn_retries);
        let conns = self.story.conns.iter();
        let resent: Vec<&Conn> = conns.filter(|c| again(c) > 0).collect();
        let n: u64 = resent.iter().map(|c| again(c)).sum();
        let connections = Quantity::of(resent.len() as u64, "connection");
        let rows = resent.iter().filter_map(|c| c.row()).take(SHOWN_ROWS);
        (n > 0).then(|| {
            say!(
                "{resent} retransmitted on {connections}: to a timer a delayed packet is a lost one.",
                resent = Quantity::of(n, "segment").rows(rows)
            )
        })
    }

    /// What had come at regular intervals, and came late there. What never came may never have been sent.
    fn heartbeats_step(&self) -> Option<Step> {
        let mut flows: BTreeMap<_, Vec<(RowRef, &Gap)>> = BTreeMap::new();
        let gaps = self.story.heartbeats.gaps();
        for (at, gap) in gaps.filter(|(_, g)| !g.pending && self.rivals.cpus.contains(&g.cpu)) {
            let from = Endpoint::new(gap.remote_addr, gap.remote_port);
            flows.entry((from, gap.sock)).or_default().push((at, gap));
        }
        let latest = |gaps: &[(RowRef, &Gap)]| gaps.iter().map(|(_, g)| late_ns(g)).max();
        let others = flows.len().saturating_sub(1) as u64;
        let ((from, _), gaps) = flows.into_iter().max_by_key(|(_, gaps)| latest(gaps))?;
        let rows = gaps.iter().map(|(at, _)| *at).take(SHOWN_ROWS);
        let late = Quantity::of(gaps.len() as u64, "heartbeat").rows(rows);
        let (most, every) = (latest(&gaps)?, gaps.first()?.1.every_ns);
        let up_to = if gaps.len() > 1 { "up to " } else { "" };
        let (place, most) = (self.rivals.place(), Quantity::ns(most));
        let every = duration(every);
        Some(match others {
            0 => say!(
                "{late} from {from} (every {every}) arrived {up_to}{latest} late on {place}.",
                late,
                latest = most
            ),
            n => say!(
                "{late} from {from} (every {every}) arrived {up_to}{latest} late on {place}, as did those of \
                 {others}.",
                late,
                latest = most,
                others = Quantity::of(n, "other flow")
            ),
        })
    }

    fn advice(&self) -> Vec<Advice> {
        if self.rivals.may_yield() {
            return self.rivals.stand_back(
                "A real-time priority may have a reason: find out what it needs first.",
            );
        }
        let place = self.rivals.place();
        let elsewhere = Advice::to(format!(
            "Handle the packets of {} on another CPU than {place}: spread the device's interrupts, or set RPS.",
            self.thread.comm
        ))
        .by(shell!("grep -H . /sys/class/net/*/queues/rx-*/rps_cpus"))
        .at("the host; the command shows which CPUs handle the packets of each queue")
        .risk("Packets handled on another CPU than their application's cost more cache misses.")
        .effect(format!(
            "{} on {place} need not yield, and no longer delays them.",
            self.rivals.ahead()
        ));
        vec![elsewhere]
    }
}

#[cfg(test)]
mod tests;
