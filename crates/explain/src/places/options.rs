//! Connections that lack TCP options, and what that costs them compared with those that have them.

use std::collections::{BTreeMap, BTreeSet};

use analysis::account::State;
use analysis::stats::{median, ratio};
use analysis::words::{bit_rate, bytes, count, duration, percent, plural, rounded};
use analysis::{Conn, ConnId, Flow, Outcome, Story};
use recording::{RowRef, counter, sysctl};

use crate::finding::{Check, Impact, Step};
use crate::limits;
use crate::lost::Lost;
use crate::place::Place;
use crate::places::listener::{ListenerPlace, SHOWN_ROWS};
use crate::places::path::{End, empty_us, rwnd_share, usual_rtt};
use crate::say::{Quantity, say};

/// Why a window that is too small is a note.
pub(crate) const QUEUED: &str =
    "their path has a standing queue: a larger window would only make them wait longer in it";

/// The connections that a listener accepted, by what became of their options.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// Made from a SYN cookie, without SACK and window scaling.
    pub(crate) cookie: Vec<ConnId>,
    /// Without both; their creation was not seen (older, or no kernel symbols), but the kernel counts enough accepted
    /// cookies to cover them.
    pub(crate) perhaps_cookie: Vec<ConnId>,
    /// Lacking one or both, and no cookie was involved.
    pub(crate) plain: Vec<ConnId>,
    /// With SACK and window scaling.
    pub(crate) kept: Vec<ConnId>,
}

impl Sorted {
    pub(crate) fn of(here: ListenerPlace) -> Sorted {
        let mut sorted = Sorted::default();
        let mut unseen = Vec::new();
        for (id, conn) in here.story.all(&here.listener.accepted) {
            let Some(agreed) = conn.agreed else { continue };
            // With timestamps a cookie keeps the options: the client did not offer what is missing.
            let may_be_cookie = agreed.bare() && !agreed.timestamps;
            match conn.cookie {
                _ if agreed.sack && agreed.window_scaling => sorted.kept.push(id),
                Some(true) if may_be_cookie => sorted.cookie.push(id),
                None if may_be_cookie => unseen.push(id),
                _ => sorted.plain.push(id),
            }
        }
        let received = here.rise(counter::SYNCOOKIES_RECV).value;
        let seen = sorted.cookie.len() as u64;
        let covered = received.saturating_sub(seen) >= unseen.len() as u64;
        let warned =
            here.listener.warned() || here.rise(counter::TCP_REQ_Q_FULL_DO_COOKIES).value > 0;
        if warned && covered {
            sorted.perhaps_cookie = unseen
        } else {
            sorted.plain.append(&mut unseen)
        }
        sorted
    }
}

/// Ends of connections that run without SACK or window scaling.
pub(crate) struct WithoutOptions<'a> {
    pub(crate) story: &'a Story,
    pub(crate) ids: &'a [ConnId],
}

