//! What a full queue does to clients, whichever queue it is: SYNs without an answer.

use analysis::account::State;
use analysis::stats::{median, quantile};
use analysis::words::{count, duration, percent, plural};
use analysis::{Conn, ConnId, Story};
use recording::{RowRef, SourceName, counter};

use crate::checks::same_count;
use crate::finding::{Check, Impact, Latency, Step};
use crate::limits;
use crate::lost::Lost;
use crate::places::listener::{ListenerPlace, SHOWN_ROWS};
use crate::places::syn_timer;

/// How long connecting took the clients on this host, ns. A client is connected when its server is: one whose last ACK
/// was dropped only believes so.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectTimes {
    /// Connects that nothing delayed.
    pub(crate) at_once: Vec<u64>,
    /// Connects that were delayed; those without an answer count with the time that they have waited.
    pub(crate) delayed: Vec<u64>,
    /// When each of these connects began.
    pub(crate) began: Vec<u64>,
    /// Successful connects that needed exactly two SYNs.
    after_one: Vec<u64>,
    /// The delayed that retransmitted their SYN.
    pub(crate) retried: u64,
    /// SYNs retransmitted.
    pub(crate) retries: u64,
    /// How long the delayed waited that were given up before their SYN was retransmitted, ns.
    gave_up: Vec<u64>,
    /// The delayed whose last ACK was dropped.
    ghosts: u64,
    /// The delayed that never got through, and those of them that still wait.
    pub(crate) unanswered: u64,
    pending: u64,
    /// The delayed.
    ids: Vec<ConnId>,
    /// The delayed that are connected and needed several SYNs.
    through_late: Vec<ConnId>,
    /// Some of the rows.
    pub(crate) rows: Vec<RowRef>,
}

impl ConnectTimes {
    pub(crate) fn of(here: ListenerPlace) -> ConnectTimes {
        let (late_acks, _) = here.ghosts();
        ConnectTimes::of_clients(here.story, &here.listener.clients, late_acks)
    }

    /// The connects that were delayed.
    pub(crate) fn delayed_ids(&self) -> &[ConnId] {
        &self.ids
    }

    /// The same for some clients, where so many last ACKs were dropped.
    pub(crate) fn of_clients(story: &Story, clients: &[ConnId], late_acks: u64) -> ConnectTimes {
        let mut times = ConnectTimes::default();
        let took = story.all(clients).filter_map(|(_, c)| c.connect_ns());
        let patient = took
            .min()
            .unwrap_or(0)
            .saturating_mul(limits::SEVERAL_TIMES.count());
        for (id, conn) in story.all(clients) {
            let established = conn.connect_ns();
            let given_up = gave_up(story, conn).filter(|waited| *waited >= patient);
            let silent = conn.syn_retries > 0 || given_up.is_some() || established.is_some();
            if conn.refused.is_some() || conn.unreachable().is_some() || !silent {
                // A refused connect is another matter; one neither answered nor retransmitted is too recent.
                continue;
            }
            times.gave_up.extend(given_up);
            times.began.push(conn.start_ns);
            let until = conn.ended_ns.unwrap_or(story.end_ns);
            let waited = until.saturating_sub(conn.start_ns);
            let retried = conn.syn_retries > 0;
            let ghost = ghost(story, conn, late_acks);
            match (established, ghost) {
                (Some(took), None) if !retried => {
                    times.at_once.push(took);
                    continue;
                }
                (None, _) | (_, Some(Ghost::Forever)) => {
                    times.unanswered += 1;
                    times.pending += u64::from(conn.ended_ns.is_none());
                    times.delayed.push(waited);
                }
                (_, Some(Ghost::Until(took))) | (Some(took), None) => times.delayed.push(took),
            }
            times.ids.push(id);
            if retried && ghost.is_none() && established.is_some() {
                times.through_late.push(id);
            }
            times.retried += u64::from(retried);
            times.retries += u64::from(conn.syn_retries);
            times.ghosts += u64::from(ghost.is_some());
            if conn.syn_retries == 1 && ghost.is_none() {
                times.after_one.extend(established);
            }
            if times.rows.len() < SHOWN_ROWS {
                let retry = conn.first_retry.map(RowRef::from);
                // One that has waited since before the recording has only samples.
                let sampled = || Some(story.samples(conn)?.last.row);
                times.rows.extend(retry.or(conn.row()).or_else(sampled));
            }
        }
        times
    }

