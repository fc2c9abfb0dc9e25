//! C05: requests in SYN_RECV fill the SYN queue and, without cookies, further SYNs are dropped.

mod advice;
mod evidence;

use analysis::stats::{median, most_within};
use analysis::words::{count, plural};
use analysis::{Remote, Rise, What};

use crate::limits;
use crate::places::listener::{ListenerPlace, listener_places, roomy_backlog};
use crate::places::lost_syn::ConnectTimes;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SYN_QUEUE_OVERFLOW,
    number: "C05",
    title: "the SYN queue is full and cookies are off",
    page: include_str!("syn_queue_overflow.md"),
    layer: Layer::ThisHost,
    ground: Ground::Listeners,
    needs: LISTENER_DROPS,
    seen_from: || "5 dropped SYNs".into(),
    signature: &[
        "SYNs to LISTEN sockets dropped",
        "connects time out under load although the server is idle",
    ],
    rivals: &[
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
        Id::SYN_FLOOD,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |whole| {
        let story = whole.story;
        listener_places(story)
            .filter_map(Overflow::of)
            .map(|o| judge(&o))
            .collect()
    },
};

/// A listener whose SYN queue overflowed.
struct Overflow<'a> {
    here: ListenerPlace<'a>,
    /// SYNs that it dropped.
    dropped: u64,
    /// TCPReqQFullDrop.
    full: Rise,
    /// SYNs dropped at three quarters of tcp_max_syn_backlog: they have no counter of their own.
    early: u64,
    times: ConnectTimes,
    repeated: Repeated,
}

/// SYN-ACKs that a listener retransmitted.
struct Repeated {
    count: u64,
    rows: Vec<RowRef>,
    /// Which clients, and how often.
    clients: Vec<Remote>,
}

