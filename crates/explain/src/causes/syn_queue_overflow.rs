//! C05: half-open requests fill the SYN queue and, without cookies, further SYNs are dropped.

use analysis::stats::most_within;
use analysis::words::{count, fitting, percent, plural};
use analysis::{KEPT_REMOTES, Rise, What};

use crate::finding::Confidence;
use crate::places::listener::{Scene, doubts, raise_backlog, roomy_backlog, scenes};
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
    find,
};

/// When at least this share of the requests in the fullest sample had their SYN-ACK retransmitted,
/// their clients do not answer; in a burst hardly any is that old.
const STALE: f64 = 0.5;
/// Without a measured round trip, SYNs within this time of each other count as simultaneous.
const USUAL_RTT_NS: u64 = 10_000_000;

/// A listener whose SYN queue overflowed.
struct Case<'a> {
    scene: Scene<'a>,
    /// SYNs that it dropped.
    dropped: u64,
    /// TCPReqQFullDrop.
    full: Rise,
    /// SYNs dropped at three quarters of tcp_max_syn_backlog: they have no counter of their own.
    early: u64,
    times: ConnectTimes,
}

fn no(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    let Some(scene) = place.scene() else {
        return place.dropped_on_the_way();
    };
    let full = scene.rise(counter::TCP_REQ_Q_FULL_DROP);
    let tcp_req_q_full_drop = Quantity::count(full.by).rows(full.rows());
    (full.by < MIN_DROPS && Case::of(scene).is_none()).then(|| {
        say!(
            "TCPReqQFullDrop rose by {tcp_req_q_full_drop}",
            tcp_req_q_full_drop
        )
    })
}

fn find(story: &Story) -> Vec<Finding> {
    findings(scenes(story), Case::of, Case::finding)
}

