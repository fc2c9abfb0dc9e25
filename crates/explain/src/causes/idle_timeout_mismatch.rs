//! C39: a kept connection was closed by the other side while it was idle, and then used, or used at that moment.

mod here;

use std::collections::BTreeSet;

use analysis::account;
use analysis::words::{count, duration, percent, plural};

use crate::limits;
use crate::places::peer_resets::{
    self, PeerResets, Phase, Reset, is_foreign, places, reset_of, spread, usual,
};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::IDLE_TIMEOUT_MISMATCH,
    number: "C39",
    title: "idle connections are closed before they are used again",
    page: include_str!("idle_timeout_mismatch.md"),
    layer: Layer::Application,
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[SourceName::ResetsReceived, SourceName::ResetsSent],
        &[SourceName::Sockets],
    ],
    seen_from: || {
        "5 connections that were reset after pauses of similar length, 2 % of those to a server"
            .into()
    },
    signature: &[
        "first request after a pause fails: connection reset, broken pipe",
        "occasional 502 from a load balancer with keep-alive",
        "connection pool hands out stale connections",
        "upstream prematurely closed connection; server closed idle connection",
    ],
    rivals: &[
        Id::RESET_BY_PEER,
        Id::RESET_UNREAD_DATA,
        Id::RESET_BY_APPLICATION,
        Id::INJECTED_RESET,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// Connections to a server that closes those idle for this long.
struct Mismatch<'a> {
    resets: PeerResets<'a>,
    /// The pause after which the server closes, ns.
    timeout_ns: u64,
    /// Whether its FINs were seen, and not only resets.
    closed: bool,
}

fn closed_ns(reset: &Reset) -> Option<u64> {
    match reset.phase {
        Phase::Closed(ns) => Some(ns),
        _ => None,
    }
}

fn paused_ns(reset: &Reset) -> Option<u64> {
    match reset.phase {
        Phase::Paused(ns) => Some(ns),
        _ => None,
    }
}

