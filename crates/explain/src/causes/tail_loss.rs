//! C18: the last segment of a message is lost, and only a timer notices.

use std::collections::BTreeSet;

use analysis::account::{self, Role as Account};
use analysis::words::{figure, rounded};

use crate::limits;
use crate::places::losses::Losses;
use crate::places::path::{End, Path, median_of, min_rtt_us, paths, sample_rows};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::TAIL_LOSS,
    number: "C18",
    title: "the last segment of a message is lost, and only a timer notices",
    page: include_str!("tail_loss.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: || "5 messages that waited for a timer, 0.1 % of them".into(),
    signature: &[
        "requests that sometimes take 200 ms longer",
        "latency p99 is 200 ms above p50",
        "small requests are delayed, large transfers are fine",
    ],
    rivals: &[
        Id::PATH_LOSS,
        Id::NAGLE_DELAYED_ACK,
        Id::PMTU_BLACK_HOLE,
        Id::QDISC_DROP,
    ],
    explains: &[Id::SLOW_PEER],
    told_with: Some(ToldWith::Paths("lose the last segments of bursts")),
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| find(whole.story).into(),
};

/// How long Linux delays an ACK (TCP_DELACK_MIN), and some room, ms.
const ADVISED_RTO_MIN_MS: u64 = 50;

