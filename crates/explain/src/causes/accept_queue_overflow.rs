//! C04: connections wait for accept() until the queue is full, and further ones are dropped.

mod advice;
mod standing;

use self::standing::Standing;

use analysis::words::{count, duration, figure, plural};
use analysis::{ProcessState, Rise};

use crate::limits;
use crate::moment::{Began, Since};
use crate::places::listener::{ListenerPlace, listener_places};
use crate::places::lost_syn::ConnectTimes;
use crate::places::outage::Outage;
use crate::programs;
use crate::stopped_by;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::ACCEPT_QUEUE_OVERFLOW,
    number: "C04",
    title: "the accept queue is full",
    page: include_str!("accept_queue_overflow.md"),
    layer: Layer::Application,
    ground: Ground::Listeners,
    needs: LISTENER_DROPS,
    seen_from: || "5 dropped SYNs or last ACKs; or a queue that is full throughout".into(),
    signature: &[
        "connect takes exactly 1, 2 or 3 s (or 1, 3, 7 s) under load",
        "connect is fast and the first request hangs",
        "ListenOverflows or ListenDrops rises in nstat",
    ],
    rivals: &[
        Id::SYN_QUEUE_OVERFLOW,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
        Id::DESCRIPTORS_EXHAUSTED,
        Id::ACCEPT_IMBALANCE,
    ],
    explains: &[
        Id::SYN_QUEUE_OVERFLOW,
        Id::SLOW_ACCEPT,
        Id::SLOW_APPLICATION,
    ],
    told_with: Some(ToldWith::Stop),
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |whole| {
        let story = whole.story;
        listener_places(story)
            .filter_map(Overflow::of)
            .map(|o| o.judge())
            .collect()
    },
};

/// A listener whose accept queue overflowed.
struct Overflow<'a> {
    here: ListenerPlace<'a>,
    /// SYNs and last ACKs that its full queue dropped.
    dropped: u64,
    overflows: Rise,
    times: ConnectTimes,
    /// When no connection got through because its queue was full.
    outage: Option<Outage>,
    /// The standing queue, if so little was dropped that nothing else shows the overflow.
    standing: Option<Standing>,
}