impl<'a> WithoutOptions<'a> {
    pub(crate) fn of(story: &'a Story, ids: &'a [ConnId]) -> WithoutOptions<'a> {
        WithoutOptions { story, ids }
    }

    /// The ends, for rivals.
    pub(crate) fn place(&self) -> Place {
        Place::WithoutOptions(self.ids.to_vec())
    }

    fn conns(&self) -> impl Iterator<Item = (ConnId, &'a Conn)> + Clone + use<'a> {
        self.story.all(self.ids)
    }

    pub(crate) fn count(&self) -> u64 {
        self.ids.len() as u64
    }

    /// The listener that accepted them, when it is on this host.
    pub(crate) fn listener_place(&self) -> Option<ListenerPlace<'a>> {
        let (_, conn) = self.conns().find(|(_, c)| c.listener.is_some())?;
        ListenerPlace::at(self.story, conn.listener?)
    }

    /// Those that were created from a SYN cookie, or not; `None` for those whose creation was not seen.
    pub(crate) fn created(&self, from_cookie: Option<bool>) -> u64 {
        let of = self.conns().filter(|(_, c)| c.cookie == from_cookie);
        of.count() as u64
    }

    /// Some of their rows.
    pub(crate) fn rows(&self) -> Vec<RowRef> {
        let row = |c: &Conn| c.row().or(self.story.samples(c).map(|s| s.last.row));
        let rows = self.conns().filter_map(|(_, c)| row(c));
        rows.take(SHOWN_ROWS).collect()
    }

    /// Bytes that the busiest of them moved, in either direction.
    pub(crate) fn most_moved(&self) -> u64 {
        let moved = self
            .conns()
            .map(|(_, c)| c.bytes_acked.max(c.bytes_received));
        moved.max().unwrap_or(0)
    }

    /// The sending ones among their ends on this host.
    pub(crate) fn senders(&self) -> Vec<End<'a>> {
        let ids = self.conns().flat_map(|(id, c)| [Some(id), c.peer]);
        let ends = ids.flatten().filter_map(|id| End::of(self.story, id));
        let sends = |e: &End| e.conn.bytes_acked > e.conn.bytes_received;
        ends.filter(sends).collect()
    }

    /// They wait for the window while a queue stands: the path is full. Where others on the same path have the options,
    /// these take what a larger window would give.
    pub(crate) fn are_queued(&self, kept: &[ConnId]) -> bool {
        let path = |c: &Conn| (c.local.addr, c.remote.addr);
        let paths: BTreeSet<_> = self.conns().map(|(_, c)| path(c)).collect();
        if self.story.all(kept).any(|(_, c)| paths.contains(&path(c))) {
            return false;
        }
        let senders = self.senders();
        // A connection that began while the queue stood has never measured the path without it.
        let mut shortest: BTreeMap<_, u32> = BTreeMap::new();
        for end in senders.iter().filter(|e| e.transfer.min_rtt_us > 0) {
            let least = shortest.entry(path(end.conn)).or_insert(u32::MAX);
            *least = (*least).min(end.transfer.min_rtt_us);
        }
        let waiting = senders
            .iter()
            .filter(|e| rwnd_share(&[**e]) >= limits::SMALL_PART.share());
        let (mut queued, mut all) = (0, 0_usize);
        for end in waiting {
            // Unknown for one that no sample found with data in flight.
            let Some((least, usual)) = shortest.get(&path(end.conn)).zip(usual_rtt(end)) else {
                continue;
            };
            queued += usize::from(f64::from(usual) > empty_us(*least));
            all += 1;
        }
        all > 0 && limits::MOST.exceeded(queued, all)
    }

    /// Their throughput, without siblings to compare with.
    pub(crate) fn throughput(&self) -> ThroughputLoss {
        ThroughputLoss::of(self.story, self.ids, &[])
    }
}

/// Whether one of the connections is still there at the end, so that its loss goes on.
pub(crate) fn any_lasts(story: &Story, ids: &[ConnId]) -> bool {
    let lasts = |c: &Conn| {
        let age = story.end_ns.saturating_sub(c.start_ns);
        c.outcome == Outcome::Open && age >= limits::SENDING.ns()
    };
    story.all(ids).any(|(_, c)| lasts(c))
}

/// The bulk transfers over connections without options, and over their siblings with them.
#[derive(Debug)]
pub(crate) struct ThroughputLoss {
    pub(crate) slow: Vec<Flow>,
    pub(crate) fast: Vec<Flow>,
    /// Median RTT of the slow connections, or of their handshakes, ns.
    pub(crate) rtt_ns: Option<u64>,
}

impl ThroughputLoss {
    pub(crate) fn of(story: &Story, slow: &[ConnId], fast: &[ConnId]) -> ThroughputLoss {
        let flows = |ids: &[ConnId]| ids.iter().filter_map(|id| story.flow(*id)).collect();
        let slow_flows: Vec<Flow> = flows(slow);
        let mut rtts: Vec<u32> = slow_flows.iter().filter_map(|f| f.rtt_us).collect();
        if rtts.is_empty() {
            let conns = story.all(slow);
            rtts = conns
                .map(|(_, c)| c.rtt_us)
                .filter(|rtt| *rtt > 0)
                .collect();
        }
        ThroughputLoss {
            slow: slow_flows,
            fast: flows(fast),
            rtt_ns: median(&mut rtts).map(|us| u64::from(us) * 1_000),
        }
    }

    /// The rate that 65,535 bytes per round trip give, bytes/s.
    pub(crate) fn ceiling(&self) -> Option<f64> {
        ratio(limits::UNSCALED_WINDOW.number() * 1e9, self.rtt_ns? as f64)
    }