fn no(asked: &Asked) -> Option<Step> {
    if let Place::Service { .. } = asked.place {
        return asked.not_repaired();
    }
    let losses = asked.losses()?;
    (losses.waited < limits::OFTEN.count() || !losses.are_tails()).then(|| {
        say!(
            "{on_acks} retransmitted on ACKs, as in a transfer; {waited} had to wait for a timer",
            on_acks = Quantity::of(losses.fast, "segment").rows(sample_rows(&losses.ends)),
            waited = Quantity::count(losses.waited)
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    whole.on_paths(|losses| {
        let waited = || Quantity::count(losses.waited).rows(sample_rows(&losses.ends));
        let says = || {
            say!(
                "{waited} of {segments} were retransmitted by a timer",
                waited = waited(),
                segments = Quantity::of(losses.segments, "segment")
            )
        };
        let tails = say!(
            "{waited} of {retransmitted} retransmitted waited for a timer, the others for ACKs, as in a transfer",
            waited = waited(),
            retransmitted = Quantity::of(losses.waited.saturating_add(losses.fast), "segment")
        );
        every([
            Test::events(losses.waited, losses.segments, &limits::OFTEN, says()),
            Test::share(losses.waited, losses.segments, &limits::ONE_IN_A_THOUSAND, says()),
            Test::from(losses.tail_share(), &limits::MOST, tails),
        ])
    })
}

/// For a path seen both ways, the one that lost more leads.
fn find(story: &Story) -> Vec<Finding> {
    let paths = paths(story);
    let all: Vec<Tails> = paths.iter().filter_map(Tails::of).collect();
    let leading = all.iter().enumerate().filter_map(|(nth, tails)| {
        let mut others = all.iter().enumerate().filter(|(other, _)| *other != nth);
        let back = others.find(|(_, t)| tails.is_back_of(t));
        let leads =
            back.is_none_or(|(other, t)| (t.losses.late(), nth) < (tails.losses.late(), other));
        leads.then(|| judge(tails, back.map(|(_, t)| t)))
    });
    leading.collect()
}

/// What was lost on a path, where most of it had to wait for a timer.
struct Tails<'a> {
    path: &'a Path<'a>,
    losses: Losses<'a>,
    /// The RTO in force at the ends that suffer (median), µs.
    timer_us: f64,
    /// Answers that came late though nothing was retransmitted here, and their total delay, ns.
    late_answers: (u64, u64),
}

impl<'a> Tails<'a> {
    fn of(path: &'a Path<'a>) -> Option<Tails<'a>> {
        let losses = path.losses();
        let timer = |e: &End| Some(e.transfer.rto_us).filter(|us| *us > 0).map(f64::from);
        let timer_us = median_of(&losses.suffering, timer)?;
        // A receiver that already had the message when it came again has lost its answer: a program waited all the
        // same.
        let waited = losses.waited;
        let enough = waited >= limits::OFTEN.count()
            && limits::ONE_IN_A_THOUSAND.reached(waited, losses.segments);
        let real = losses.spurious <= losses.late() * limits::SEVERAL_TIMES.count()
            && losses.are_elsewhere();
        // Without SACK no receiver reports what it already had.
        let mut agreed = losses.suffering.iter().map(|e| e.conn.agreed);
        let told = agreed.all(|a| a.is_none_or(|a| a.sack));
        let lost = real && told && losses.are_spread() && losses.are_tails();
        (enough && lost && timer_us >= f64::from(limits::TAIL_TIMER.us())).then(|| Tails {
            path,
            late_answers: late_answers(path, &losses, timer_us),
            losses,
            timer_us,
        })
    }

    /// Whether the connections of one are those of the other, seen from their other ends.
    fn is_back_of(&self, other: &Tails) -> bool {
        let ways = (self.path.from, self.path.to) == (other.path.to, other.path.from);
        let mut peers = self.losses.ends.iter().filter_map(|e| e.conn.peer);
        let there = |id| {
            self.path
                .story
                .conn(id)
                .is_some_and(|c| c.netns == other.path.netns)
        };
        ways && peers.any(there)
    }

    /// The ends that waited, of both ways.
    fn both<'b>(&'b self, back: Option<&'b Tails<'a>>) -> Vec<End<'a>> {
        let back = back.into_iter().flat_map(|t| &t.losses.suffering);
        self.losses.suffering.iter().chain(back).copied().collect()
    }

    fn timer(&self) -> Quantity {
        Quantity::real_us(self.timer_us)
    }

    /// The timer's time for each segment that had to wait for it: for one in flight a probe waits about as long (2 SRTT
    /// and the least RTO). Where the answer was lost, the wait was for the other end's timer; if that end is not
    /// recorded, it is taken to be as long as this one's, with the answers for which no timer of this end was running.
    fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        let late = self.losses.late() as f64 / self.losses.waited.max(1) as f64;
        for end in &self.losses.suffering {
            let share = if end.conn.peer.is_some() { late } else { 1.0 };
            let resends = &end.transfer.resends;
            let waits = resends.timeouts.max(resends.waited) as f64 * share;
            let ns = waits * self.timer_us * 1e3;
            lost.add(end.conn, State::Repair, ns as u64);
        }
        let alone = || {
            self.losses
                .suffering
                .iter()
                .filter(|e| e.conn.peer.is_none())
        };
        for end in alone() {
            let each = self.late_answers.1 / alone().count() as u64;
            lost.add(end.conn, State::Awaiting, each);
        }
        lost
    }

    fn impact(&self, back: Option<&Tails>) -> Impact {
        let connections: BTreeSet<ConnId> = self
            .both(back)
            .iter()
            .map(|e| e.id.min(e.conn.peer.unwrap_or(e.id)))
            .collect();
        let affected = connections.len() as u64;
        let of = (self.path.ends.len() as u64).max(affected);
        let ms = rounded(self.timer_us / 1e3);
        let (late, segments) = self.late_of_all(back);
        let share = late as f64 / segments.max(1) as f64;
        let says = format!(
            "{} of {} had messages that waited {} or longer: {} of their segments.",
            Quantity::count(affected),
            Quantity::of(of, "connection"),
            self.timer(),
            Quantity::share(share)
        );
        Impact {
            added_latency_ms: Some(Latency { p50: ms, p99: ms }),
            ..Impact::of(affected, of, "connections", says)
        }
    }

    /// Segments that had to wait for a timer, and all that were sent: of both ways.
    fn late_of_all(&self, back: Option<&Tails>) -> (u64, u64) {
        let all = std::iter::once(self).chain(back).map(|t| &t.losses);
        all.fold((0, 0), |(late, of), l| (late + l.late(), of + l.segments))
    }

    fn back_step(&self) -> Step {
        let losses = &self.losses;
        let step = say!(
            "{late_back} of {segments_back} also had to wait for a timer.",
            late_back = Quantity::count(losses.late()).rows(sample_rows(&losses.suffering)),
            segments_back = Quantity::of(losses.segments, "segment")
        );
        Step {
            says: format!(
                "In the other direction, {}, {}",
                self.path.name(),
                step.says
            ),
            ..step
        }
    }

    fn answers_step(&self) -> Option<Step> {
        let (late, ns) = self.late_answers;
        (late > 0).then(|| {
            say!(
                "{late_answers} arrived {late_ms} late on average though nothing was retransmitted here: most likely \
                 lost on the way back, where only the other end's timer notices.",
                late_answers = Quantity::of(late, "answer"),
                late_ms = Quantity::ns(ns / late)
            )
        })
    }

    fn last_of_all(&self) -> Step {
        let most = self.losses.suffering.iter();
        let most = most.map(|e| e.transfer.most_unacked).max().unwrap_or(0);
        say!(
            "{waited} of them were the last in flight at their first loss, so only the RTO or a tail loss probe \
             could repair them (at most {most_in_flight} in flight in any sample). The receivers already had \
             {duplicates} of all retransmitted segments (DSACK), where the answer was lost; so about {lost} of those \
             that waited were lost.",
            waited = Quantity::count(self.losses.waited).rows(sample_rows(&self.losses.suffering)),
            duplicates = Quantity::count(self.losses.spurious),
            lost = Quantity::count(self.losses.late()),
            most_in_flight = Quantity::of(most, "segment")
        )
    }

    fn timer_step(&self) -> Step {
        let min_rtt_us = min_rtt_us(&self.losses.suffering).unwrap_or(0);
        let round_trips = figure(self.timer_us / f64::from(min_rtt_us.max(1)));
        say!(
            "The RTO is {timer_us}, and the shortest round trip {min_rtt_us}: each of them costs {round_trips} round \
             trips.",
            timer_us = self.timer().rows(sample_rows(&self.losses.suffering)),
            min_rtt_us = Quantity::us(min_rtt_us)
        )
    }

    /// Threads at the other end that waited for a timer of this one.
    fn waits_step(&self) -> Option<Step> {
        let (from, to) = (self.path.from, self.path.to);
        let least = (self.timer_us * 1e3 * limits::TAIL_OF_TIMER.share()) as u64;
        let all = self.path.story.waits.all.iter().filter(|w| {
            let came = w.cause.as_ref().filter(|a| a.attempt > 0);
            let here = came.is_some_and(|a| (a.from.addr, a.to.addr) == (from, to));
            here && w.waited_ns >= least
        });
        let n = all.clone().count() as u64;
        let waits = Quantity::times(n).rows(all.take(SHOWN_ROWS).map(|w| w.row));
        (n > 0).then(|| {
            say!(
                "Threads on {to} were blocked at least that long and woken by a retransmitted segment, {waits}.",
                waits
            )
        })
    }

    fn advice(&self, netns: &Netns) -> Vec<Advice> {
        let (path, to, timer) = (self.path, self.path.to, self.timer());
        let repair =
            repair_path(netns, path.from, to).effect(format!("Messages no longer wait {timer}."));
        // 0 turns off time-based loss detection, which needs only one segment behind the lost one.
        let recovery = path.story.settings.number(path.netns, sysctl::TCP_RECOVERY) == Some(0);
        let recovery = recovery.then(|| {
            let default =
                linux(4, 18).gone(path.story, "it is the default", "it is not yet the default");
            let risk = format!("None known: {default}.");
            let effect = "One segment after the lost one is enough to detect the loss.";
            set_sysctl(netns, sysctl::TCP_RECOVERY, 1, &risk, effect.into())
        });
        let rto_min = format!("rto_min {ADVISED_RTO_MIN_MS}ms");
        let sooner = Advice::to(format!(
            "Until then, shorten the RTO to {to}: {rto_min}; the same on {to} for its own segments."
        ))
        .by_route(netns, to, shell!("rto_min {ms}ms", ms = ADVISED_RTO_MIN_MS))
        .risk(
            "Segments are sent twice when an ACK is delayed: Linux delays ACKs by 40 ms, others by up to 200. Less \
             than that (5ms) only where answers come at once.",
        )
        .effect(format!(
            "A lost message is delayed by about {ADVISED_RTO_MIN_MS} ms, not {timer}."
        ));
        let several = Advice::to(
            "Have the application keep several requests in flight per connection, or ask elsewhere when an answer is \
             delayed.",
        )
        .at("the application: pipelining, HTTP/2, hedged requests")
        .risk("More load where requests are sent twice; they must be idempotent.")
        .effect("Segments after a lost one reveal the loss within a round trip.");
        std::iter::once(repair)
            .chain(recovery)
            .chain([sooner, several])
            .collect()
    }
}