fn no(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    let Some(here) = place.listener_place() else {
        return place.dropped_on_the_way().or_else(|| asked.answered());
    };
    let local = here.listener.local;
    let holds = dropped(here).is_some() || Standing::of(here).is_some();
    (!holds && here.is_counted()).then(|| {
        say!(
            "ListenOverflows rose by {listen_overflows} and ListenDrops by {listen_drops} in the namespace \
             of {local}",
            listen_overflows = here.risen(counter::LISTEN_OVERFLOWS),
            listen_drops = here.risen(counter::LISTEN_DROPS)
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let places = whole.listeners().map(|here| {
        let local = here.listener.local;
        if here.listener.socks.iter().any(|s| s.stood_full()) {
            return Some(Answered::unknown(format!(
                "the accept queue of {local} was full in every sample; for how long is not known"
            )));
        }
        if !here.is_counted() {
            return Some(Answered::unknown(format!(
                "no counter was read in the namespace of {local}"
            )));
        }
        let n = drops(here);
        let of = here.accepted().saturating_add(n);
        let step = say!(
            "the full accept queue of {local} dropped {dropped} of {arrived} (ListenOverflows rose by \
             {listen_overflows})",
            dropped = Quantity::count(n),
            arrived = Quantity::of(of, "connection"),
            listen_overflows = here.risen(counter::LISTEN_OVERFLOWS)
        );
        every([Test::events(n, of, &limits::OFTEN, step)])
    });
    Verdict::nearest(places, NO_ARRIVAL)
}

/// How much the full accept queue dropped, if it is more than a burst at a start.
fn dropped(here: ListenerPlace) -> Option<u64> {
    let dropped = drops(here);
    (dropped >= limits::OFTEN.count()).then_some(dropped)
}

/// The same, however few.
fn drops(here: ListenerPlace) -> u64 {
    let overflows = here.rise(counter::LISTEN_OVERFLOWS).by;
    match here.listener.drops() {
        // Several listeners may share the namespace's counter: each has its own drops.
        Some(own) if overflows > 0 && !here.is_beside_a_full_one() => own.min(overflows),
        // Not sampled, or not counted: only the late ACKs identify the listener.
        _ => here.ghosts().0,
    }
}

impl<'a> Overflow<'a> {
    fn of(here: ListenerPlace<'a>) -> Option<Overflow<'a>> {
        let dropped = dropped(here);
        let standing = match dropped {
            Some(_) => None,
            None => Some(Standing::of(here)?),
        };
        let times = ConnectTimes::of(here);
        let outage = Outage::of(here).filter(|outage| {
            let mut delayed = here.story.all(times.delayed_ids());
            delayed.any(|(_, c)| outage.keeps_connecting(c))
        });
        Some(Overflow {
            here,
            standing,
            dropped: dropped.unwrap_or(0),
            overflows: here.rise(counter::LISTEN_OVERFLOWS),
            times,
            outage,
        })
    }

    fn judge(&self) -> Finding {
        let (here, story) = (self.here, self.here.story);
        let scope = here.scope();
        let (crowded, samples) = here.listener.crowded_samples();
        let (rose, sampled) = (self.overflows.by, here.listener.drops().is_some());
        let rests_on: &[SourceName] = match self.times.total() {
            0 => &[],
            _ => &[SourceName::States, SourceName::Retransmits],
        };
        let standing = self.standing.as_ref();
        let (impact, lost) = match standing {
            Some(standing) => (standing.impact(), standing.lost(story)),
            None => (
                self.impact(),
                self.times
                    .lost(story, self.dropped)
                    .in_outage(self.outage.map(|o| o.ns())),
            ),
        };
        let mut case = Case::new(story, CAUSE, scope.clone());
        let since = match standing {
            Some(standing) => Some(standing.since(story)),
            None => self.since_its_outage(),
        };
        if let Some(since) = since {
            case = case.since(since);
        }
        case.placed(Place::Listener(here.index))
            .title(self.title(&scope))
            .fix(self.fix(&scope))
            .affects(impact, lost)
            .because(match standing {
                Some(standing) => standing.says(),
                None => format!(
                    "ListenOverflows, which rises only when an accept queue is full, rose by {}; the queue \
                     was at least three quarters full in {} of {}",
                    Quantity::count(rose),
                    Quantity::count(crowded),
                    Quantity::of(samples, "sample")
                ),
            })
            .at_most_if(
                Level::Medium,
                standing.is_some(),
                "no client was seen to be turned away during the recording",
            )
            .at_most_if(
                Level::Medium,
                standing.is_none() && rose == 0,
                "the counter ListenOverflows was not seen to rise; dropped ACKs show it",
            )
            .at_most_if(
                Level::Medium,
                !sampled,
                "the listener itself was not sampled",
            )
            .rests_on(rests_on)
            .steps(self.times.step())
            .steps(standing.map(Standing::step))
            .steps(standing.is_none().then(|| self.drops_step()))
            .steps(self.queue_step(&scope))
            .steps(self.process_step(&scope))
            .steps(
                culprit(&scope)
                    .filter(|doing| {
                        matches!(doing.state, ProcessState::Stopped | ProcessState::WasStopped)
                    })
                    .and_then(|doing| stopped_by::step(self.here.story, Some(doing.pid))),
            )
            .steps(self.outage.and_then(|outage| outage.asleep(self.here)))
            .steps(self.rates_step())
            .steps(self.ghosts_step())
            .steps(self.consequence_step())
            .checks(self.times.checks(here, self.limit()))
            .advise(self.advice(&scope))
            .verify(sentence!("Under the same load `nstat -az TcpExtListenOverflows` no longer rises, and \
                 `ss -ltn 'sport = :{port}'` shows Recv-Q below Send-Q.", port = here.listener.local.port))
    }

    fn title(&self, scope: &Scope) -> [String; 4] {
        let does = culprit(scope).map(|p| (p.pid, p.state));
        let why = match (does, self.sustained(scope)) {
            (Some((pid, ProcessState::Stopped)), _) => format!(": pid {pid} is stopped"),
            (Some((pid, ProcessState::WasStopped)), _) => format!(": pid {pid} was stopped"),
            (Some((pid, ProcessState::Blocked)), _) => {
                format!(": pid {pid} is blocked in the kernel")
            }
            (Some((pid, ProcessState::OnCpu)), _) => format!(": pid {pid} is out of CPU"),
            _ if self.standing.is_some() => ": nothing is accepted".into(),
            (_, true) => ": it accepts too slowly".into(),
            (_, false) => " in bursts".into(),
        };
        let backlog = match scope.backlog {
            Some(b) => format!(" (backlog {})", count(b.into())),
            None => String::new(),
        };
        let (long, short) = (named(scope), named_short(scope));
        [
            format!("{long}: its accept queue{backlog} is full{why}."),
            format!("{short}: its accept queue{backlog} is full{why}."),
            format!("{short}: accept queue full{why}."),
            format!("{}: accept queue full{why}.", scope.listener),
        ]
    }

    fn fix(&self, scope: &Scope) -> [String; 2] {
        let who = process(scope);
        let one = |says: String| [says.clone(), says];
        if let Some(says) = programs::at_its_limit(scope) {
            return one(says);
        }
        match (culprit(scope).map(|p| p.state), self.sustained(scope)) {
            (Some(ProcessState::WasStopped), _) => {
                one(stopped_by::fix(self.here.story, &who, scope.pid, false))
            }
            (Some(ProcessState::Stopped), _) => {
                one(stopped_by::fix(self.here.story, &who, scope.pid, true))
            }
            (_, true) => [
                format!("Make {who} call accept() sooner; a larger backlog only absorbs bursts."),
                format!("Make {who} call accept() sooner."),
            ],
            (_, false) => one(format!(
                "Raise the listen() backlog of {who} to {}.",
                count(self.new_backlog(scope).into())
            )),
        }
    }

    /// The queue stays full, or the process cannot accept: not a burst.
    fn sustained(&self, scope: &Scope) -> bool {
        let (crowded, samples) = self.here.listener.crowded_samples();
        let stuck = [
            ProcessState::Stopped,
            ProcessState::WasStopped,
            ProcessState::Blocked,
            ProcessState::OnCpu,
        ];
        let stuck = culprit(scope).is_some_and(|p| stuck.contains(&p.state));
        crowded > 0 && (stuck || limits::MOST.reached(crowded, samples))
    }

    /// Arrivals and accepts per second; `None` when no client is on this host, because a retransmitted SYN cannot be
    /// told from a new one.
    fn rates(&self) -> Option<(f64, f64)> {
        let began = &self.times.began;
        let first = *began.iter().min()?;
        let accepted = self.here.story.all(&self.here.listener.accepted);
        let last = accepted
            .map(|(_, c)| c.start_ns)
            .chain(began.iter().copied());
        let ns = last.max().unwrap_or(first).saturating_sub(first);
        let seconds = (ns as f64 / 1e9).max(1.0);
        let grown = self.here.listener.queue_growth();
        let established = i64::try_from(self.here.accepted()).unwrap_or(i64::MAX);
        let taken = established.saturating_sub(grown).max(0);
        Some((self.times.total() as f64 / seconds, taken as f64 / seconds))
    }

    fn drops_step(&self) -> Step {
        let own = self.here.listener.drops();
        let drops = self.here.rise(counter::LISTEN_DROPS);
        let own_says = match own {
            Some(n) => format!("this listener's own count rose by {}", count(n)),
            None => "this listener was not sampled".into(),
        };
        Step::new(format!(
            "Its namespace dropped {} because an accept queue was full (ListenOverflows), and {} at \
             listeners in total (ListenDrops); {own_says}.",
            plural(self.overflows.by, "packet"),
            count(drops.by)
        ))
        .number(counter::short(counter::LISTEN_OVERFLOWS), self.overflows.by)
        .number(counter::short(counter::LISTEN_DROPS), drops.by)
        .number_if("listener_drops", own)
        .rows(self.overflows.rows())
        .rows(self.here.listener.fullest().map(|s| s.last_row))
        .rows(self.here.ghosts().1)
    }

    fn queue_step(&self, scope: &Scope) -> Option<Step> {
        let sock = self.here.listener.fullest()?;
        let (longest, row) = sock.longest_accept_queue;
        let (crowded, samples) = self.here.listener.crowded_samples();
        let somaxconn = self.here.setting(sysctl::SOMAXCONN);
        let cut = match somaxconn {
            Some(max) if u64::from(sock.backlog) == max => ", capped by net.core.somaxconn",
            _ => "",
        };
        let start = self.here.story.start_ns;
        let when = match self.here.listener.crowded_ns() {
            Some((first, last)) if last > first => format!(
                ", from {} to {} after the start",
                duration(first.saturating_sub(start)),
                duration(last.saturating_sub(start)),
            ),
            _ => String::new(),
        };
        let step = Step::new(format!(
            "Up to {} waited for accept(); the backlog that {} passed to listen() is {}{cut}. The queue \
             was at least three quarters full in {} of {}{when}.",
            plural(longest.into(), "connection"),
            application(scope),
            count(sock.backlog.into()),
            count(crowded),
            plural(samples, "sample")
        ))
        .number("longest_accept_queue", longest)
        .number("backlog", sock.backlog)
        .number_if("somaxconn", somaxconn)
        .number("crowded_samples", crowded)
        .number("samples", samples)
        .rows([row])
        .rows(self.here.call_row());
        Some(step)
    }

    fn process_step(&self, scope: &Scope) -> Option<Step> {
        let doing = culprit(scope)?;
        let mut says = format!("{} (pid {}): {}.", doing.comm, doing.pid, doing.says);
        let others: Vec<_> = scope
            .processes
            .iter()
            .filter(|p| p.pid != doing.pid)
            .collect();
        if !others.is_empty() {
            let shown = others
                .iter()
                .take(4)
                .map(|p| format!("{} {}", p.pid, p.state));
            let shown: Vec<String> = shown.collect();
            let more = match others.len() {
                n if n > 4 => format!(" and {} more", n - 4),
                _ => String::new(),
            };
            says += &format!(" The socket is also held by {}{more}.", shown.join(", "));
        }
        let step = Step::new(says)
            .number("pid", doing.pid)
            .number("state", doing.state.to_string())
            .number_if("cpu_share", doing.cpu_share)
            .rows(self.here.holder_rows(scope.pid));
        Some(step)
    }

    /// Clients that take turns are few, and all of them hang while nothing is accepted.
    fn impact(&self) -> Impact {
        let mut impact = self.times.impact(self.dropped, self.here.accepted());
        if let Some(outage) = self.outage {
            impact.says = format!("{} {}", outage.says(self.here.story), impact.says);
        }
        impact
    }

    /// When it stopped accepting, if those that came meanwhile account for most of the waiting: a burst that overflowed
    /// the queue earlier is not the beginning.
    fn since_its_outage(&self) -> Option<Since> {
        let (outage, story) = (self.outage?, self.here.story);
        let (mut all_ns, mut meanwhile_ns) = (0, 0);
        for (_, conn) in story.all(self.times.delayed_ids()) {
            let until = conn.established_ns.or(conn.ended_ns);
            let waited = until.unwrap_or(story.end_ns).saturating_sub(conn.start_ns);
            all_ns += waited;
            if (outage.from_ns..outage.to_ns).contains(&conn.start_ns) {
                meanwhile_ns += waited;
            }
        }
        (2 * meanwhile_ns > all_ns).then(|| Since::at(story, outage.from_ns, Began::Seen))
    }

    fn rates_step(&self) -> Option<Step> {
        let (arrived, taken) = self.rates()?;
        let hung = self.outage.map_or(String::new(), |outage| {
            let after = outage.from_ns.saturating_sub(self.here.story.start_ns);
            format!(
                "; for {}, beginning {} after the start, no handshake was completed",
                duration(outage.ns()),
                duration(after)
            )
        });
        let step = Step::new(format!(
            "{} connections per second arrived, {} per second were accepted{hung}.",
            figure(arrived),
            figure(taken)
        ))
        .number("arrivals_per_s", arrived)
        .number("accepts_per_s", taken)
        .number_if(
            "outage_ms",
            self.outage.map(|outage| outage.ns() as f64 / 1e6),
        )
        .rows(self.here.listener.fullest().map(|s| s.last_row))
        .rows(self.times.rows.first().copied());
        Some(step)
    }

    fn ghosts_step(&self) -> Option<Step> {
        let (ghosts, rows) = self.here.ghosts();
        (ghosts > 0).then(|| {
            say!(
                "{late_acks} of handshakes met the full queue and were dropped: the client's end of these \
                 connections is established, the server's is not, and the first request is retransmitted.",
                late_acks = Quantity::of(ghosts, "last ACK").rows(rows)
            )
        })
    }

    /// Requests whose last ACK is dropped keep their place in the SYN queue.
    fn consequence_step(&self) -> Option<Step> {
        let rise = |name| self.here.rise(name);
        let (full, cookies) = (
            rise(counter::TCP_REQ_Q_FULL_DROP),
            rise(counter::TCP_REQ_Q_FULL_DO_COOKIES),
        );
        (full.by > 0 || cookies.by > 0).then(|| {
            Step::new(format!(
                "The SYN queue was full as well ({} dropped, {} answered with a cookie): requests \
                 whose last ACK is dropped keep their place in it.",
                Quantity::of(full.by, "SYN"),
                Quantity::count(cookies.by)
            ))
            .number(counter::short(counter::TCP_REQ_Q_FULL_DROP), full.by)
            .number(
                counter::short(counter::TCP_REQ_Q_FULL_DO_COOKIES),
                cookies.by,
            )
            .rows(full.rows())
            .rows(cookies.rows())
        })
    }

    /// Where samples caught the queue growing, one that overflowed reached its limit: the queue of a listener that
    /// drops for another reason does not.
    fn limit(&self) -> Option<Check> {
        let (crowded, _) = self.here.listener.crowded_samples();
        let sock = self.here.listener.fullest().filter(|_| crowded > 0)?;
        let (most, longest) = (
            f64::from(sock.backlog) + 1.0,
            f64::from(sock.longest_accept_queue.0),
        );
        Some(Check {
            formula: "backlog + 1 = most connections waiting".into(),
            expected: most,
            measured: longest,
            unit: "connections".into(),
            // Handshakes that complete on several CPUs at once can exceed it.
            agrees: (longest - most).abs()
                <= most * limits::SAME_COUNT.share() + limits::SAME_COUNT_SLACK.number(),
            tolerance: "± 10 % and 2".into(),
        })
    }
}

#[cfg(test)]
mod tests;
