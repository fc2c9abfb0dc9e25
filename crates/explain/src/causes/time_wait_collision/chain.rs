//! The chain from the slow connects to the TIME_WAIT sockets, and the numbers that must fit.

use std::collections::BTreeSet;

use analysis::stats::{median, ratio};
use analysis::words::{bytes, count, duration, figure, list, percent, plural, rounded};
use analysis::{Conn, Endpoint, TIME_WAIT_NS, Waited};
use recording::{Addr, RowRef, counter, sysctl};

use super::case::{Collision, at_once};
use crate::checks::same_count;
use crate::finding::{Check, Step};
use crate::limits;
use crate::modes::{modes, step, syn_schedule_of};
use crate::places::listener::SHOWN_ROWS;
use crate::places::syn_timer;
use crate::waits::hop;

/// The most modes that are shown.
const SHOWN_MODES: usize = 5;

/// The ports that the clients here choose from, and the TIME_WAIT sockets of the server among them.
pub(super) struct Occupancy {
    pub(super) ports: u64,
    range: String,
    /// Of the clients.
    pub(super) addresses: u64,
    pub(super) time_wait: u64,
    rows: [RowRef; 2],
}

impl Occupancy {
    /// The odds that a chosen port is in TIME_WAIT if the clients had this many addresses.
    pub(super) fn odds(&self, addresses: u64) -> Option<f64> {
        let ends = self.ports.saturating_mul(addresses);
        ratio(self.time_wait.min(ends) as f64, ends as f64)
    }
}