    pub(crate) fn total(&self) -> u64 {
        self.began.len() as u64
    }

    /// Connects whose SYN nothing answered: retransmitted, or given up before that.
    pub(crate) fn silent(&self) -> u64 {
        self.retried + self.gave_up.len() as u64
    }

    /// How long connects waited that gave up before their SYN was retransmitted (median), ns.
    pub(crate) fn gave_up_ns(&self) -> Option<u64> {
        median(&mut self.gave_up.clone())
    }

    /// SYNs that nothing answered: the retransmitted ones, and the single SYNs of connects that gave up.
    pub(crate) fn unanswered_syns(&self) -> u64 {
        self.retries + self.gave_up.len() as u64
    }

    /// How much longer the delayed took than the others; for clients on other hosts whose SYNs were dropped here, how
    /// long a SYN waits to be retransmitted.
    pub(crate) fn lost(&self, story: &Story, dropped: u64) -> Lost {
        if self.delayed.is_empty() {
            return Lost::elsewhere(dropped.saturating_mul(limits::SYN_TIMEOUT.ns()));
        }
        let usual = median(&mut self.at_once.clone()).unwrap_or(0);
        let mut lost = Lost::unknown();
        let mut gave_up = Vec::new();
        let share = self.share_of(dropped);
        for ((_, conn), took) in story.all(&self.ids).zip(&self.delayed) {
            match conn.abandoned_after_ns() {
                Some(_) => gave_up.push(conn),
                None => {
                    // One whose last ACK was dropped is established here; from then on its data is retransmitted.
                    let connecting = conn.connect_ns().map_or(*took, |ns| ns.min(*took));
                    let longer = connecting.saturating_sub(usual);
                    lost.add(conn, State::Connecting, (longer as f64 * share) as u64);
                    let repair = took - connecting;
                    lost.add(conn, State::Repair, (repair as f64 * share) as u64);
                }
            }
        }
        lost.and(Lost::outages(story, gave_up))
    }

    /// The share of the unanswered that so many drops account for: where they are far fewer, the rest had another
    /// reason. 0: no drop was seen.
    fn share_of(&self, dropped: u64) -> f64 {
        let unanswered = self.unanswered_syns();
        if dropped == 0 || limits::MOST.reached(dropped, unanswered) {
            1.0
        } else {
            dropped as f64 / unanswered as f64
        }
    }

    /// How much longer the delayed took than the others' median.
    fn added(&self) -> Option<Latency> {
        let usual = median(&mut self.at_once.clone()).unwrap_or(0);
        let mut delayed = self.delayed.clone();
        let mut added = |share| {
            let ns = quantile(&mut delayed, share)?.saturating_sub(usual);
            Some(analysis::words::rounded(ns as f64 / 1e6))
        };
        Some(Latency {
            p50: added(0.5)?,
            p99: added(0.99)?,
        })
    }

    /// How many suffer: the clients themselves if they are here, else what was dropped.
    pub(crate) fn impact(&self, dropped: u64, accepted: u64) -> Impact {
        let Some(added) = self.added() else {
            return self.unseen(dropped, accepted);
        };
        let (delayed, total) = (self.delayed.len() as u64, self.total());
        let time = |ms: f64| duration((ms * 1e6) as u64);
        let few = self.share_of(dropped) < 1.0;
        let delayed = if few { dropped.min(delayed) } else { delayed };
        let mut says = format!(
            "{} of {} ({}): connect time +{} p50, +{} p99",
            count(delayed),
            plural(total, "connection"),
            percent(delayed as f64 / total as f64),
            time(added.p50),
            time(added.p99)
        );
        if few {
            let others = self.unanswered_syns() - dropped;
            let others = plural(others, "SYN");
            says += &format!("; {others} were unanswered for another reason");
        } else if self.unanswered > 0 {
            let (unanswered, pending) = (count(self.unanswered), count(self.pending));
            says += &match self.pending {
                0 => format!("; {unanswered} gave up"),
                n if n == self.unanswered => format!("; {pending} still pending at the end"),
                _ => format!("; {unanswered} never got through, {pending} of them still pending"),
            };
        }
        Impact {
            added_latency_ms: Some(added),
            ..Impact::of(delayed, total, "connections", says + ".")
        }
    }

