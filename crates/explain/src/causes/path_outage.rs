//! C54: for a while nothing passed between two addresses, and then it did again.

use analysis::STALL;
use analysis::words::{count, plural};

use crate::limits;
use crate::moment::{Began, Since};
use crate::places::path::{End, Path, paths_of, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PATH_OUTAGE,
    number: "C54",
    title: "nothing passes for a while",
    page: include_str!("path_outage.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: || {
        "3 timeouts in a row on two connections at once, and on most established ones, over 1 s"
            .into()
    },
    signature: &[
        "all requests to one host hang at once for seconds and then resume",
        "spikes of 1 s, 3 s, 6 s at one moment",
        "link flap, failover",
    ],
    rivals: &[
        Id::PATH_LOSS,
        Id::PEER_GONE,
        Id::QDISC_DROP,
        Id::LOCAL_FIREWALL_DROP,
    ],
    explains: &[
        Id::PATH_LOSS,
        Id::TAIL_LOSS,
        Id::SLOW_PEER,
        Id::ROUTE_OR_NEIGHBOUR_FAILURE,
    ],
    told_with: Some(ToldWith::Paths("were cut off for a while")),
    no: None,
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| find(whole.story).into(),
};

/// Two addresses between which nothing passed.
struct Outage<'a> {
    path: Path<'a>,
    hung: Vec<End<'a>>,
    /// Connections that were established throughout.
    stood: u64,
    /// All of them hung from here to there, ns.
    from_ns: u64,
    to_ns: u64,
}

fn find(story: &Story) -> Vec<Finding> {
    let mut all: Vec<Outage> = paths_of(story, 0)
        .into_iter()
        .filter_map(Outage::of)
        .collect();
    // Both sides see an outage between two namespaces of this host: then the side that asks is taken.
    all.sort_by_key(|o| std::cmp::Reverse((o.asks(), o.waited_ns())));
    let mut told: Vec<Outage> = Vec::new();
    for outage in all {
        if !told.iter().any(|t| t.is_other_way_of(&outage)) {
            told.push(outage);
        }
    }
    told.iter().map(Outage::judge).collect()
}

/// Whether its oldest segment was retransmitted on the timer three times in a row, and was acknowledged later.
fn hung(story: &Story, end: &End) -> bool {
    let stall = &end.transfer.stall;
    let lost = end.conn.ended_ns.is_some() && end.conn.failed();
    let hung = stall.in_a_row() >= STALL && stall.spoken && stall.before == 0;
    hung && !lost && end.stuck(story).is_none()
}

/// Whether the first segment that it sent hung: where the accept queue is full, the last ACK of the handshake is
/// dropped with all that follows, so that this says nothing about the path.
fn began(end: &End) -> bool {
    let stall = &end.transfer.stall;
    stall.in_a_row() >= STALL && !stall.spoken
}