fn no(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    let Some(here) = place.listener_place() else {
        return place.dropped_on_the_way();
    };
    let full = here.rise(counter::TCP_REQ_Q_FULL_DROP);
    let tcp_req_q_full_drop = Quantity::count(full.by).rows(full.rows());
    let fits = full.by < limits::OFTEN.count() && Overflow::of(here).is_none();
    (fits && here.is_counted()).then(|| {
        say!(
            "TCPReqQFullDrop rose by {tcp_req_q_full_drop}",
            tcp_req_q_full_drop
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let places = whole.listeners().map(|here| {
        let local = here.listener.local;
        if !here.is_counted() {
            return Some(Answered::unknown(format!("no counters were read in the namespace of {local}")));
        }
        let full = here.rise(counter::TCP_REQ_Q_FULL_DROP);
        let n = full.by.saturating_add(early(here));
        let of = here.accepted().saturating_add(n);
        let step = say!(
            "the SYN queue of {local} dropped {dropped}, while {accepted} were accepted (TCPReqQFullDrop rose by \
             {tcp_req_q_full_drop})",
            dropped = Quantity::of(n, "SYN"),
            accepted = Quantity::of(here.accepted(), "connection"),
            tcp_req_q_full_drop = Quantity::count(full.by).rows(full.rows())
        );
        every([Test::events(n, of, &limits::OFTEN, step)])
    });
    Verdict::nearest(places, NO_ARRIVAL)
}

fn judge(overflow: &Overflow) -> Finding {
    let (here, dropped) = (overflow.here, overflow.dropped);
    let scope = here.scope();
    let drops = format!("SYN queue full, {} dropped", plural(dropped, "SYN"));
    let (why, backlog) = if overflow.is_unanswered() {
        ("clients do not complete handshakes", String::new())
    } else {
        (
            "more arrive at once than fit",
            format!(
                ", and raise its listen() backlog to {}",
                count(overflow.new_backlog().into())
            ),
        )
    };
    let case = Case::new(here.story, CAUSE, scope.clone())
        .placed(Place::Listener(here.index))
        .title([
            format!("{}: {drops}: {why}.", named(&scope)),
            format!("{}: {drops}: {why}.", named_short(&scope)),
            format!("{}: {drops}.", named_short(&scope)),
        ])
        .fix([format!("Set net.ipv4.tcp_syncookies=1{backlog}.")])
        .affects(
            overflow.times.impact(dropped, here.accepted()),
            overflow.times.lost(here.story, dropped),
        );
    overflow
        .how_sure(case)
        .steps(evidence::steps(overflow, &scope))
        .checks(overflow.times.checks(here, overflow.limit()))
        .advise(advice::advice(overflow, &scope))
        .verify(
            "Under the same load `nstat -az TcpExtTCPReqQFullDrop TcpExtListenDrops` no longer rises, \
             and clients connect without retransmitting their SYN.",
        )
}

impl<'a> Overflow<'a> {
    fn of(here: ListenerPlace<'a>) -> Option<Overflow<'a>> {
        let full = here.rise(counter::TCP_REQ_Q_FULL_DROP);
        let early = early(here);
        let all = full.by.saturating_add(early);
        let repeated = Repeated::of(here);
        let dropped = match here.listener.drops() {
            Some(_) if repeated.count == 0 && here.is_beside_a_full_one() => 0,
            Some(own) => own.min(all),
            // Not sampled: it is the listener that retransmitted SYN-ACKs.
            None if repeated.count > 0 => all,
            None => 0,
        };
        (dropped >= limits::OFTEN.count()).then(|| Overflow {
            here,
            dropped,
            full,
            early,
            times: ConnectTimes::of(here),
            repeated,
        })
    }

    /// The case, with what makes it certain or not.
    fn how_sure(&self, case: Case<'a>) -> Case<'a> {
        let no_counter =
            "drops at three quarters of tcp_max_syn_backlog have no counter of their own";
        let cookies = self.here.setting(sysctl::TCP_SYNCOOKIES);
        let mut case = match (self.full.by, cookies) {
            (0, _) => case.at_most(Level::Medium, no_counter),
            (n, Some(0)) => case.because(format!(
                "TCPReqQFullDrop rises only when a SYN queue is full and cookies are off; it rose by {}",
                count(n)
            )),
            (_, Some(_)) => {
                case.at_most(Level::Medium, "cookies were on when the settings were read")
            }
            (_, None) => {
                case.at_most(Level::Medium, "the setting of tcp_syncookies was not read")
            }
        };
        case = match self.here.listener.drops() {
            Some(own) => case.because(format!("the listener's own drops rose by {}", count(own))),
            None => case.at_most(Level::Medium, "the listener itself was not sampled"),
        };
        if self.times.total() > 0 {
            case = case.rests_on(&[SourceName::States, SourceName::Retransmits]);
        }
        match self.repeated.count {
            0 => case,
            _ => case.rests_on(&[SourceName::SynAckRetransmits]),
        }
    }

    /// Most requests are old: their clients do not answer the SYN-ACK.
    fn is_unanswered(&self) -> bool {
        let fullest = self.here.listener.most_half_open();
        match fullest.filter(|s| s.longest_syn_queue.0 > 0) {
            Some(s) => {
                let longest = s.longest_syn_queue.0;
                let stale = longest.saturating_sub(s.young);
                f64::from(stale) >= limits::SYN_QUEUE_STALE.share() * f64::from(longest)
            }
            None => self.repeated.count >= self.dropped,
        }
    }

    /// The early limit was hit, not the backlog.
    fn is_early(&self) -> bool {
        self.early > self.full.by
    }

    /// The most clients that connected within one round trip.
    fn at_once(&self) -> u64 {
        most_within(&mut self.times.began.clone(), self.rtt_ns())
    }

    fn rtt_ns(&self) -> u64 {
        let usual = median(&mut self.times.at_once.clone());
        usual.unwrap_or(limits::RECORDED_WAIT.ns())
    }

    fn new_backlog(&self) -> u32 {
        let fullest = self.here.listener.most_half_open();
        let peak = fullest.map_or(0, |s| s.longest_syn_queue.0);
        roomy_backlog(self.here, self.at_once().max(peak.into()))
    }

    /// The queue at its longest against the limit that it hit.
    fn limit(&self) -> Option<Check> {
        let sock = self.here.listener.most_half_open()?;
        let max = self.here.setting(sysctl::TCP_MAX_SYN_BACKLOG);
        let (formula, limit) = match max.filter(|_| self.is_early()) {
            Some(max) => (
                "3/4 of tcp_max_syn_backlog = most connections in SYN_RECV",
                max as f64 * limits::SYN_BACKLOG_USED.share(),
            ),
            None => (
                "backlog + 1 = most connections in SYN_RECV",
                f64::from(sock.backlog) + 1.0,
            ),
        };
        let longest = f64::from(sock.longest_syn_queue.0);
        // A burst is over before the next sample: then the samples do not show the limit.
        (longest >= limits::MOST.share() * limit).then(|| Check {
            formula: formula.into(),
            expected: limit,
            measured: longest,
            unit: "connections".into(),
            agrees: longest
                <= limit * (1.0 + limits::SAME_COUNT.share()) + limits::SAME_COUNT_SLACK.number(),
            tolerance: "at most 10 % and 2 above".into(),
        })
    }
}

impl Repeated {
    fn of(here: ListenerPlace) -> Repeated {
        let groups = here.story.packets_at(here.index, What::SynAckRepeated);
        let rows = groups.clone().flat_map(|g| g.rows.iter().copied());
        let clients = groups.clone().flat_map(|g| g.remotes.iter().copied());
        Repeated {
            count: groups.map(|g| g.count).sum(),
            rows: rows.take(SHOWN_ROWS).collect(),
            clients: clients.collect(),
        }
    }
}

/// Cookies are off and the queue came near three quarters of tcp_max_syn_backlog.
fn near_syn_limit(here: ListenerPlace) -> bool {
    let (Some(0), Some(max)) = (
        here.setting(sysctl::TCP_SYNCOOKIES),
        here.setting(sysctl::TCP_MAX_SYN_BACKLOG),
    ) else {
        return false;
    };
    let longest = here.listener.most_half_open();
    let longest = longest.map_or(0, |s| u64::from(s.longest_syn_queue.0));
    limits::MOST.reached(longest, max)
}

/// SYNs dropped because the queue was three quarters full, where there are no cookies.
fn early(here: ListenerPlace) -> u64 {
    if !near_syn_limit(here) {
        return 0;
    }
    let rise = |name| here.rise(name).by;
    let others = rise(counter::LISTEN_OVERFLOWS).saturating_add(rise(counter::TCP_REQ_Q_FULL_DROP));
    rise(counter::LISTEN_DROPS).saturating_sub(others)
}

#[cfg(test)]
mod tests;