/// Answers later than the median by a timer's time, though nothing was retransmitted here, and their total delay, ns:
/// for connections whose other end is not recorded. Delays with another reason do not cluster there.
fn late_answers(path: &Path, losses: &Losses, timer_us: f64) -> (u64, u64) {
    let story = path.story;
    let ends = losses.suffering.iter().filter(|e| e.conn.peer.is_none());
    let services: BTreeSet<_> = ends.map(|e| account::service(story, e.conn)).collect();
    let clients = services.into_iter().filter(|s| s.1 == Account::Client);
    let mut all = (0u64, 0u64);
    for service in clients {
        let exchanges = story.exchanges_of(service);
        let only_here = |_: &_| story.of_service(service).all(|(_, c)| path.has(c));
        let exchanges = exchanges.filter(only_here);
        let usual = exchanges.and_then(|e| e.response());
        let Some((exchanges, usual)) = exchanges.zip(usual) else {
            continue;
        };
        let usual_ns = (usual.p50_s * 1e9) as u64;
        let from = |timers: f64| {
            exchanges.beyond(usual_ns.saturating_add((timer_us * 1e3 * timers) as u64))
        };
        let [(first, first_ns), (second, second_ns), (third, _)] = [
            limits::TAIL_OF_TIMER.share(),
            limits::TAIL_OF_TIMER.share() + limits::TAIL_SPREAD.share(),
            limits::TAIL_OF_TIMER.share() + 2.0 * limits::TAIL_SPREAD.share(),
        ]
        .map(from);
        let (late, next) = (first.saturating_sub(second), second.saturating_sub(third));
        // Some were late because segments lost on the way there were retransmitted.
        let silent = late.saturating_sub(exchanges.all.retransmits);
        if late >= next.saturating_mul(limits::SEVERAL_TIMES.count()) {
            let usual_ns = late.saturating_mul(usual_ns);
            let ns = first_ns.saturating_sub(second_ns).saturating_sub(usual_ns);
            all.0 = all.0.saturating_add(silent);
            all.1 = all.1.saturating_add(ns / late.max(1) * silent);
        }
    }
    // One way may lose more than the other.
    let most = losses.late().saturating_mul(limits::SEVERAL_TIMES.count());
    (all.0.min(most), all.1 / all.0.max(1) * all.0.min(most))
}