    /// No client on this host was delayed: what the server side dropped.
    fn unseen(&self, dropped: u64, accepted: u64) -> Impact {
        let of = dropped.saturating_add(accepted);
        let clients = match self.total() {
            0 => "the clients are not on this host",
            _ => "those clients are not on this host",
        };
        let says = format!(
            "The full queue dropped {} while {} completed: {} of what arrived. Each costs its \
             client 1 s or more; {clients}.",
            match dropped {
                1 => "1 SYN or ACK".to_string(),
                n => format!("{} SYNs or ACKs", count(n)),
            },
            plural(accepted, "handshake"),
            percent(dropped as f64 / of as f64)
        );
        Impact::of(dropped, of, "SYNs", says)
    }

    /// The symptom as the clients saw it; `None` when none on this host was delayed.
    pub(crate) fn step(&self) -> Option<Step> {
        let took = median(&mut self.delayed.clone())?;
        let usual = median(&mut self.at_once.clone());
        let mut ways = Vec::new();
        if self.retried > 0 {
            let again = plural(self.retries, "SYN");
            let clients = plural(self.retried, "client");
            ways.push(format!(
                "{clients} got no answer to the first SYN and retransmitted {again}"
            ));
        }
        if let Some(after) = self.gave_up_ns() {
            let clients = plural(self.gave_up.len() as u64, "client");
            let after = duration(after);
            ways.push(format!(
                "{clients} gave up after {after} (median), before the SYN was retransmitted"
            ));
        }
        if self.ghosts > 0 {
            let clients = plural(self.ghosts, "client");
            ways.push(format!(
                "{clients} connected to a server that had dropped the last ACK"
            ));
        }
        let delayed = self.delayed.len() as u64;
        ways.push(format!(
            "{} waited {} (median)",
            plural(delayed, "client"),
            duration(took)
        ));
        let mut says = ways.join("; ");
        if let Some(usual) = usual {
            says += &format!(", the others {}", duration(usual));
        }
        let step = Step::new(says + ".")
            .number("delayed", delayed)
            .number("retried", self.retried)
            .number("gave_up", self.gave_up.len())
            .number("syn_retries", self.retries)
            .number("last_ack_dropped", self.ghosts)
            .number("median_ms", took as f64 / 1e6)
            .number_if("others_median_ms", usual.map(|ns| ns as f64 / 1e6))
            .number("unanswered", self.unanswered)
            .rows(self.rows.iter().copied());
        Some(step)
    }

    /// What must hold when a queue of the listener is full: its limit, if a sample shows it; the counts of its drops;
    /// when the clients tried again.
    pub(crate) fn checks(&self, here: ListenerPlace, limit: Option<Check>) -> Vec<Check> {
        let checks = limit.into_iter().chain(drops_check(here));
        let timer = self.timer_check(here.story);
        checks.chain(self.retry_check()).chain(timer).collect()
    }

    /// A SYN that was dropped is retransmitted after the initial timeout, no sooner, no later.
    pub(crate) fn retry_check(&self) -> Option<Check> {
        if self.after_one.len() < limits::A_FEW.as_usize() {
            return None;
        }
        let took = median(&mut self.after_one.clone())? as f64 / 1e6;
        Some(Check {
            formula: "initial retransmission timeout = connect time with one SYN retransmitted"
                .into(),
            expected: limits::SYN_TIMEOUT.ms() as f64,
            measured: analysis::words::rounded(took),
            unit: "ms".into(),
            agrees: (took - limits::SYN_TIMEOUT.ms() as f64).abs()
                <= limits::SYN_TIMEOUT.ms() as f64 * limits::ALIKE.share(),
            tolerance: "± 20 %".into(),
        })
    }