    /// Median rate of the slow connections, bytes/s.
    pub(crate) fn slow_rate(&self) -> Option<f64> {
        middle(&self.slow, |f| Some(f.rate))
    }

    /// Median rate of their siblings, bytes/s.
    pub(crate) fn fast_rate(&self) -> Option<f64> {
        middle(&self.fast, |f| Some(f.rate))
    }

    pub(crate) fn throughput_ratio(&self) -> Option<f64> {
        ratio(self.slow_rate()?, self.fast_rate()?).map(rounded)
    }

    pub(crate) fn cwnd_ratio(&self) -> Option<f64> {
        let cwnd = |f: &Flow| f.cwnd.map(f64::from);
        ratio(middle(&self.slow, cwnd)?, middle(&self.fast, cwnd)?).map(rounded)
    }

    /// Median share of the busy time that the slow connections spent waiting for the peer's window.
    pub(crate) fn waited(&self) -> Option<f64> {
        middle(&self.slow, |f| f.rwnd_share)
    }

    /// The widest window that a peer of the slow connections advertised, bytes.
    pub(crate) fn widest(&self) -> Option<u32> {
        self.slow.iter().filter_map(|f| f.snd_wnd).max()
    }

    /// What it costs, as the end of a sentence whose subject is the connections.
    pub(crate) fn cost(&self) -> String {
        let mut says = match (self.throughput_ratio(), self.rtt_ns, self.ceiling()) {
            // With few to compare, those with the options may have had little to send.
            (Some(r), ..) if r < 1.0 => {
                format!("run at {} of the others' throughput", percent(r))
            }
            (_, Some(rtt), Some(ceiling)) => format!(
                "can move no more than {} each (65,535 bytes per round trip of {})",
                bit_rate(ceiling),
                duration(rtt)
            ),
            _ => "can have no more than 65,535 bytes in flight each".into(),
        };
        if let Some(r) = self.cwnd_ratio() {
            says += &format!(", with {} of their congestion window", percent(r));
        }
        says
    }

    /// How much longer they took than at the throughput of their siblings; without siblings, how long they waited for a
    /// window that they cannot open.
    pub(crate) fn lost(&self, story: &Story, slow: &[ConnId]) -> Lost {
        let ends = || story.all(slow).map(|(_, c)| c);
        let senders = || {
            ends()
                .flat_map(|c| [Some(c), c.peer.and_then(|id| story.conn(id))])
                .flatten()
        };
        let slower = self
            .throughput_ratio()
            .filter(|r| *r < 1.0)
            .map(|r| 1.0 - r);
        let states = [State::PeerWindow, State::Path, State::Repair];
        match slower {
            Some(share) => Lost::states(story, senders(), &states, share),
            None => Lost::states(story, senders(), &[State::PeerWindow], 1.0),
        }
    }

    /// How many connections lack options, of how many, and what it costs them.
    pub(crate) fn impact(&self, affected: u64, of: u64, cost: &str) -> Impact {
        let says = format!(
            "{} of {} ({}) {cost}.",
            count(affected),
            plural(of, "connection"),
            percent(affected as f64 / of as f64)
        );
        Impact {
            throughput_ratio: self.throughput_ratio(),
            cwnd_ratio: self.cwnd_ratio(),
            ..Impact::of(affected, of, "connections", says)
        }
    }

    /// What the fix gains, as the end of a sentence.
    pub(crate) fn gain(&self) -> String {
        match (self.slow_rate(), self.fast_rate(), self.ceiling()) {
            (Some(slow), Some(fast), _) if fast > slow => {
                format!("from {} to the others' {}", bit_rate(slow), bit_rate(fast))
            }
            (_, _, Some(ceiling)) => format!("beyond the ceiling of {}", bit_rate(ceiling)),
            _ => "beyond 65,535 bytes per round trip".into(),
        }
    }