impl<'a> Outage<'a> {
    fn of(path: Path<'a>) -> Option<Outage<'a>> {
        let story = path.story;
        let hung: Vec<End> = path
            .ends
            .iter()
            .filter(|e| hung(story, e))
            .copied()
            .collect();
        // The time that most have in common: those that hung at another time have another reason.
        let mut begins: Vec<u64> = hung.iter().map(|e| e.transfer.stall.first_ns).collect();
        begins.sort_unstable();
        let middle = *begins.get(begins.len() / 2)?;
        let then = |e: &End| {
            let stall = &e.transfer.stall;
            let after = |ns: u64| ns.saturating_sub(middle);
            after(stall.first_ns) <= limits::OUTAGE.ns()
                && after(stall.last_ns) >= limits::OUTAGE.ns()
        };
        let hung: Vec<End> = hung.into_iter().filter(then).collect();
        let from_ns = hung.iter().map(|e| e.transfer.stall.first_ns).max()?;
        let to_ns = hung.iter().map(|e| e.transfer.stall.last_ns).min()?;
        let stands = |e: &&End| {
            let sends = e.transfer.flying > 0 || e.transfer.segments() > 0;
            let until = e.conn.ended_ns.unwrap_or(u64::MAX);
            sends && !began(e) && e.conn.start_ns <= from_ns && until >= to_ns
        };
        let stood = path.ends.iter().filter(stands).count().max(hung.len());
        let timeouts: u64 = hung.iter().map(|e| e.transfer.stall.timeouts).sum();
        let dropped: u64 = hung.iter().map(|e| story.dropped(e.conn)).sum();
        let is_one = hung.len() >= limits::OFTEN_TO_SEVERAL.as_usize()
            && limits::NEARLY_ALL.reached(hung.len(), stood)
            && to_ns.saturating_sub(from_ns) >= limits::OUTAGE.ns()
            && !limits::MOST.reached(dropped, timeouts);
        is_one.then_some(Outage {
            path,
            hung,
            stood: stood as u64,
            from_ns,
            to_ns,
        })
    }

    /// For how long all of them hung, ns.
    fn together_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// Most of those that hung were opened here.
    fn asks(&self) -> bool {
        let asks = self.hung.iter().filter(|e| e.conn.asks()).count();
        limits::MOST.exceeded(asks, self.hung.len())
    }

    /// For how long nothing passed, at least, ns: the last retransmission may have got through.
    fn down_ns(&self) -> u64 {
        let stalls = || self.hung.iter().map(|e| &e.transfer.stall);
        let first = stalls().map(|s| s.first_ns).min().unwrap_or(0);
        let failed = stalls().map(|s| s.failed_ns).max().unwrap_or(0);
        failed.saturating_sub(first)
    }

    fn is_other_way_of(&self, other: &Outage) -> bool {
        let ends = |o: &Outage<'_>| (o.path.from, o.path.to);
        let (from, to) = ends(self);
        ends(other) == (to, from) && self.from_ns <= other.to_ns && other.from_ns <= self.to_ns
    }

    /// For each, from its first timer until its last retransmission.
    fn waits(&self) -> impl Iterator<Item = (End<'a>, u64)> + '_ {
        self.hung.iter().map(|e| {
            let stall = &e.transfer.stall;
            let timer = u64::from(e.transfer.rto_us).saturating_mul(1_000);
            let hung_ns = stall.last_ns.saturating_sub(stall.first_ns);
            (*e, hung_ns.saturating_add(timer))
        })
    }

    fn waited_ns(&self) -> u64 {
        self.waits().map(|(_, ns)| ns).fold(0, u64::saturating_add)
    }

    fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        for (end, ns) in self.waits() {
            lost.add(end.conn, State::Repair, ns);
        }
        lost.in_outage(Some(self.together_ns()))
    }

    /// What this host itself dropped meanwhile because the next hop was not found.
    fn dropped(&self) -> Option<Step> {
        let story = self.path.story;
        let groups = story.packets.all().iter().filter(|g| {
            let there =
                g.netns == self.path.netns && g.remotes.iter().any(|r| r.addr == self.path.from);
            let neighbour = |r: &str| r.starts_with("NEIGH_");
            there && g.last_ns >= self.from_ns && g.reason.as_deref().is_some_and(neighbour)
        });
        let (mut n, mut rows) = (0, Vec::new());
        for group in groups {
            n += group.count;
            rows.extend(group.rows.iter().copied().take(SHOWN_ROWS));
        }
        (n > 0).then(|| {
            say!(
                "{dropped} of them never left this host: the next hop did not answer ARP or neighbour discovery.",
                dropped = Quantity::of(n, "packet").rows(rows)
            )
        })
    }

    fn steps(&self) -> [Step; 2] {
        let stalls = || self.hung.iter().map(|e| &e.transfer.stall);
        let rows = stalls().flat_map(|s| s.rows.into_iter().flatten());
        let timeouts = stalls().map(|s| s.timeouts).sum::<u64>();
        let (from, to) = (self.path.from, self.path.to);
        let tries = say!(
            "{hung} of {stood} from {from} to {to} retransmitted the same segment {timeouts} on the RTO, all of them \
             at the same time.",
            hung = Quantity::count(self.hung.len() as u64),
            stood = Quantity::of(self.stood, "connection"),
            timeouts = Quantity::times(timeouts).rows(rows.take(2 * SHOWN_ROWS))
        );
        let back = say!(
            "They hung together for {together_s}, and were then answered: neither closed, nor lost one by one. \
             Nothing passed for at least {down_s}; each then waited for its timer.",
            together_s = Quantity::ns(self.together_ns()),
            down_s = Quantity::ns(self.down_ns())
        );
        [tries, back]
    }

    fn judge(&self) -> Finding {
        let path = &self.path;
        let (story, from, to) = (path.story, path.from, path.to);
        let together = Quantity::ns(self.together_ns());
        let n = plural(self.hung.len() as u64, "connection");
        let scope = Scope {
            resource: Some(format!("path {from} → {to}")),
            ..senders(story, path.netns, &self.hung, None)
        };
        let netns = scope.netns.clone();
        let since = self.hung.iter().map(|e| e.transfer.stall.first_ns).min();
        let says = format!(
            "{} of {} hung together, for {together}.",
            count(self.hung.len() as u64),
            plural(self.stood, "established connection")
        );
        Case::new(story, CAUSE, scope)
            .placed(Place::ends(&self.hung))
            .since(Since::at(story, since.unwrap_or(story.start_ns), Began::Seen))
            .title([
                format!("{n} from {from} to {to} hung at once for {together}, and then resumed."),
                format!("{n} to {to} hung at once for {together}, and then resumed."),
                format!("{n} to {to} hung at once for {together}."),
            ])
            .fix([
                format!("Find what cut {from} off from {to} then: a flapping link, a failover, a route."),
                "Find what cut the path then: a flapping link, a failover, a route.".into(),
            ])
            .affects(
                Impact::of(self.hung.len() as u64, self.stood, "connections", says),
                self.lost(),
            )
            .because("nearly all connections between two addresses hung at the same time, and resumed later")
            .at_most_if(
                Level::Medium,
                !path.whole(),
                "the other host is not visible: a paused host looks like a path that is cut",
            )
            .rests_on(&[SourceName::Retransmits, SourceName::Drops])
            .steps(self.steps())
            .steps(self.dropped())
            .advise([
                Advice::to("See which interface lost its carrier, here and on the path.")
                    .by(command_in(&netns, shell!("grep . /sys/class/net/*/carrier_changes")))
                    .at(format!("{from}, {to} and the devices between them"))
                    .risk("None: it only reads.")
                    .effect("Names the link, if it was one: then check its cable, its peer, its bonding.")
                    .change(Change::RepairPath {
                        from: from.to_string(),
                        to: to.to_string(),
                    }),
                Advice::to(
                    "Or shorten the timers (TCP_RTO_MAX_MS, net.ipv4.tcp_rto_max_ms, Linux 6.15): connections resume \
                     sooner once the path is back.",
                )
                .at(format!("the senders at {from}"))
                .risk("More retransmissions into a congested path.")
                .effect("No timer is longer than that: neither is the wait after an outage."),
            ])
            .verify(sentence!("`tcpwhy trace retransmits --addr {to}` shows no bursts of `rto` on many connections \
                               at once.", to))
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let ends = || whole.ends().iter().filter(|e| !e.conn.remote.is_loopback());
    let way = |e: &End| (e.conn.netns, e.conn.local.addr, e.conn.remote.addr);
    let hung = || ends().filter(|e| hung(story, e));
    let (n, of) = (Whole::most_by(hung().map(way)), ends().count() as u64);
    let rows = hung()
        .flat_map(|e| e.transfer.rows.first().copied())
        .take(SHOWN_ROWS);
    let step = say!(
        "{hung} of {connections} hung for three timeouts in a row, and resumed",
        hung = Quantity::count(n).rows(rows),
        connections = Quantity::of(of, "sampled connection")
    );
    Verdict::events(n, of, &limits::OFTEN_TO_SEVERAL, step, NO_PATH)
}

#[cfg(test)]
mod tests;