    /// Those that got through late, against the schedule of the timer. One whose last ACK was dropped says nothing
    /// about it.
    pub(crate) fn timer_check(&self, story: &Story) -> Option<Check> {
        let usual = median(&mut self.at_once.clone()).unwrap_or(0);
        let late = story.all(&self.through_late).map(|(_, c)| c);
        syn_timer::check(story, late, usual, None)
    }
}

/// How long a client waited that gave up before its SYN was retransmitted, ns; `None` when an answer may have been
/// under way, or came too late.
pub(crate) fn gave_up(story: &Story, conn: &Conn) -> Option<u64> {
    let waited = conn.abandoned_after_ns()?;
    (waited >= limits::PATIENT_CONNECT.ns() && !story.resets.was_sent_by(conn)).then_some(waited)
}

/// Whether it ended sooner than any client would give up, with no answer seen.
pub(crate) fn fails_at_once(story: &Story, conn: &Conn) -> bool {
    let soon = conn
        .abandoned_after_ns()
        .is_some_and(|ns| ns < limits::PATIENT_CONNECT.ns());
    soon && !story.resets.was_sent_by(conn)
}

/// A client that is established while its server is not: its last ACK was dropped.
#[derive(Clone, Copy)]
enum Ghost {
    /// Until then, ns after connect() was called: its data carried the ACK again.
    Until(u64),
    /// Still so when the connection ended, or the recording.
    Forever,
}

fn ghost(story: &Story, conn: &Conn, late_acks: u64) -> Option<Ghost> {
    let established = conn.established_ns?;
    let round_trip = u64::from(conn.rtt_us).saturating_mul(1_000);
    match conn.peer.and_then(|peer| story.conn(peer)) {
        Some(server) => {
            let ready = server.established_ns?;
            let late = ready.saturating_sub(established);
            let is_late = late > limits::READY_LATE.ns().saturating_add(round_trip);
            is_late.then(|| Ghost::Until(ready.saturating_sub(conn.start_ns)))
        }
        // Its other end may just not have been seen: where ACKs are dropped, its retries must fail.
        None => (late_acks > 0 && conn.retransmits > 0).then_some(Ghost::Forever),
    }
}

/// The namespace's ListenDrops against the listener's own count, when no other listener drops. The listener alone
/// counts once more a last ACK that finds the accept queue full, and one that TCP_DEFER_ACCEPT ignores.
fn drops_check(here: ListenerPlace) -> Option<Check> {
    let all = here.rise(counter::LISTEN_DROPS).by;
    let late = here.late_acks_dropped("TCP_LISTEN_OVERFLOW");
    let own = here.listener.drops()?;
    let alone = here.story.sums(here.listener.netns).dropping == 1;
    let deferred = here.rise(counter::DEFER_ACCEPT_DROP).by;
    let formula = match (late, deferred) {
        (0, 0) => {
            "ListenDrops of the namespace = this listener's own drops (no other listener dropped anything)"
        }
        (_, 0) => {
            "ListenDrops of the namespace + last ACKs dropped (TCP_LISTEN_OVERFLOW) = drops of the \
             only listener there that drops"
        }
        _ => {
            "ListenDrops of the namespace + last ACKs dropped (TCP_LISTEN_OVERFLOW) + those that \
             TCP_DEFER_ACCEPT ignored (TCPDeferAcceptDrop) = drops of the only listener there that drops"
        }
    };
    let expected = all.saturating_add(late).saturating_add(deferred);
    // Without recorded drops, the last ACKs among them are not known.
    let whole = here.story.health.sees(&SourceName::Drops);
    (all > 0 && alone && whole).then(|| same_count(formula, expected, own, "packets"))
}
