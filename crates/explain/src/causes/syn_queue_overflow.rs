//! C05: half-open requests fill the SYN queue and, without cookies, further SYNs are dropped.

use analysis::stats::{median, most_within};
use analysis::words::{count, plural};
use analysis::{KEPT_REMOTES, Rise, What};
use recording::Addr;

use crate::places::listener::{Scene, raise_backlog, roomy_backlog, scenes};
use crate::places::lost_syn::{ConnectTimes, MIN_DROPS, matters};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SYN_QUEUE_OVERFLOW,
    number: "C05",
    title: "the SYN queue is full and cookies are off",
    page: include_str!("syn_queue_overflow.md"),
    ground: Ground::Listeners,
    needs: &[
        &[SourceName::Sockets],
        &[SourceName::Drops, SourceName::Counters],
    ],
    seen_from: "10 dropped SYNs, 0.1 % of those that arrive",
    rivals: &[
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
    ],
    explains: &[],
    no: Some(no),
    symptom: Some(Symptom::Connects),
    find: |story| {
        scenes(story)
            .filter_map(Overflow::of)
            .map(|o| judge(&o))
            .collect()
    },
};

/// When at least this share of the requests in the fullest sample had their SYN-ACK retransmitted,
/// their clients do not answer; in a burst hardly any is that old.
const STALE: f64 = 0.5;
/// Without a measured round trip, SYNs within this time of each other count as simultaneous.
const USUAL_RTT_NS: u64 = 10_000_000;

/// A listener whose SYN queue overflowed.
struct Overflow<'a> {
    scene: Scene<'a>,
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
    /// To whom, and how often.
    clients: Vec<(Addr, u64)>,
}

fn no(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    let Some(scene) = place.scene() else {
        return place.dropped_on_the_way();
    };
    let full = scene.rise(counter::TCP_REQ_Q_FULL_DROP);
    let tcp_req_q_full_drop = Quantity::count(full.by).rows(full.rows());
    (full.by < MIN_DROPS && Overflow::of(scene).is_none()).then(|| {
        say!(
            "TCPReqQFullDrop rose by {tcp_req_q_full_drop}",
            tcp_req_q_full_drop
        )
    })
}

fn judge(overflow: &Overflow) -> Finding {
    let (scene, dropped) = (overflow.scene, overflow.dropped);
    let scope = scene.scope();
    let (own, repeated) = (scene.listener.drops(), overflow.repeated.count);
    let drops = format!("SYN queue full, {} dropped", plural(dropped, "SYN"));
    let (why, backlog) = match overflow.is_unanswered() {
        true => ("clients do not complete handshakes", String::new()),
        false => (
            "more arrive at once than fit",
            format!(
                ", and raise its listen() backlog to {}",
                count(overflow.new_backlog().into())
            ),
        ),
    };
    let mut case = Case::new(scene.story, CAUSE, scope.clone())
        .placed(Place::Listener(scene.index))
        .title([
            format!("{}: {drops}: {why}.", named(&scope)),
            format!("{}: {drops}: {why}.", named_short(&scope)),
            format!("{}: {drops}.", named_short(&scope)),
        ])
        .fix([format!("Set net.ipv4.tcp_syncookies=1{backlog}.")])
        .affects(
            overflow.times.impact(dropped, scene.accepted()),
            overflow.times.lost(scene.story, dropped),
        )
        .at_most(
            Level::Medium,
            overflow.full.by == 0,
            "drops at three quarters of tcp_max_syn_backlog have no counter of their own",
        );
    case = match scene.setting(sysctl::TCP_SYNCOOKIES) {
        _ if overflow.full.by == 0 => case,
        Some(0) => case.because(format!(
            "TCPReqQFullDrop rises only when a SYN queue is full and cookies are off; it rose by {}",
            count(overflow.full.by)
        )),
        known => {
            let why = match known {
                Some(_) => "cookies were on when the settings were read",
                None => "the setting of tcp_syncookies was not read",
            };
            case.at_most(Level::Medium, true, why)
        }
    };
    case = match own {
        Some(own) => case.because(format!("the listener's own drops rose by {}", count(own))),
        None => case.at_most(Level::Medium, true, "the listener itself was not sampled"),
    };
    if overflow.times.total() > 0 {
        case = case.rests_on(&[SourceName::States, SourceName::Retransmits]);
    }
    if repeated > 0 {
        case = case.rests_on(&[SourceName::SynAckRetransmits]);
    }
    case.steps(overflow.times.step())
        .steps([overflow.drops_step()])
        .steps(overflow.queue_step(&scope))
        .steps(overflow.clients_step())
        .steps([overflow.cookies_step()])
        .checks(overflow.times.checks(scene, overflow.limit()))
        .advise(overflow.advice(&scope))
        .verify(
            "Under the same load `nstat -az TcpExtTCPReqQFullDrop TcpExtListenDrops` no longer rises, \
             and clients connect without retransmitting their SYN.",
        )
}