fn no(asked: &Asked) -> Option<Step> {
    let resets = asked.resets()?;
    if here::closed_idle(asked.story, resets.all().map(|(id, _)| id)) {
        return None;
    }
    let all = || resets.all().filter_map(|(id, _)| reset_of(asked.story, id));
    let closed: Vec<u64> = all().filter_map(|r| closed_ns(&r)).collect();
    let paused: Vec<u64> = all().filter_map(|r| paused_ns(&r)).collect();
    let after_a_pause = closed.len() + paused.len();
    (usual(&closed).is_none() && usual(&paused).is_none()).then(|| {
        say!(
            "{after_a_pause} of {resets} came after a second or more without data, and not always the same \
             pause",
            after_a_pause = Quantity::count(after_a_pause as u64),
            resets = Quantity::of(resets.count(), "reset").rows(resets.received_rows())
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    peer_resets::rule_out(whole, |_| true, here::rule_out(whole))
}

fn find(story: &Story) -> Found {
    let closed = Mismatch::all(story, true, |r| closed_ns(r).is_some());
    let of = |m: &Mismatch| (m.resets.netns, m.resets.at);
    let told: BTreeSet<_> = closed.iter().map(of).collect();
    let paused = |r: &Reset| paused_ns(r).is_some() && is_foreign(story, r.conn);
    let mut paused = Mismatch::all(story, false, paused);
    paused.retain(|m| !told.contains(&of(m)));
    let here = here::find(story);
    let elsewhere = closed.iter().chain(&paused).map(judge);
    elsewhere.chain(here).collect()
}

impl Mismatch<'_> {
    fn all(story: &Story, closed: bool, counts: impl Fn(&Reset) -> bool) -> Vec<Mismatch<'_>> {
        let often = places(story, counts)
            .into_iter()
            .filter(|resets| resets.are_many() && !resets.at_one_moment());
        let mismatches = often.filter_map(|resets| {
            let timeout_ns = usual(&pauses(&resets))?;
            Some(Mismatch {
                resets,
                timeout_ns,
                closed,
            })
        });
        mismatches
            .filter(|m| m.is_timeout() && m.was_used())
            .collect()
    }

    /// A restarted server closes all connections at one moment, however long each was idle.
    fn is_timeout(&self) -> bool {
        self.no_restart().is_none_or(|check| check.agrees)
    }

    /// A pool that closes what its server has closed long ago may get a reset for that; one that sent something before
    /// has a request without an answer.
    fn was_used(&self) -> bool {
        let late = self.late();
        late == 0
            || self
                .unanswered()
                .is_some_and(|(n, _)| limits::MOST.reached(n, late))
    }

    /// Resets that came when its program had closed as well, and had written nothing that was not taken.
    fn late(&self) -> u64 {
        let late = self.resets.all.iter().filter(|r| r.late && !r.wrote());
        late.count() as u64
    }

    /// Whether most requests met the FIN on its way.
    fn crossed(&self) -> bool {
        let crossed = self.resets.all.iter().filter(|r| r.crossed).count();
        self.closed && limits::MOST.exceeded(crossed as u64, self.resets.count())
    }

    /// Requests to the server that were never answered, and a row; `None` where requests were not recorded.
    fn unanswered(&self) -> Option<(u64, Option<RowRef>)> {
        let story = self.resets.story;
        let service = account::service(story, self.resets.conns().next()?);
        let here = story.exchanges_of(service)?;
        Some((here.all.unanswered, here.busiest))
    }

    /// How far apart the moments at which it closed are, and how far the pauses differ, ns; `None` where only resets
    /// were seen.
    fn apart(&self) -> Option<(u64, u64)> {
        let story = self.resets.story;
        let moments = self.resets.all.iter();
        let moments = moments.filter_map(|r| r.closed_ns(story));
        self.closed
            .then(|| (spread(moments), spread(pauses(&self.resets).into_iter())))
    }

    fn steps(&self) -> Vec<Step> {
        let (all, at) = (&self.resets, self.resets.at);
        let story = all.story;
        let resets = Quantity::count(all.count()).rows(all.rows());
        let connections = Quantity::of(all.of, "connection");
        let came = if self.crossed() {
            say!(
                "{resets} of {connections} to {at} met its FIN: the request and the FIN crossed, within a \
                 round trip, and {at} answered the request with a reset.",
                resets,
                connections
            )
        } else if self.closed {
            say!(
                "{resets} of {connections} to {at} were used after {at} had closed its side (FIN), and got \
             a reset in reply.",
                resets,
                connections
            )
        } else {
            say!(
                "{resets} of {connections} to {at} got a reset after a pause.",
                resets,
                connections
            )
        };
        let sampled = all.conns().filter_map(|c| story.samples(c));
        let rows = sampled.map(|s| s.last.row).take(SHOWN_ROWS);
        let idle = Quantity::ns(self.timeout_ns).rows(rows);
        let range = |ns: Option<u64>| duration(ns.unwrap_or(0));
        let pauses = pauses(all);
        let (least, most) = (pauses.iter().min(), pauses.iter().max());
        let (least, most) = (range(least.copied()), range(most.copied()));
        let after = if self.closed {
            "When its FIN came"
        } else {
            "When the reset came"
        };
        let paused = say!(
            "{after}, no data had moved for {idle} (median; {least} to {most}): an idle timeout of the \
             server, or of a box in front of it.",
            idle
        );
        let late = all.all.iter().filter(|r| !r.crossed).filter_map(|r| {
            let fin_ns = story.samples(r.conn)?.last.heard_ns?;
            r.time_ns.checked_sub(fin_ns)
        });
        let late_ns = analysis::stats::median(&mut late.collect::<Vec<_>>());
        let used = late_ns.filter(|_| self.closed && !self.crossed()).map(|ns| {
            say!(
                "They were used {late} after that (median): the pool did not check whether they were still \
                 open.",
                late = Quantity::ns(ns).rows(all.rows())
            )
        });
        let unanswered = self.unanswered().map(|(n, row)| {
            say!(
                "{never_answered} to it had no answer when their connection ended.",
                never_answered = Quantity::of(n, "request").rows(row)
            )
        });
        let more = used.into_iter().chain(unanswered);
        [came, paused].into_iter().chain(more).collect()
    }

    fn no_restart(&self) -> Option<Check> {
        let (moments, pauses) = self.apart()?;
        Some(no_restart(moments, pauses, "FINs"))
    }

    /// Each connection that was used has an unanswered request; one that was only closed has none.
    fn requests_lost(&self) -> Option<Check> {
        let (unanswered, _) = self.unanswered()?;
        let formula = "requests that were never answered ≥ connections that were reset after both ends had closed";
        (self.late() > 0).then(|| at_least(formula, self.late(), unanswered, "requests"))
    }

    fn advice(&self) -> [Advice; 2] {
        let at = self.resets.at;
        let idle = duration(self.timeout_ns);
        let scope = self.resets.scope();
        let app = application(&scope);
        [
            Advice::to(format!(
                "Make the pool of {app} close connections before they have been idle for {idle}, and check \
                 that one is still open before using it; or raise the idle timeout of {at} above the \
                 pool's."
            ))
            .by(shell!("tcpwhy trace resets --addr {addr}", addr = at.addr))
            .at(format!("the configuration of {app}; the command shows each reset"))
            .risk("More connections are opened.")
            .effect(format!(
                "The {} of connections that are reset now end with this side's FIN, between requests.",
                percent(self.resets.share())
            ))
            .change(Change::CloseIdle {
                to: at.to_string(),
                seconds: self.timeout_ns / 1_000_000_000,
            }),
            Advice::to(format!(
                "Make {app} retry a request once on a new connection when the pooled one was closed, if \
                 the request may be repeated."
            ))
            .at(format!("the source or configuration of {app}"))
            .risk("A request that changes something may be executed twice.")
            .effect("The race that remains between any two timeouts costs a round trip, \
                     not a failure."),
        ]
    }
}

/// The pauses after which the server closed. A FIN that no sample saw is dated by the reset: by a round trip too late if
/// a request crossed it, by as long as the connection stayed unused if the sampler was slow. Where enough were seen,
/// these tell.
fn pauses(resets: &PeerResets) -> Vec<u64> {
    let paused = |r: &Reset| closed_ns(r).or(paused_ns(r));
    let seen = resets.all.iter().filter(|r| !r.crossed).filter_map(paused);
    let seen: Vec<u64> = seen.collect();
    if seen.len() >= limits::OFTEN.as_usize() {
        return seen;
    }
    resets.all.iter().filter_map(paused).collect()
}

/// A timeout makes pauses alike and moments differ; a restart the opposite. `ends` is what came then.
fn no_restart(moments_ns: u64, pauses_ns: u64, ends: &str) -> Check {
    let seconds = |ns: u64| analysis::words::rounded(ns as f64 / 1e9);
    Check {
        formula: format!(
            "spread of the pauses before the {ends} < half the spread of their moments"
        ),
        expected: seconds(moments_ns / limits::TWICE.count()),
        measured: seconds(pauses_ns),
        unit: "s".into(),
        agrees: pauses_ns.saturating_mul(limits::TWICE.count()) <= moments_ns,
        tolerance: "at most: a restart closes all at one moment, after pauses of all lengths"
            .into(),
    }
}

fn judge(mismatch: &Mismatch) -> Finding {
    let resets = &mismatch.resets;
    let (story, at) = (resets.story, resets.at);
    let (n, of) = (count(resets.count()), plural(resets.of, "connection"));
    let idle = duration(mismatch.timeout_ns);
    let says = format!(
        "{n} of {of} ({}) were reset after {idle} of silence; the request that hit it failed.",
        percent(resets.share())
    );
    let title = if mismatch.crossed() {
        format!("{at} closes after {idle} idle, as requests come: {n} of {of} reset.")
    } else if mismatch.closed {
        format!("{at} closes after {idle} idle; {n} of {of} were used later.")
    } else {
        format!("{at} resets connections after {idle} of silence: {n} of {of}.")
    };
    let short = format!("{at} closes connections idle for {idle}.");
    let case = Case::new(story, CAUSE, resets.scope())
        .placed(resets.place())
        .title([title, short])
        .fix([
            format!("Make clients of {at} close idle connections before {idle}."),
            format!("Make its clients close idle connections before {idle}."),
        ])
        .affects(
            Impact::of(resets.count(), resets.of, "connections", says),
            Lost::outages(story, resets.conns()),
        );
    let case = if mismatch.crossed() {
        case.because("the other end closed first, always after the same pause, as this end sent")
    } else if mismatch.closed {
        case.because(
            "the other end closed first, always after the same pause, and this end sent afterwards",
        )
    } else {
        case.because("the resets all came after the same pause")
            .at_most(
                Level::Low,
                "whether a request was under way when the idle connection was reset was not seen",
            )
    };
    case.steps(mismatch.steps())
        .checks(mismatch.no_restart())
        .checks(mismatch.requests_lost())
        .checks(resets.counted())
        .advise(mismatch.advice())
        .verify(sentence!(
            "`tcpwhy trace resets --addr {addr}` shows none received.",
            addr = at.addr
        ))
}

#[cfg(test)]
mod tests;