    /// The window that is too small, and the rate that it gives.
    pub(crate) fn rate_step(&self, story: &Story, netns: u32) -> Option<Step> {
        let (rtt, ceiling) = (self.rtt_ns?, self.ceiling()?);
        let mut says = format!(
            "Without window scaling at most 65,535 bytes are in flight: {} at their RTT of {}.",
            bit_rate(ceiling),
            duration(rtt)
        );
        let (slow, fast) = (self.slow_rate(), self.fast_rate());
        if let Some(slow) = slow {
            says += &match fast {
                Some(fast) => format!(
                    " They moved a median of {}, the others {}.",
                    bit_rate(slow),
                    bit_rate(fast)
                ),
                None => format!(
                    " They moved a median of {}; {}.",
                    bit_rate(slow),
                    allowed(story, netns)
                ),
            };
        }
        if let Some(share) = self.waited() {
            let share = percent(share);
            says += &format!(" They waited for the peer's window for {share} of their busy time.");
        }
        let rows = |flows: &[Flow]| {
            flows
                .iter()
                .filter_map(|f| f.row)
                .take(2)
                .collect::<Vec<_>>()
        };
        let step = Step::new(says)
            .number("rtt_ms", rtt as f64 / 1e6)
            .number("ceiling_bytes_per_s", ceiling)
            .number_if("median_bytes_per_s", slow)
            .number_if("others_bytes_per_s", fast)
            .number_if("rwnd_limited_share", self.waited())
            .number_if("widest_window_bytes", self.widest())
            .rows(rows(&self.slow))
            .rows(rows(&self.fast));
        Some(step)
    }

    /// The congestion windows side by side.
    pub(crate) fn window_step(&self) -> Option<Step> {
        let cwnd = |f: &Flow| f.cwnd.map(f64::from);
        let slow = middle(&self.slow, cwnd)? as u64;
        let fast = middle(&self.fast, cwnd)? as u64;
        let share = self.cwnd_ratio()?;
        let rows = self.slow.iter().take(1).chain(self.fast.iter().take(1));
        Some(say!(
            "Their congestion window reached a median of {cwnd} segments, the others' {others_cwnd}: \
             {ratio}.",
            cwnd = Quantity::count(slow).rows(rows.filter_map(|f| f.row)),
            others_cwnd = Quantity::count(fast),
            ratio = Quantity::share(share)
        ))
    }

    /// That the window is too small, and not closed by a slow reader.
    pub(crate) fn fills_window(&self) -> Option<Step> {
        let (rate, ceiling) = (self.slow_rate()?, self.ceiling()?);
        let filled = rate / ceiling;
        let bytes_per_s = Quantity::rate(rate).rows(self.slow.iter().filter_map(|f| f.row).take(2));
        let of_window = Quantity::share(filled);
        (filled >= limits::MOST.share()).then(|| {
            say!(
                "they moved a median of {bytes_per_s}, {of_window} of what a window of 65,535 bytes \
                 allows: it is small, not closed",
                bytes_per_s,
                of_window
            )
        })
    }

    /// No connection without window scaling can be faster than its ceiling.
    pub(crate) fn rate_check(&self) -> Option<Check> {
        let (rtt, ceiling, rate) = (self.rtt_ns?, self.ceiling()?, self.slow_rate()?);
        let mbit = |rate: f64| rounded(rate * 8.0 / 1e6);
        Some(Check {
            formula: format!(
                "65,535 bytes ÷ RTT {} = ceiling of their rate",
                duration(rtt)
            ),
            expected: mbit(ceiling),
            measured: mbit(rate),
            unit: "Mbit/s".into(),
            agrees: rate <= ceiling * (1.0 + limits::ALIKE.share()),
            tolerance: "at most 20 % above it".into(),
        })
    }
}

/// Without siblings to compare with: what the receive buffer would have allowed.
fn allowed(story: &Story, netns: u32) -> String {
    let rmem = story
        .settings
        .get(netns, sysctl::TCP_RMEM)
        .and_then(|v| v.number(2));
    match rmem {
        // The kernel offers about half of the buffer as window; the rest is overhead.
        Some(max) => format!(
            "there is no other to compare with, but net.ipv4.tcp_rmem allows a window of about {}",
            bytes(max / 2)
        ),
        None => "there is no other to compare with".into(),
    }
}

fn middle(flows: &[Flow], of: fn(&Flow) -> Option<f64>) -> Option<f64> {
    median(&mut flows.iter().filter_map(of).collect::<Vec<_>>())
}