impl<'a> Overflow<'a> {
    fn of(scene: Scene<'a>) -> Option<Overflow<'a>> {
        let full = scene.rise(counter::TCP_REQ_Q_FULL_DROP);
        let overflows = scene.rise(counter::LISTEN_OVERFLOWS).by;
        let early = match near_syn_limit(scene) {
            true => scene
                .rise(counter::LISTEN_DROPS)
                .by
                .saturating_sub(overflows.saturating_add(full.by)),
            false => 0,
        };
        let all = full.by.saturating_add(early);
        let repeated = Repeated::of(scene);
        let dropped = match scene.listener.drops() {
            Some(own) => own.min(all),
            // Not sampled: a listener that retransmitted SYN-ACKs is the one.
            None if repeated.count > 0 => all,
            None => 0,
        };
        matters(dropped, scene.accepted()).then(|| Overflow {
            scene,
            dropped,
            full,
            early,
            times: ConnectTimes::of(scene),
            repeated,
        })
    }

    /// Most requests are old: their clients do not answer the SYN-ACK.
    fn is_unanswered(&self) -> bool {
        let fullest = self.scene.listener.most_half_open();
        match fullest.filter(|s| s.longest_syn_queue.0 > 0) {
            Some(s) => {
                let longest = s.longest_syn_queue.0;
                let stale = longest.saturating_sub(s.young);
                f64::from(stale) >= STALE * f64::from(longest)
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
        usual.unwrap_or(USUAL_RTT_NS)
    }

    fn new_backlog(&self) -> u32 {
        let fullest = self.scene.listener.most_half_open();
        let peak = fullest.map_or(0, |s| s.longest_syn_queue.0);
        roomy_backlog(self.scene, self.at_once().max(peak.into()))
    }

    fn drops_step(&self) -> Step {
        let drops = self.scene.rise(counter::LISTEN_DROPS);
        let own = self.scene.listener.drops();
        let own_says = match own {
            Some(n) => format!("; this listener's own count rose by {}", count(n)),
            None => String::new(),
        };
        let queue_full = Quantity::of(self.full.by, "SYN").rows(self.full.rows());
        let all = Quantity::count(drops.by).rows(drops.rows());
        let step = Step::new(format!(
            "In its namespace {queue_full} were dropped because a SYN queue was full \
             (TCPReqQFullDrop), {all} by listeners in all (ListenDrops){own_says}."
        ));
        let step = queue_full.told(counter::short(counter::TCP_REQ_Q_FULL_DROP), step);
        all.told(counter::short(counter::LISTEN_DROPS), step)
            .number("early_drops", self.early)
            .number_if("listener_drops", own)
            .rows(self.scene.listener.most_half_open().map(|s| s.last_row))
    }

    fn queue_step(&self, scope: &Scope) -> Option<Step> {
        let sock = self.scene.listener.most_half_open()?;
        let (longest, row) = sock.longest_syn_queue;
        let app = application(scope);
        let max = self.scene.setting(sysctl::TCP_MAX_SYN_BACKLOG);
        let limit = match max.filter(|_| self.is_early()) {
            Some(max) => format!(
                "; without cookies it is kept below three quarters of tcp_max_syn_backlog={}",
                count(max)
            ),
            None => String::new(),
        };
        let step = say!(
            "Up to {longest_syn_queue} were half-open when it was sampled, {young} of them with their \
             SYN-ACK sent once. The limit is the backlog that {app} gave to listen(): {backlog}{limit}.",
            longest_syn_queue = Quantity::of(longest, "connection").rows([row]),
            young = Quantity::count(sock.young),
            backlog = Quantity::count(sock.backlog).rows(self.scene.call_row())
        );
        let somaxconn = self.scene.setting(sysctl::SOMAXCONN);
        let step = step.number_if("somaxconn", somaxconn);
        Some(step.number_if("tcp_max_syn_backlog", max))
    }

    /// Why the queue is full: who fills it.
    fn clients_step(&self) -> Option<Step> {
        if self.repeated.count > 0 {
            return Some(self.repeated.step());
        }
        let arrived_at_once = Quantity::of(self.at_once(), "client");
        let step = say!(
            "{arrived_at_once} connected within one round trip.",
            arrived_at_once
        );
        let step = step.number("rtt_ms", self.rtt_ns() as f64 / 1e6);
        let step = step.rows(self.times.rows.iter().copied());
        (self.at_once() > 0).then_some(step)
    }

    fn cookies_step(&self) -> Step {
        let cookies = self.scene.setting(sysctl::TCP_SYNCOOKIES);
        let says = match cookies {
            Some(0) => {
                "net.ipv4.tcp_syncookies=0: a SYN that finds the queue full is dropped instead of \
                 answered."
            }
            _ => "SYNs that found the queue full were dropped, not answered with a cookie.",
        };
        Step::new(says)
            .number_if("tcp_syncookies", cookies)
            .rows(self.scene.setting_row(sysctl::TCP_SYNCOOKIES))
            .rows(self.full.rows().take(1))
    }

    /// The queue at its longest against the limit that it hit.
    fn limit(&self) -> Option<Check> {
        let sock = self.scene.listener.most_half_open()?;
        let max = self.scene.setting(sysctl::TCP_MAX_SYN_BACKLOG);
        let (formula, limit) = match max.filter(|_| self.is_early()) {
            Some(max) => (
                "3/4 of tcp_max_syn_backlog = most half-open connections",
                max as f64 * 0.75,
            ),
            None => (
                "backlog + 1 = most half-open connections",
                f64::from(sock.backlog) + 1.0,
            ),
        };
        let longest = f64::from(sock.longest_syn_queue.0);
        // A burst is over before the next sample: then the samples do not show the limit.
        (longest >= 0.5 * limit).then(|| Check {
            formula: formula.into(),
            expected: limit,
            measured: longest,
            unit: "connections",
            agrees: longest <= limit * 1.1 + 2.0,
            tolerance: "not above it by more than 10 % and 2".into(),
        })
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let set =
            |name, value, risk, effect: String| set_sysctl(&scope.netns, name, value, risk, effect);
        let timestamps_off = self.scene.setting(sysctl::TCP_TIMESTAMPS) == Some(0);
        let cookies = set(
            sysctl::TCP_SYNCOOKIES,
            1,
            match timestamps_off {
                true => {
                    "With timestamps off, connections made from a cookie lose SACK and window scaling: \
                     turn them on as well."
                }
                false => {
                    "None to speak of: with timestamps on, cookies keep SACK and window scaling."
                }
            },
            format!(
                "The {} would have been answered; none waits for a second SYN.",
                plural(self.dropped, "dropped SYN")
            ),
        );
        let timestamps = timestamps_off.then(|| {
            set(
                sysctl::TCP_TIMESTAMPS,
                1,
                "12 bytes per segment, nothing else today.",
                "Connections made from a cookie keep SACK and window scaling.".into(),
            )
        });
        let backlog = self.new_backlog();
        let effect = match self.is_unanswered() {
            true => {
                "Little: requests that nobody completes fill any queue; cookies do not need it."
                    .into()
            }
            false => format!("{} half-open connections fit.", count(backlog.into())),
        };
        let risk = "Restarting breaks present connections.";
        let roomy = raise_backlog(self.scene, scope, backlog, risk, effect);
        let max = self.scene.setting(sysctl::TCP_MAX_SYN_BACKLOG);
        let max = max.filter(|max| max.saturating_mul(3) / 4 <= u64::from(backlog));
        let early = max.map(|_| {
            set(
                sysctl::TCP_MAX_SYN_BACKLOG,
                u64::from(backlog) * 2,
                "Kernel memory for that many requests.",
                "Only if cookies stay off: their early limit, three quarters of this value, no longer \
                 comes before the backlog."
                    .into(),
            )
        });
        let first = std::iter::once(cookies).chain(timestamps);
        first.chain(roomy).chain(early).collect()
    }
}

impl Repeated {
    fn of(scene: Scene) -> Repeated {
        let groups = scene.story.packets_at(scene.index, What::SynAckRepeated);
        let rows = groups.clone().flat_map(|g| g.rows.iter().copied());
        let clients = groups.clone().flat_map(|g| g.remotes.iter().copied());
        Repeated {
            count: groups.map(|g| g.count).sum(),
            rows: rows.take(SHOWN_ROWS).collect(),
            clients: clients.collect(),
        }
    }

    fn step(&self) -> Step {
        let addresses = self.clients.len();
        let least = match addresses >= KEPT_REMOTES {
            true => "at least ",
            false => "",
        };
        let several = match addresses {
            1 => "1 address".into(),
            n => format!("{} addresses", count(n as u64)),
        };
        let most = self.clients.iter().max_by_key(|(addr, n)| (*n, *addr));
        let to = most.map_or(String::new(), |(addr, n)| {
            let share = Quantity::share(*n as f64 / self.count as f64);
            let n = count(*n);
            format!(" to {least}{several}, {n} of them ({share}) to {addr}")
        });
        let were = if self.count == 1 { "was" } else { "were" };
        say!(
            "{synack_retransmits} {were} retransmitted{to}: these clients do not complete the \
             handshake.",
            synack_retransmits =
                Quantity::of(self.count, "SYN-ACK").rows(self.rows.iter().copied())
        )
        .number("addresses", addresses)
    }
}

/// Cookies are off and the queue came near three quarters of tcp_max_syn_backlog.
fn near_syn_limit(scene: Scene) -> bool {
    let (Some(0), Some(max)) = (
        scene.setting(sysctl::TCP_SYNCOOKIES),
        scene.setting(sysctl::TCP_MAX_SYN_BACKLOG),
    ) else {
        return false;
    };
    let longest = scene.listener.most_half_open();
    let longest = longest.map_or(0, |s| u64::from(s.longest_syn_queue.0));
    longest.saturating_mul(10) >= max.saturating_mul(7)
}

#[cfg(test)]
mod tests;