impl Collision<'_> {
    pub(super) fn arithmetic(&self) -> Vec<Check> {
        let onset = self.illumos().and_then(|illumos| illumos.onset(self));
        // Another system has its own schedule.
        let linux = self.illumos().is_none();
        let timer = linux
            .then(|| syn_timer::check(self.story, self.hit(), self.usual_ns(), self.quick_ns()));
        let checks = [
            onset,
            ceiling(self),
            timer.flatten(),
            sequence(self),
            little(self),
        ];
        checks.into_iter().flatten().collect()
    }

    pub(super) fn evidence(&self) -> Vec<Step> {
        let steps = [
            self.connects_step(),
            self.rate_step(),
            self.walk_step(),
            self.resets_step(),
            self.refused_step(),
            self.rfc1337_step(),
            self.earlier_step(),
            self.illumos().and_then(|illumos| illumos.step(self)),
            self.nat_step(),
            self.occupancy_step(),
        ];
        steps.into_iter().flatten().collect()
    }

    /// How late the connects were, in clusters.
    fn connects_step(&self) -> Option<Step> {
        let mut took: Vec<u64> = self.hit().filter_map(Conn::connect_ns).collect();
        let (n, of) = self.impact();
        if took.is_empty() {
            return self.blocked_step(n, of);
        }
        let found = modes(&mut took);
        let netns = *self.client_netns().first()?;
        let linear = self
            .story
            .settings
            .number(netns, sysctl::TCP_SYN_LINEAR_TIMEOUTS);
        let schedule = syn_schedule_of(self.story, netns, self.quick_ns());
        let illumos = self.illumos().is_some();
        let told = found.iter().take(SHOWN_MODES).map(|m| {
            let at = step(&schedule, m.median_ns);
            let what = match (illumos, at) {
                (true, _) => format!("when SYN {} was sent", self.tries_at(m.median_ns)),
                (false, Some(i)) => format!("when Linux sends SYN {}", i + 2),
                (false, None) => "not on its schedule".into(),
            };
            format!("{} at {} ({what})", count(m.count), duration(m.median_ns))
        });
        let told: Vec<String> = told.collect();
        let mut says = format!(
            "{} of {} to {} were refused and took {} (median), the others {}",
            count(n),
            plural(of, "connect"),
            self.at,
            duration(median(&mut took)?),
            duration(self.usual_ns())
        );
        if !told.is_empty() {
            says += &format!("; clusters: {}", list(&told));
        }
        says += &self.twice(of);
        let rows = self.hit().filter_map(|c| c.first_retry);
        let rows = rows.map(Into::into).take(SHOWN_ROWS);
        let fallback = self.hit().filter_map(Conn::row).take(1);
        let step = Step::new(says + ".")
            .number("refused", n)
            .number("connects", of)
            .number("median_ms", median(&mut took)? as f64 / 1e6)
            .number("others_median_ms", self.usual_ns() as f64 / 1e6)
            .number_if("syn_linear_timeouts", linear)
            .rows(rows.chain(fallback));
        Some(step)
    }

    /// None of the refused connects succeeded.
    fn blocked_step(&self, n: u64, of: u64) -> Option<Step> {
        let until = |c: &Conn| c.ended_ns.unwrap_or(self.story.end_ns);
        let waited = |c: &Conn| until(c).saturating_sub(c.start_ns);
        let waited = median(&mut self.hit().map(waited).collect::<Vec<_>>())?;
        let rows = self.hit().filter_map(|c| Some(c.first_retry?.into()));
        let step = Step::new(format!(
            "{} of {} to {} were refused, and so was every retry: {} so far (median); the others took {}.",
            count(n),
            plural(of, "connect"),
            self.at,
            duration(waited),
            duration(self.usual_ns())
        ))
        .number("refused", n)
        .number("connects", of)
        .number("waited_ms", waited as f64 / 1e6)
        .rows(rows.take(SHOWN_ROWS));
        Some(step)
    }

    /// A reset does not end TIME_WAIT here.
    fn rfc1337_step(&self) -> Option<Step> {
        let netns = self.server.filter(|_| self.keeps())?;
        let row = self.story.settings.get(netns, sysctl::TCP_RFC1337)?.row;
        let ends: BTreeSet<_> = self.refused.iter().map(|r| r.seen.remote).collect();
        let step = Step::new(format!(
            "{}=1: the client's reset does not end the TIME_WAIT socket, which also refuses the next SYN: {} came \
             from {}.",
            sysctl::TCP_RFC1337,
            plural(self.refused.len() as u64, "refused SYN"),
            plural(ends.len() as u64, "port")
        ))
        .number("ports", ends.len())
        .rows([row]);
        Some(step)
    }

    /// The quick retry of Linux 5.6 and newer, when the clients make it.
    fn quick_ns(&self) -> Option<u64> {
        let quick = self.retries.iter().map(|r| r.after_ns);
        let quick = quick.filter(|ns| *ns < limits::NO_QUICK_RETRY.ns());
        quick.min()
    }

    /// Whether a second timeout came as often as the first: then each try has the same odds.
    fn twice(&self, of: u64) -> String {
        // The quick retry is no timeout.
        let quick = u32::from(self.quick_ns().is_some());
        let waited = |times: u32| self.hit().filter(move |c| c.syn_retries >= times + quick);
        let (once, more) = (waited(1).count() as f64, waited(2).count() as f64);
        let (p, q) = (once / of.max(1) as f64, more / of.max(1) as f64);
        // Where most wait, the rest is not a matter of odds.
        if p == 0.0 || p > limits::MOST.share() {
            return String::new();
        }
        format!(
            "; p = {} waited for a timeout, so p² = {} would have waited for two if each try had the same \
             probability: {} did",
            percent(p),
            percent(p * p),
            percent(q)
        )
    }

    /// The rate before and after, and what changed then.
    fn rate_step(&self) -> Option<Step> {
        let broke = self.broke?;
        let since = broke.time_ns.saturating_sub(self.story.start_ns);
        let moved = |from: u64, to: u64| {
            let all = self.story.all(&self.clients);
            let all = all.filter(|(_, c)| (from..to).contains(&c.start_ns));
            median(
                &mut all
                    .map(|(_, c)| c.bytes_acked)
                    .filter(|b| *b > 0)
                    .collect::<Vec<_>>(),
            )
        };
        let before = moved(0, broke.time_ns);
        let after = moved(broke.time_ns, u64::MAX);
        let here = match (self.server.is_some(), self.clients.is_empty()) {
            (true, false) => "; both ends of them are on this host",
            _ => "",
        };
        let mut says = format!(
            "Connections established per second: {} until {} after the start of the recording, {} \
             since{here}",
            figure(broke.before),
            duration(since),
            figure(broke.after)
        );
        if let (Some(before), Some(after)) = (before, after)
            && !limits::MOST.exceeded(before, after)
        {
            says += &format!(
                "; changed then: a connection uploads {} instead of {} (median)",
                bytes(after),
                bytes(before)
            );
        }
        let near = self.story.all(&self.clients);
        let near = near.filter(|(_, c)| c.established_ns.is_some_and(|t| t >= broke.time_ns));
        let step = Step::new(says + ".")
            .number("per_second_before", broke.before)
            .number("per_second_after", broke.after)
            .number("broke_at_s", since as f64 / 1e9)
            .number_if("upload_bytes_before", before)
            .number_if("upload_bytes_after", after)
            .rows(near.filter_map(|(_, c)| c.row()).take(1));
        Some(step)
    }

    /// From a thread that slept to the SYN that was refused.
    fn walk_step(&self) -> Option<Step> {
        let (walk, client) = self.walk()?;
        let refused = self.refused.iter().filter(|r| r.seen.remote == client);
        let wait = walk.last()?;
        let refused = refused.filter(|r| r.seen.time_ns < wait.end_ns);
        let refused = refused.max_by_key(|r| r.seen.time_ns)?;
        let hops: Vec<String> = walk.iter().map(|w| hop(w).says).collect();
        let ago = wait.end_ns.saturating_sub(refused.seen.time_ns);
        let closed = refused.closed_ns.map_or(String::new(), |closed| {
            let before = refused.seen.time_ns.saturating_sub(closed);
            format!(
                ", left by a connection of the same ports that had closed {} earlier",
                duration(before)
            )
        });
        let says = format!(
            "{}: that SYN was first sent {} before, and refused by the TIME_WAIT socket {} ← \
             {client}{closed}.",
            hops.join("; "),
            duration(ago),
            self.at,
        );
        let rows = walk.iter().map(|w| w.row).chain([refused.seen.row()]);
        let step = Step::new(says)
            .number("slept_ms", walk.first()?.waited_ns as f64 / 1e6)
            .number("syn_refused_ms_before", ago as f64 / 1e6)
            .rows(rows);
        Some(step)
    }

    /// The longest wait that ended with a retransmitted SYN of a refused connect, walked; and the client's end.
    fn walk(&self) -> Option<(Vec<&Waited>, Endpoint)> {
        let refused: ahash::AHashSet<Endpoint> =
            self.refused.iter().map(|r| r.seen.remote).collect();
        let waits = &self.story.waits;
        let ended = waits.all.iter().filter_map(|w| {
            let cause = w.cause.as_ref().filter(|c| c.attempt > 0)?;
            let client = if cause.to == self.at {
                cause.from
            } else {
                cause.to
            };
            let other = if client == cause.to {
                cause.from
            } else {
                cause.to
            };
            (other == self.at && refused.contains(&client)).then_some((w, client))
        });
        // A client's own sleep shows more than the server's.
        let own = |w: &Waited| self.hit().any(|c| c.pid == Some(w.pid));
        let mut ended: Vec<_> = ended.collect();
        ended.sort_by_key(|(w, _)| std::cmp::Reverse(w.waited_ns));
        let best = ended.iter().find(|(w, _)| own(w)).or(ended.first())?;
        Some((waits.walk(best.0), best.1))
    }

    fn resets_step(&self) -> Option<Step> {
        let first = self.strays.first()?;
        let n = self.strays.len() as u64;
        let mut ends: ahash::AHashMap<Endpoint, Vec<u64>> = ahash::AHashMap::new();
        for r in &self.refused {
            ends.entry(r.seen.remote).or_default().push(r.seen.time_ns);
        }
        let after = self.strays.iter().filter_map(|s| {
            let times = ends.get(&s.local)?;
            let n = times.partition_point(|t| *t <= s.time_ns);
            Some(s.time_ns - times.get(n.checked_sub(1)?)?)
        });
        let after = median(&mut after.collect::<Vec<_>>());
        let when = after.map_or(String::new(), |ns| {
            format!(", {} after the SYN arrived (median)", duration(ns))
        });
        // Each is counted where it is sent, whatever else is reset there.
        let mut netns: Vec<u32> = self.strays.iter().map(|s| s.netns).collect();
        netns.sort_unstable();
        netns.dedup();
        let counters = &self.story.counters;
        let rises = netns.iter().map(|n| counters.rise(*n, counter::OUT_RSTS));
        let rises: Vec<_> = rises.filter(|rise| rise.by > 0).collect();
        let counted = rises.iter().fold(0u64, |n, rise| n.saturating_add(rise.by));
        let counter = match counted {
            0 => String::new(),
            by => format!(
                "; TcpOutRsts counts these and others, and rose by {} there",
                count(by)
            ),
        };
        let step = Step::new(format!(
            "{} sent by clients in SYN_SENT: they received an ACK that matches none of their SYNs \
             ({}){when}{counter}.",
            match n {
                1 => "1 reset was".into(),
                n => format!("{} resets were", count(n)),
            },
            match self.illumos() {
                Some(_) => "TCPS_SYN_SENT-Bad_seq",
                None => "TCP_INVALID_ACK_SEQUENCE",
            }
        ))
        .number("resets", n)
        .number_if("after_us", after.map(|ns| ns as f64 / 1e3))
        .number_if("TcpOutRsts", (counted > 0).then_some(counted))
        .rows(
            [first.row()]
                .into_iter()
                .chain(self.strays.last().map(|s| s.row()))
                .chain(rises.iter().flat_map(|rise| rise.rows()).take(SHOWN_ROWS)),
        );
        Some(step)
    }

    fn refused_step(&self) -> Option<Step> {
        let n = self.refused.len() as u64;
        if n == 0 {
            return None;
        }
        let paws = self.refused.iter().filter(|r| r.paws).count() as u64;
        let mut why = Vec::new();
        if n > paws {
            why.push(format!("{} for the sequence number", count(n - paws)));
        }
        if paws > 0 {
            why.push(format!("{} for an older timestamp (PAWS)", count(paws)));
        }
        let rows = self.refused.iter().map(|r| r.seen.row());
        let step = Step::new(format!(
            "At {} {} a TIME_WAIT socket of the same addresses and ports and {} refused: {}.",
            self.at,
            match n {
                1 => "1 SYN met".into(),
                n => format!("{} SYNs met", count(n)),
            },
            if n == 1 { "was" } else { "were" },
            list(&why)
        ))
        .number("refused_syns", n)
        .number("paws", paws)
        .rows(rows.take(SHOWN_ROWS));
        Some(step)
    }

    /// The earlier connection, and which end closed it.
    fn earlier_step(&self) -> Option<Step> {
        let netns = self.server?;
        let first = self
            .story
            .refusals
            .closed_first
            .get(&(netns, self.at))
            .copied();
        let earlier = self.refused.iter().filter_map(|r| Some((r, r.closed_ns?)));
        let gaps = earlier
            .clone()
            .map(|(r, closed)| r.seen.time_ns.saturating_sub(closed));
        let gap = median(&mut gaps.collect::<Vec<_>>())?;
        let row = earlier.map(|(r, _)| r.seen.row()).next();
        let mut uploads = self.uploads();
        uploads.sort_by_key(|u| u.bytes);
        let upload = uploads
            .get(uploads.len() / 2)
            .map(|u| u.bytes)
            .filter(|b| *b > 0);
        let mut says = format!(
            "The server closes first ({} of its ends did), so it keeps the TIME_WAIT socket; the ports were reused \
             {} after the earlier connection had closed (median)",
            count(first?),
            duration(gap)
        );
        let by_clock = !self.paws() && self.illumos().is_none();
        if let Some(upload) = upload.filter(|_| by_clock) {
            says += &format!(
                ", which had uploaded {}: a Linux client needs {} to advance its sequence numbers by as much",
                bytes(upload),
                duration(upload.saturating_mul(limits::ISN_TICK.ns()))
            );
        }
        let step = Step::new(says + ".")
            .number("closed_first", first?)
            .number("reused_after_ms", gap as f64 / 1e6)
            .number_if("uploaded_bytes", upload)
            .rows(row);
        Some(step)
    }

    /// Several hosts behind one address: each has a clock of its own.
    fn nat_step(&self) -> Option<Step> {
        let (refused, stray) = (self.refused.first()?, self.strays.first()?);
        if !self.behind_nat() {
            return None;
        }
        let told = |addresses: BTreeSet<Addr>| {
            let shown = addresses.iter().take(SHOWN_ROWS).map(Addr::to_string);
            list(&shown.collect::<Vec<_>>())
        };
        let step = Step::new(format!(
            "There is address translation in between: the clients are {}, the server sees them as {}. The timestamps \
             that it sees on one port come from the clocks of several sockets.",
            told(self.strays.iter().map(|s| s.local.addr).collect()),
            told(self.refused.iter().map(|r| r.seen.remote.addr).collect())
        ))
        .rows([stray.row(), refused.seen.row()]);
        Some(step)
    }

    /// How much of the range is in TIME_WAIT.
    pub(super) fn occupancy(&self) -> Option<Occupancy> {
        let size = self
            .story
            .structures
            .get(self.server?, "time-wait")?
            .fullest;
        if self.behind_nat() {
            return None;
        }
        // On Linux from its setting; on other systems as their ports were counted.
        let setting = self.range().and_then(|(_, clients)| {
            let settings = &self.story.settings;
            settings.get(clients, sysctl::IP_LOCAL_PORT_RANGE)
        });
        let (ports, range, row) = match (self.range(), setting) {
            (Some((size, _)), Some(setting)) => (size, setting.text.to_string(), setting.row),
            _ => {
                let used = self.ports()?;
                let (low, high) = used.range;
                (used.capacity, format!("{low} to {high}"), used.most.row)
            }
        };
        let all = self.story.all(&self.clients);
        let from: BTreeSet<_> = all.map(|(_, c)| c.local.addr).collect();
        Some(Occupancy {
            ports,
            range,
            addresses: from.len().max(1) as u64,
            time_wait: size.entries,
            rows: [size.row, row],
        })
    }

    fn occupancy_step(&self) -> Option<Step> {
        let netns = self.server?;
        let is = self.occupancy()?;
        let odds = is.odds(is.addresses)?;
        let closes = self.story.refusals.closed_first.get(&(netns, self.at));
        let per_s = closes.copied().unwrap_or(0) as f64 / self.story.seconds();
        let step = Step::new(format!(
            "A TIME_WAIT socket lasts 60 s: {} closes per second would leave {} of them, but there are only {} ports \
             ({}): {} were in TIME_WAIT, and a connect meets one with a probability of {}.",
            figure(per_s),
            count((per_s * TIME_WAIT_NS as f64 / 1e9) as u64),
            count(is.ports),
            is.range,
            count(is.time_wait),
            percent(odds)
        ))
        .number("closes_per_second", per_s)
        .number("time_wait", is.time_wait)
        .number("ports", is.ports)
        .number("odds", odds)
        .rows(is.rows)
        .rows(self.ports().map(|used| used.most.row));
        Some(step)
    }
}