fn judge(tails: &Tails, back: Option<&Tails>) -> Finding {
    let path = tails.path;
    let (losses, timer, scope) = (&tails.losses, tails.timer(), path.scope());
    let (from, to) = (path.from, path.to);
    let name = match back {
        Some(_) => format!("{from} ↔ {to}"),
        None => path.name(),
    };
    let (late, segments) = tails.late_of_all(back);
    let times = Quantity::times(late);
    let advice = tails.advice(&scope.netns);
    let lost = tails.lost();
    let lost = match back {
        Some(back) => lost.and(back.lost()),
        None => lost,
    };
    let case = Case::new(path.story, CAUSE, scope)
        .placed(Place::ends(&tails.both(back)))
        .title([
            format!(
                "Tail loss {name}: {times} the last segment of a message was lost, and cost {timer}."
            ),
            format!("Tail loss to {to}: {times}, at {timer} each."),
            format!("Tail loss to {to}."),
        ])
        .fix([
            format!(
                "Find the link that drops between {from} and {to}; until then, lower the route's \
                 rto_min."
            ),
            "Find the link on the path that drops; until then, lower rto_min.".into(),
        ])
        .affects(tails.impact(back), lost.happened(late, segments))
        .because(format!(
            "{} of the retransmitted segments had to wait for a timer, and this host dropped {} of them",
            Quantity::share(losses.tail_share()),
            Quantity::count(losses.dropped)
        ))
        .at_most_if(
            Level::Medium,
            !path.whole(),
            "the receivers are not on this host: drops on their host look the same from here",
        )
        .rests_on(&[SourceName::Drops])
        .steps([
            losses.retransmitted_step(),
            tails.last_of_all(),
            tails.timer_step(),
        ])
        .steps(back.map(Tails::back_step))
        .steps(tails.answers_step())
        .steps(tails.waits_step())
        .checks(path.counted_again())
        .advise(advice);
    case.verify(sentence!(
        "`nstat -az TcpExtTCPLossProbes TcpExtTCPTimeouts` do not rise while messages flow to \
                           {to}.",
        to
    ))
}

#[cfg(test)]
mod tests;