impl<'a> Case<'a> {
    fn of(scene: Scene<'a>) -> Option<Case<'a>> {
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
        let dropped = match scene.listener.drops() {
            Some(own) => own.min(all),
            // Not sampled: a listener that retransmitted SYN-ACKs is the one.
            None if repeated(scene).0 > 0 => all,
            None => 0,
        };
        if !matters(dropped, scene.accepted()) {
            return None;
        }
        Some(Case {
            scene,
            dropped,
            full,
            early,
            times: ConnectTimes::of(scene),
        })
    }

    fn finding(&self) -> Finding {
        let scope = self.scene.scope();
        let checks = self.arithmetic();
        let why = match self.unanswered() {
            true => "clients do not complete handshakes",
            false => "more arrive at once than fit",
        };
        let drops = format!("SYN queue full, {} dropped", plural(self.dropped, "SYN"));
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: Some(Place::Listener(self.scene.index)),
            lost_s: self.times.lost(self.scene.story, self.dropped),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!("{}: {drops}: {why}.", named(&scope)),
                format!("{}: {drops}: {why}.", named_short(&scope)),
                format!("{}: {drops}.", named_short(&scope)),
            ]),
            fix: self.fix(),
            impact: self.times.impact(self.dropped, self.scene.accepted()),
            confidence: self.confidence(&checks),
            evidence: self.evidence(&scope),
            arithmetic: checks,
            ruled_out: Vec::new(),
            advice: self.advice(&scope),
            verify: "Under the same load `nstat -az TcpExtTCPReqQFullDrop TcpExtListenDrops` no \
                     longer rises, and clients connect without retransmitting their SYN."
                .into(),
            scope,
        }
    }

    fn fix(&self) -> String {
        let backlog = match self.unanswered() {
            true => String::new(),
            false => format!(
                ", and raise its listen() backlog to {}",
                count(self.new_backlog().into())
            ),
        };
        format!("Set net.ipv4.tcp_syncookies=1{backlog}.")
    }

    /// Most requests are old: their clients do not answer the SYN-ACK.
    fn unanswered(&self) -> bool {
        let fullest = self.scene.listener.most_half_open();
        match fullest.filter(|s| s.longest_syn_queue.0 > 0) {
            Some(s) => {
                let longest = s.longest_syn_queue.0;
                let stale = longest.saturating_sub(s.young);
                f64::from(stale) >= STALE * f64::from(longest)
            }
            None => repeated(self.scene).0 >= self.dropped,
        }
    }

    /// The most clients that connected within one round trip.
    fn at_once(&self) -> u64 {
        let width = self.rtt_ns();
        most_within(&mut self.times.began.clone(), width)
    }

    fn rtt_ns(&self) -> u64 {
        let usual = analysis::stats::median(&mut self.times.at_once.clone());
        usual.unwrap_or(USUAL_RTT_NS)
    }

    fn new_backlog(&self) -> u32 {
        let fullest = self.scene.listener.most_half_open();
        let peak = fullest.map_or(0, |s| s.longest_syn_queue.0);
        roomy_backlog(self.scene, self.at_once().max(peak.into()))
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        match (self.full.by, self.scene.setting(sysctl::TCP_SYNCOOKIES)) {
            (0, _) => c.at_most(
                Level::Medium,
                "drops at three quarters of tcp_max_syn_backlog have no counter of their own",
            ),
            (n, Some(0)) => c.because(format!(
                "TCPReqQFullDrop rises only when a SYN queue is full and cookies are off; it rose \
                 by {}",
                count(n)
            )),
            (_, Some(_)) => c.at_most(Level::Medium, "cookies were on when the settings were read"),
            (_, None) => c.at_most(Level::Medium, "the setting of tcp_syncookies was not read"),
        }
        match self.scene.listener.drops() {
            Some(own) => c.because(format!("the listener's own drops rose by {}", count(own))),
            None => c.at_most(Level::Medium, "the listener itself was not sampled"),
        }
        self.times.weigh(self.scene, &mut c, checks);
        if repeated(self.scene).0 > 0 {
            doubts(self.scene.story, &mut c, &[SourceName::SynAckRetransmits]);
        }
        c
    }

    fn evidence(&self, scope: &Scope) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend(self.times.step());
        steps.push(self.drops_step());
        steps.extend(self.queue_step(scope));
        steps.extend(self.clients_step());
        steps.push(self.cookies_step());
        steps
    }

    fn drops_step(&self) -> Step {
        let drops = self.scene.rise(counter::LISTEN_DROPS);
        let own = self.scene.listener.drops();
        let own_says = match own {
            Some(n) => format!("; this listener's own count rose by {}", count(n)),
            None => String::new(),
        };
        Step::new(format!(
            "In its namespace {} were dropped because a SYN queue was full (TCPReqQFullDrop), {} \
             by listeners in all (ListenDrops){own_says}.",
            plural(self.full.by, "SYN"),
            count(drops.by)
        ))
        .number(counter::short(counter::TCP_REQ_Q_FULL_DROP), self.full.by)
        .number(counter::short(counter::LISTEN_DROPS), drops.by)
        .number("early_drops", self.early)
        .number_if("listener_drops", own)
        .rows(self.full.rows())
        .rows(drops.rows())
        .rows(self.scene.listener.most_half_open().map(|s| s.last_row))
    }

    fn queue_step(&self, scope: &Scope) -> Option<Step> {
        let sock = self.scene.listener.most_half_open()?;
        let (longest, row) = sock.longest_syn_queue;
        let max = self.scene.setting(sysctl::TCP_MAX_SYN_BACKLOG);
        let limit = match (self.early > self.full.by, max) {
            (true, Some(max)) => format!(
                "; without cookies it is kept below three quarters of tcp_max_syn_backlog={}",
                count(max)
            ),
            _ => String::new(),
        };
        let step = Step::new(format!(
            "Up to {} were half-open when it was sampled, {} of them with their SYN-ACK sent once. \
             The limit is the backlog that {} gave to listen(): {}{limit}.",
            plural(longest.into(), "connection"),
            count(sock.young.into()),
            application(scope),
            count(sock.backlog.into())
        ))
        .number("longest_syn_queue", longest)
        .number("young", sock.young)
        .number("backlog", sock.backlog)
        .number_if("somaxconn", self.scene.setting(sysctl::SOMAXCONN))
        .number_if("tcp_max_syn_backlog", max)
        .rows([row])
        .rows(self.scene.call_row());
        Some(step)
    }

    /// Why the queue is full: who fills it.
    fn clients_step(&self) -> Option<Step> {
        let (repeats, rows, remotes) = repeated(self.scene);
        if repeats > 0 {
            let most = remotes.iter().max_by_key(|(addr, n)| (*n, *addr));
            let from = match (most, remotes.len()) {
                (Some((addr, n)), many) => format!(
                    " to {}{}, {} of them ({}) to {addr}",
                    if many >= KEPT_REMOTES {
                        "at least "
                    } else {
                        ""
                    },
                    match many {
                        1 => "1 address".into(),
                        many => format!("{} addresses", count(many as u64)),
                    },
                    count(*n),
                    percent(*n as f64 / repeats as f64)
                ),
                (None, _) => String::new(),
            };
            let step = Step::new(format!(
                "{} retransmitted{from}: these clients do not complete the handshake.",
                match repeats {
                    1 => "1 SYN-ACK was".into(),
                    n => format!("{} SYN-ACKs were", count(n)),
                }
            ))
            .number("synack_retransmits", repeats)
            .number("addresses", remotes.len())
            .rows(rows);
            return Some(step);
        }
        let at_once = self.at_once();
        if at_once == 0 {
            return None;
        }
        let step = Step::new(format!(
            "{} connected within one round trip.",
            plural(at_once, "client")
        ))
        .number("arrived_at_once", at_once)
        .number("rtt_ms", self.rtt_ns() as f64 / 1e6)
        .rows(self.times.rows.iter().copied());
        Some(step)
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

    fn arithmetic(&self) -> Vec<Check> {
        let sock = self.scene.listener.most_half_open();
        let limit = sock.and_then(|sock| {
            let backlog = f64::from(sock.backlog) + 1.0;
            let three_quarters = self
                .scene
                .setting(sysctl::TCP_MAX_SYN_BACKLOG)
                .map(|max| max as f64 * 0.75);
            let (formula, limit) = match three_quarters {
                Some(limit) if self.early > self.full.by => (
                    "3/4 of tcp_max_syn_backlog = most half-open connections",
                    limit,
                ),
                _ => ("backlog + 1 = most half-open connections", backlog),
            };
            let longest = f64::from(sock.longest_syn_queue.0);
            // A burst is over before the next sample: then the samples do not show the limit.
            (longest >= 0.5 * limit).then(|| Check {
                formula: formula.into(),
                expected: limit,
                measured: longest,
                unit: "connections".into(),
                agrees: longest <= limit * 1.1 + 2.0,
                tolerance: "not above it by more than 10 % and 2".into(),
            })
        });
        self.times.checks(self.scene, limit)
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let timestamps_off = self.scene.setting(sysctl::TCP_TIMESTAMPS) == Some(0);
        let risk = match timestamps_off {
            true => {
                "With timestamps off, connections made from a cookie lose SACK and window scaling: \
                 turn them on as well."
            }
            false => "None to speak of: with timestamps on, cookies keep SACK and window scaling.",
        };
        let expected = format!(
            "The {} would have been answered; none waits for a second SYN.",
            plural(self.dropped, "dropped SYN")
        );
        let mut advice = vec![set_sysctl(
            &scope.netns,
            sysctl::TCP_SYNCOOKIES,
            1,
            risk,
            expected,
        )];
        if timestamps_off {
            let expected = "Connections made from a cookie keep SACK and window scaling.".into();
            let risk = "12 bytes per segment, nothing else today.";
            advice.push(set_sysctl(
                &scope.netns,
                sysctl::TCP_TIMESTAMPS,
                1,
                risk,
                expected,
            ));
        }
        let backlog = self.new_backlog();
        let expected = match self.unanswered() {
            true => {
                "Little: requests that nobody completes fill any queue; cookies do not need it."
                    .into()
            }
            false => format!("{} half-open connections fit.", count(backlog.into())),
        };
        let risk = "Restarting breaks present connections.";
        advice.extend(raise_backlog(self.scene, scope, backlog, risk, expected));
        if let Some(max) = self.scene.setting(sysctl::TCP_MAX_SYN_BACKLOG)
            && max.saturating_mul(3) / 4 <= u64::from(backlog)
        {
            let expected = "Only if cookies stay off: their early limit, three quarters of this \
                            value, no longer comes before the backlog."
                .into();
            let twice = u64::from(backlog) * 2;
            let risk = "Kernel memory for that many requests.";
            advice.push(set_sysctl(
                &scope.netns,
                sysctl::TCP_MAX_SYN_BACKLOG,
                twice,
                risk,
                expected,
            ));
        }
        advice
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

/// SYN-ACKs that the listener retransmitted: how many, rows, and the clients.
fn repeated(scene: Scene) -> (u64, Vec<RowRef>, Vec<(recording::Addr, u64)>) {
    let groups = scene.story.packets_at(scene.index, What::SynAckRepeated);
    let total = groups.clone().map(|g| g.count).sum();
    let rows = groups.clone().flat_map(|g| g.rows.iter().copied());
    let remotes = groups.flat_map(|g| g.remotes.iter().copied());
    (total, rows.take(SHOWN_ROWS).collect(), remotes.collect())
}

#[cfg(test)]
mod tests;