/// Clients that are all blocked send one SYN per timeout each.
pub(super) fn ceiling(case: &Collision) -> Option<Check> {
    let mut after: Vec<u64> = case.timeouts().map(|r| r.after_ns).collect();
    if after.len() < limits::ENOUGH.as_usize() {
        return None;
    }
    let timeout = median(&mut after)?;
    let first = case.timeouts().map(|r| r.seen.time_ns).min()?;
    let last = case.timeouts().map(|r| r.seen.time_ns).max()?;
    // Each timeout stands for the time before it.
    let seconds = last.saturating_sub(first).saturating_add(timeout) as f64 / 1e9;
    let measured = after.len() as f64 / seconds;
    let blocked = case.hit().filter(|c| c.syn_retries > 0);
    let (clients, _) = at_once(case.story, blocked, (0, case.story.end_ns));
    let expected = clients as f64 / (timeout as f64 / 1e9);
    let reached = if measured >= expected * limits::NEARLY_ALL.share() {
        "it is reached"
    } else {
        "not reached: clients also do other things than wait"
    };
    Some(Check {
        formula: format!(
            "ceiling: {} blocked at once ÷ {} timeout = most SYNs retransmitted after a timeout, per \
             second ({reached})",
            plural(clients, "client"),
            duration(timeout)
        ),
        expected: rounded(expected),
        measured: rounded(measured),
        unit: "SYNs/s".into(),
        agrees: measured <= expected * (1.0 + limits::ALIKE.share()),
        tolerance: "at most 20 % above".into(),
    })
}

