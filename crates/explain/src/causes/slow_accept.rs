//! C49: connections wait for accept() in a queue that never overflows.

use analysis::ProcessState;
use analysis::words::duration;

use crate::limits;
use crate::places::accept_waits::{self, AcceptWaits, waiting_samples};
use crate::programs;
use crate::stopped_by;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SLOW_ACCEPT,
    number: "C49",
    title: "the application is slow to accept connections",
    page: include_str!("slow_accept.md"),
    layer: Layer::Application,
    ground: Ground::Listeners,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "200 ms before accept() with a request waiting, seen in the queue; or 3 s in samples".into()
    },
    signature: &[
        "connect is fast and the first answer is delayed",
        "Recv-Q of the listening socket is above 0",
    ],
    rivals: &[
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::DESCRIPTORS_EXHAUSTED,
        Id::ACCEPT_IMBALANCE,
        Id::SLOW_APPLICATION,
        Id::CPU_CONTENTION,
    ],
    explains: &[],
    told_with: Some(ToldWith::Stop),
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| accept_waits::all(whole.story).iter().map(judge).collect(),
};

fn no(asked: &Asked) -> Option<Step> {
    let here = asked.listener()?;
    let (waiting, samples) = waiting_samples(here);
    let row = here.listener.fullest().map(|s| s.last_row);
    let looked = accept_waits::was_looked_at(here);
    // Samples one second apart miss waits of less than some seconds.
    let unseen =
        waiting == 0 && !looked && (1..limits::STALL.ns()).contains(&accept_waits::unread_ns(here));
    let none = samples > 0 && accept_waits::at(here).is_none() && !unseen;
    none.then(|| {
        say!(
            "no long wait for accept(): connections waited in {waiting} of {samples} of the listener",
            waiting = Quantity::count(waiting),
            samples = Quantity::of(samples, "sample").rows(row)
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let places = whole.listeners().map(|here| {
        let (waiting, samples) = waiting_samples(here);
        let looks = here.listener.socks.iter().filter_map(|s| s.longest_wait());
        let local = Quantity::new(here.address(), here.address());
        if let Some((longest, row)) = looks.max_by_key(|(ns, _)| *ns) {
            let step = say!(
                "no connection was seen waiting for accept() at {local} for longer than {longest_wait_ms}",
                local,
                longest_wait_ms = Quantity::ns(longest).rows([row])
            );
            return every([Test::lasts(longest, &limits::ACCEPT_WAIT_SEEN, step)]);
        }
        // Samples one second apart miss waits of less than some seconds.
        if waiting == 0 && accept_waits::unread_ns(here) > 0 {
            return Some(Answered::unknown(format!(
                "requests to {local} were unread, and samples do not show whether accept() or the reader was slow"
            )));
        }
        let step = say!(
            "connections waited for accept() at {local} in {waiting} of {samples}",
            local,
            waiting = Quantity::count(waiting).rows(here.listener.fullest().map(|s| s.last_row)),
            samples = Quantity::of(samples, "sample")
        );
        every([Test::events(waiting, samples, &limits::ONE, step)])
    });
    Verdict::nearest(places, "no listener was sampled")
}

fn judge(waits: &AcceptWaits) -> Finding {
    let (here, story) = (waits.here, waits.here.story);
    // The one that was late, of several processes that accept there.
    let holds = |pid: &u32| here.listener.holders.iter().any(|h| h.pid == *pid);
    let scope = match waits.reader().filter(holds) {
        Some(reader) => here.scope_about(reader),
        None => here.scope(),
    };
    let each = duration(waits.each_ns());
    let who = process(&scope);
    let at = &scope.listener;
    let state = culprit(&scope).map(|d| d.state);
    let is_stopped = matches!(
        state,
        Some(ProcessState::Stopped | ProcessState::WasStopped)
    );
    let why = match state {
        Some(ProcessState::Stopped) => ": it is stopped",
        Some(ProcessState::WasStopped) => ": it was stopped",
        Some(ProcessState::Blocked) => ": it is blocked in the kernel",
        Some(ProcessState::OnCpu) => ": it is out of CPU",
        _ => "",
    };
    let count = Quantity::of(waits.count(), "connection");
    let (rest, until) = if waits.still_wait() {
        (
            format!("has not accepted {count} for {each} on average{why}."),
            "for accept(), and still wait",
        )
    } else {
        (
            format!("took {each} on average to accept {count}{why}."),
            "before the server read their request",
        )
    };
    let outage = waits
        .outage
        .map_or(String::new(), |outage| outage.says(story) + " ");
    let impact = Impact::of(
        waits.count(),
        waits.of_all(),
        "connections",
        format!(
            "{outage}{count} of {} waited {each} on average {until}.",
            Quantity::count(waits.of_all())
        ),
    );
    Case::new(story, CAUSE, scope.clone())
        .placed(waits.place())
        .if_asked(waits.ids(), false)
        .since(waits.since())
        .title([
            format!("{who} at {at} {rest}"),
            format!("{who} {rest}"),
            format!("{at}: {count} wait {each} for accept(){why}."),
        ])
        .fix([
            programs::at_its_limit(&scope).unwrap_or_else(|| fix(story, &who, scope.pid, state)),
            format!("Make {} call accept() sooner.", application(&scope)),
        ])
        .affects(impact, waits.lost())
        .because("the wait of each connection was measured, or sampled, at its own socket")
        .at_most_if(
            Level::Medium,
            scope.pid.is_none(),
            "the owner of the listener is unknown",
        )
        .steps([waits.step(), waits.queue_step()])
        .steps(waits.seen_step())
        .steps(culprit(&scope).map(|doing| {
            Step::new(format!(
                "{} (pid {}): {}.",
                doing.comm, doing.pid, doing.says
            ))
            .rows(here.holder_rows(scope.pid))
        }))
        .steps(is_stopped.then(|| stopped_by::step(story, scope.pid)).flatten())
        .steps(waits.outage.and_then(|outage| outage.asleep(here)))
        .claim_checked(waits.check())
        .advise(advice(&scope, state, waits))
        .verify(sentence!("Under the same load `ss -ltn 'sport = :{port}'` shows a Recv-Q of 0 almost always, and \
             `tcpwhy stat requests` no time before accept().", port = here.listener.local.port))
}

fn fix(story: &Story, who: &str, pid: Option<u32>, state: Option<ProcessState>) -> String {
    match state {
        Some(ProcessState::Stopped) => stopped_by::fix(story, who, pid, true),
        Some(ProcessState::WasStopped) => stopped_by::fix(story, who, pid, false),
        Some(ProcessState::OnCpu) => {
            format!("Start more workers of {who} that accept, or give it more CPU.")
        }
        _ => format!("Make {who} call accept() as soon as a connection waits."),
    }
}

fn advice(scope: &Scope, state: Option<ProcessState>, waits: &AcceptWaits) -> [Advice; 2] {
    let who = process(scope);
    let stopped = scope.pid.filter(|_| state == Some(ProcessState::Stopped));
    let command = match (stopped, scope.pid) {
        (Some(pid), _) => shell!("kill -CONT {pid}", pid),
        (None, Some(pid)) => shell!("tcpwhy trace wakeups 100ms --pid {pid}", pid),
        (None, None) => None,
    };
    let action = match (stopped, state) {
        (Some(_), _) => format!("Resume {who}, unless a debugger stopped it."),
        (None, Some(ProcessState::OnCpu)) => {
            format!("See what {who} does with its CPU between two accept() calls.")
        }
        _ => format!("See what {who} waits for between two accept() calls, and accept first."),
    };
    let listener = scope.listener.clone();
    [
        Advice::to(action)
            .by(command)
            .undo(stopped.and_then(|pid| shell!("kill -STOP {pid}", pid)))
            .at(format!("{who} in {}", namespace(&scope.netns)))
            .risk("None for TCP; the application handles more connections at a time.")
            .effect(format!(
                "Each connection is served {} sooner on average. A larger backlog would not help: connections \
                 would wait in it as long.",
                duration(waits.each_ns())
            ))
            .change(Change::AcceptFaster { listener }),
        Advice::to(format!(
            "Or have {} accept in a dedicated thread, or in more workers.",
            application(scope)
        ))
        .at("the application's source or configuration")
        .risk("More connections are active at a time; shared resources (a database) get more load.")
        .effect("A busy worker no longer delays new connections."),
    ]
}

#[cfg(test)]
pub(crate) mod tests;
