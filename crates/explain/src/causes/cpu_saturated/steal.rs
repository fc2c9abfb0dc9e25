//! The hypervisor gave the CPUs of this host to others: steal.

use std::collections::BTreeMap;

use analysis::CpuTimes;
use analysis::account;
use analysis::words::{duration, percent};

use super::CAUSE;
use crate::limits;
use crate::vocabulary::*;

pub(super) fn find(story: &Story) -> Option<Finding> {
    let cpus: Vec<_> = story.cpus.all().collect();
    let sum = |all: CpuTimes, one: CpuTimes| all.and(one);
    let spent = cpus.iter().map(|c| c.spent).fold(CpuTimes::default(), sum);
    // As a share of what the host wanted: an idle CPU is not stolen.
    let wanted = spent.busy_ms();
    let share = spent.steal_ms as f64 / wanted.max(1) as f64;
    let of_time = spent.steal_ms as f64 / spent.total_ms().max(1) as f64;
    if of_time < limits::SMALL_PART.share() || spent.steal_ms < limits::STEAL.ms() {
        return None;
    }
    let rows = cpus.iter().flat_map(|c| c.rows).take(2 * SHOWN_ROWS);
    let conns = story.conns.iter();
    let mut on_cpu: BTreeMap<u32, u64> = BTreeMap::new();
    for thread in story.threads.all() {
        let sum = on_cpu.entry(thread.pid).or_default();
        *sum = sum.saturating_add(thread.on_cpu_ns());
    }
    let mut lost = Lost::unknown();
    let mut n = 0;
    for conn in conns.filter(|c| c.side != Side::Opened) {
        n += 1;
        // Where both ends are here, the caller's time counts.
        let caller = conn.peer.and_then(|id| story.conn(id));
        let (of, states) = match caller {
            Some(caller) => (caller, &[State::Awaiting][..]),
            None => (conn, &[State::Unaccepted, State::Unread, State::Owing][..]),
        };
        // A sleeping thread is not kept off a CPU, however long an answer is owed.
        let server = story.owner(conn).and_then(|(pid, _)| on_cpu.get(&pid));
        let most = server.map_or(f64::MAX, |ns| *ns as f64 * share / (1.0 - share).max(0.01));
        let spent = account::of_end(story, of);
        let spent: u64 = states.iter().map(|state| spent.of(*state)).sum();
        let share = share.min(most / spent.max(1) as f64);
        lost = lost.and(Lost::states(story, [of], states, share));
    }
    if n == 0 {
        return None;
    }
    let scope = Scope {
        resource: Some("CPUs (steal)".into()),
        ..Scope::default()
    };
    let stolen = percent(of_time);
    let numbers = cpus.iter().map(|c| c.number).collect();
    let says = format!(
        "{} to this host: the programs that serve them take {} longer than they need.",
        Quantity::of(n, "connection"),
        percent(share / (1.0 - share).max(0.01))
    );
    let steps = [
        say!(
            "The CPUs of this host had work for {wanted_ms}: the hypervisor gave {steal_ms} of that to \
             others ({steal_share}).",
            wanted_ms = Quantity::ns(wanted.saturating_mul(1_000_000)),
            steal_ms = Quantity::ns(spent.steal_ms.saturating_mul(1_000_000)).rows(rows),
            steal_share = Quantity::share(share)
        ),
        say!(
            "They were idle for {idle_share} of the time.",
            idle_share =
                Quantity::share(spent.nothing_ms() as f64 / spent.total_ms().max(1) as f64)
        ),
    ];
    let case = Case::new(story, CAUSE, scope)
        .layer(Layer::ThisHost)
        .placed(Place::Cpus(numbers))
        .title([format!(
            "The hypervisor takes {stolen} of the time of this host's CPUs (steal)."
        )])
        .fix([
            "Move this virtual machine to a host with room, or to a size without a CPU credit."
                .into(),
        ])
        .affects(Impact::of(n, n, "connections", says), lost)
        .because("the hypervisor itself counts what it takes")
        .rests_on(&[SourceName::Cpus])
        .steps(steps)
        .advise([Advice::to(
            "Ask for another physical host, or for dedicated CPUs: nothing within this host helps.",
        )
        .by(shell!("vmstat 1 10"))
        .at("the operator of the hypervisor; the command shows column st")
        .risk("A move interrupts the machine briefly; the command only looks.")
        .effect(format!(
            "{} of CPU time come back per second.",
            duration((spent.steal_ms as f64 * 1e6 / story.seconds().max(1e-9)) as u64)
        ))
        .change(Change::MoreCpus { pid: None })]);
    Some(case.verify("Column `st` of `vmstat 1` stays below 5."))
}

/// How much the hypervisor gave to others.
pub(super) fn refuted(story: &Story) -> Option<Answered> {
    let spent = story.cpus.all().map(|c| c.spent);
    let spent = spent.fold(CpuTimes::default(), CpuTimes::and);
    let rows = story.cpus.all().flat_map(|c| c.rows).take(SHOWN_ROWS);
    let step = say!(
        "the hypervisor gave {steal_ms} of {total_ms} of its CPUs' time to others",
        total_ms = Quantity::ns(spent.total_ms().saturating_mul(1_000_000)),
        steal_ms = Quantity::ns(spent.steal_ms.saturating_mul(1_000_000)).rows(rows)
    );
    every([Test::share(
        spent.steal_ms,
        spent.total_ms(),
        &limits::SMALL_PART,
        step,
    )])
}