/// Without timestamps Linux clients are refused when their upload overtook the clock.
pub(super) fn sequence(case: &Collision) -> Option<Check> {
    if let Some(illumos) = case.illumos() {
        return illumos.sequence(case);
    }
    let uploads = case.uploads();
    if case.paws() || uploads.len() < limits::ENOUGH.as_usize() {
        return None;
    }
    let overtook = uploads.iter().filter(|u| u.overtook()).count();
    Some(same_count(
        "refused SYNs = SYNs where the earlier connection's upload × 64 ns per byte exceeds the time between the two \
         SYNs",
        uploads.len() as u64,
        overtook as u64,
        "SYNs",
    ))
}

/// Little's law: the sockets that closed within 60 s and were not used again are those that exist.
pub(super) fn little(case: &Collision) -> Option<Check> {
    let netns = case.server?;
    let story = case.story;
    let last = story.structures.get(netns, "time-wait").map(|s| s.last)?;
    let first = story.structures.get(netns, "time-wait").map(|s| s.first)?;
    if story.end_ns.saturating_sub(last.time_ns) > limits::BETWEEN_SAMPLES.ns() || last.entries == 0
    {
        return None;
    }
    let held = story.refusals.held(netns, story.end_ns, !case.keeps())?;
    let older = if story.end_ns.saturating_sub(first.time_ns) < TIME_WAIT_NS {
        first.entries
    } else {
        0
    };
    Some(same_count(
        "ends that closed first within the last 60 s, each port once = TIME_WAIT sockets at the end",
        held.saturating_add(older),
        last.entries,
        "sockets",
    ))
}
