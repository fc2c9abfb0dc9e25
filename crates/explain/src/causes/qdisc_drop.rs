//! C14: a queueing discipline of this host drops what its connections send.

use std::collections::{BTreeMap, BTreeSet};

use ahash::{AHashMap, AHashSet};
use analysis::Dropped;
use analysis::stats::ratio;
use recording::Text;

use crate::limits;
use crate::places::path::{End, limited, min_rtt_us, paths, rate, sample_rows, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::QDISC_DROP,
    number: "C14",
    title: "a queueing discipline of this host drops packets",
    page: include_str!("qdisc_drop.md"),
    layer: Layer::ThisHost,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Drops], &[SourceName::Sockets]],
    seen_from: || "20 dropped packets, 0.3 % of the segments sent".into(),
    signature: &[
        "retransmissions as soon as the rate is high, and tc -s qdisc counts dropped",
        "throughput far below the shaper's rate",
        "packet loss only under load, and the sending host drops",
    ],
    rivals: &[Id::PATH_LOSS, Id::LOCAL_FIREWALL_DROP],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| places(whole.story).iter().filter_map(judge).collect(),
};

/// Round trips at the full rate that a queue must hold for few senders to fill the link.
const ADVISED_ROUND_TRIPS: f64 = 2.0;
/// Beyond this number, devices are only counted.
const SHOWN_INTERFACES: usize = 3;
/// The smallest queue that is advised: some large packets.
const ADVISED_QUEUE: f64 = 100_000.0;

/// What the queueing disciplines of a namespace dropped, for any destination: it leaves through one device.
struct Egress<'a> {
    story: &'a Story,
    netns: u32,
    /// By flow.
    flows: Vec<&'a Dropped>,
    /// Where these went.
    to: BTreeMap<Endpoint, There>,
    /// Connections of the namespace, hit or not, and those of others that pass through it.
    of: u64,
    /// The ends among them that were sampled while they sent.
    ends: Vec<End<'a>>,
    /// Devices other than loopback that may have dropped them, with the bytes per second that they sent.
    devices: Vec<(Text, f64, RowRef)>,
    /// How many ends sent.
    sending: usize,
}

/// The destination of dropped packets.
#[derive(Default)]
struct There {
    /// Flows that lost some packets, from any sender.
    hit: u64,
    /// Connections seen here that go there, and leave by the same way.
    conns: u64,
}

fn no(asked: &Asked) -> Option<Step> {
    if !asked.story.health.has(&SourceName::Drops) {
        return None;
    }
    let losses = asked.losses()?;
    let drops = &asked.story.drops;
    let ways = |e: &End| (e.conn.local, e.conn.remote);
    let of: AHashSet<_> = losses.ends.iter().map(ways).collect();
    let own = drops
        .all()
        .filter(|((_, from, to), _)| of.contains(&(*from, *to)));
    let own: u64 = own.map(|(_, d)| d.by_qdisc).sum();
    let translated = drops.translated_to(of.iter().map(|(_, to)| *to));
    let dropped = own.saturating_add(translated);
    (dropped < limits::OFTEN_TO_ONE.count() || !limits::SMALL_PART.exceeded(dropped, losses.lost)).then(|| {
        say!(
            "queueing disciplines of this host dropped {dropped_leaving} of the packets of these \
             connections; {lost} were lost",
            dropped_leaving = Quantity::count(dropped),
            lost = Quantity::of(losses.lost, "segment").rows(sample_rows(&losses.ends))
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let says = |dropped: u64, rows: Vec<RowRef>, of: u64| {
        say!(
            "queueing disciplines of this host dropped {dropped} of {packets}",
            dropped = Quantity::count(dropped).rows(rows),
            packets = Quantity::of(of, "packet")
        )
    };
    let places = places(whole.story);
    let places = places.iter().map(|egress| {
        let (n, of) = (egress.drops(), egress.segments());
        let rows = || {
            egress
                .flows
                .iter()
                .flat_map(|d| d.rows.iter().copied())
                .take(SHOWN_ROWS)
                .collect()
        };
        every([
            Test::events(n, of, &limits::OFTEN_TO_ONE, says(n, rows(), of)),
            Test::share(n, of, &limits::QDISC_SHARE, says(n, rows(), of)),
        ])
    });
    let (of, all) = (whole.packets(), whole.story.drops.all());
    // The connections of the drops are not known everywhere.
    let n: u64 = all.map(|(_, d)| d.by_qdisc).sum();
    let none = || {
        every([Test::events(
            n,
            of,
            &limits::OFTEN_TO_ONE,
            says(n, Vec::new(), of),
        )])
    };
    Verdict::nearest_or(places.collect::<Vec<_>>(), none, NO_PACKET)
}

fn places(story: &Story) -> Vec<Egress<'_>> {
    let mut places: BTreeMap<u32, Egress> = BTreeMap::new();
    let mut passed: Passed = AHashMap::new();
    let at = |netns| {
        let devices = story.devices.sending(netns);
        Egress {
            story,
            netns,
            flows: Vec::new(),
            to: BTreeMap::new(),
            of: 0,
            ends: Vec::new(),
            sending: devices.len(),
            devices,
        }
    };
    let senders = Senders::of(story);
    for ((netns, from, to), dropped) in story.drops.all() {
        let conn = senders.who(*netns, *from, *to);
        if let Some(conn) = conn.filter(|_| dropped.by_qdisc > 0) {
            let egress = places.entry(*netns).or_insert_with(|| at(*netns));
            egress.flows.push(dropped);
            egress.to.entry(*to).or_default().hit += 1;
            if conn.netns != *netns {
                passed.entry(*to).or_default().insert(*netns);
            }
        }
    }
    if places.is_empty() {
        return Vec::new();
    }
    for conn in &story.conns {
        for netns in left_by(conn, &passed) {
            if let Some(egress) = places.get_mut(&netns) {
                egress.of += 1;
                if let Some(there) = egress.to.get_mut(&conn.remote) {
                    there.conns += 1;
                }
            }
        }
    }
    for end in paths(story).into_iter().flat_map(|path| path.ends) {
        for netns in left_by(end.conn, &passed) {
            if let Some(egress) = places.get_mut(&netns) {
                egress.ends.push(end);
            }
        }
    }
    let mut places: Vec<Egress> = places.into_values().collect();
    places.iter_mut().for_each(Egress::narrow);
    places
}

/// By destination, the namespaces that other namespaces' packets pass through.
type Passed = AHashMap<Endpoint, BTreeSet<u32>>;

/// The namespaces through which a connection's packets leave: its own, and those that they pass through.
fn left_by<'a>(conn: &Conn, passed: &'a Passed) -> impl Iterator<Item = u32> + use<'a> {
    let own = conn.netns;
    let others = passed.get(&conn.remote).into_iter().flatten();
    std::iter::once(own).chain(others.copied().filter(move |netns| *netns != own))
}

/// The senders of what queueing disciplines drop.
struct Senders<'a> {
    /// In the namespace that dropped, and in others with packets that pass through it.
    own: AHashMap<(u32, Endpoint, Endpoint), &'a Conn>,
    passing: AHashMap<(Endpoint, Endpoint), &'a Conn>,
    /// By destination, those that retransmitted: their packets may have been translated.
    to: AHashMap<Endpoint, &'a Conn>,
}

impl<'a> Senders<'a> {
    fn of(story: &'a Story) -> Senders<'a> {
        let by_qdisc = || story.drops.all().filter(|(_, d)| d.by_qdisc > 0);
        let places: AHashSet<_> = by_qdisc().map(|((_, from, to), _)| (*from, *to)).collect();
        let ends: AHashSet<Endpoint> = places.iter().map(|(_, to)| *to).collect();
        let (mut own, mut passing, mut to) = (AHashMap::new(), AHashMap::new(), AHashMap::new());
        for (id, conn) in (0..).zip(&story.conns) {
            let way = (conn.local, conn.remote);
            if places.contains(&way) {
                own.entry((conn.netns, way.0, way.1)).or_insert(conn);
            }
            // Each namespace has its own loopback.
            if places.contains(&way) && !conn.remote.is_loopback() {
                passing.entry(way).or_insert(conn);
            }
            let resends = story.transfers.of(id).map_or(0, |t| t.resends.count());
            if ends.contains(&conn.remote) && resends > 0 {
                to.entry(conn.remote).or_insert(conn);
            }
        }
        Senders { own, passing, to }
    }

    fn who(&self, netns: u32, from: Endpoint, to: Endpoint) -> Option<&'a Conn> {
        let own = self.own.get(&(netns, from, to));
        let conn = own.or_else(|| self.passing.get(&(from, to)));
        conn.or_else(|| self.to.get(&to)).copied()
    }
}

impl Egress<'_> {
    fn drops(&self) -> u64 {
        self.flows.iter().map(|d| d.by_qdisc).sum()
    }

    /// Connections that were hit, of those seen here. A source that is no end of this host was translated, or belongs
    /// to another host: then at most as many as go to the same place.
    fn affected(&self) -> u64 {
        self.to.values().map(|t| t.hit.min(t.conns)).sum()
    }

    /// Senders whose packets were dropped: what leaves by another device, or was spared, lost nothing by it. All
    /// senders where the addresses of the drops were translated.
    fn hit(&self) -> Vec<End<'_>> {
        let hit: Vec<End> = self.go_there().copied().collect();
        if hit.is_empty() {
            self.ends.clone()
        } else {
            hit
        }
    }

    /// Senders to the destinations of dropped packets.
    fn go_there(&self) -> impl Iterator<Item = &End<'_>> {
        let goes = |e: &&End| self.to.contains_key(&e.conn.remote);
        self.ends.iter().filter(goes)
    }

    /// Flows of others that were hit as they passed through, at least.
    fn of_others(&self) -> u64 {
        let beyond = |t: &There| t.hit.saturating_sub(t.conns);
        self.to.values().map(beyond).sum()
    }

    /// Segments that the namespace sent, or those of the sampled connections if it was not counted.
    fn segments(&self) -> u64 {
        let sampled = self.ends.iter().map(|e| e.transfer.segments()).sum();
        let counters = &self.story.counters;
        counters.rise(self.netns, counter::OUT_SEGS).by.max(sampled)
    }

    /// Share of the packets that were dropped.
    fn share(&self) -> f64 {
        self.drops() as f64 / self.segments().max(1) as f64
    }

    /// The least that a device must have sent for these to have left by it, bytes per second.
    fn carried(&self) -> f64 {
        let acked: u64 = self.go_there().map(|e| e.transfer.acked()).sum();
        let ns = self.story.end_ns.saturating_sub(self.story.start_ns);
        ratio(acked as f64 * 1e9, ns as f64).unwrap_or(0.0) * limits::MOST.share()
    }

    /// Leaves out the devices that sent less than these got acknowledged: they carried acknowledgements to senders that
    /// go through this namespace.
    fn narrow(&mut self) {
        let least = self.carried();
        if self.devices.iter().any(|(_, rate, _)| *rate >= least) {
            self.devices.retain(|(_, rate, _)| *rate >= least);
        }
    }

    /// The device, when there is only one.
    fn device(&self) -> Option<&Text> {
        match &self.devices[..] {
            [(device, ..)] => Some(device),
            _ => None,
        }
    }

    /// The device or devices in words.
    fn named(&self) -> String {
        match &self.devices[..] {
            [] => "an interface".into(),
            [(device, ..)] => device.to_string(),
            many if many.len() > SHOWN_INTERFACES => format!("one of {} interfaces", many.len()),
            many => {
                let names: Vec<_> = many.iter().map(|(d, ..)| d.to_string()).collect();
                format!("one of {}", names.join(", "))
            }
        }
    }

    /// Bytes that leave per second: over the device, or over the connections.
    fn rate(&self) -> f64 {
        match &self.devices[..] {
            [(_, rate, _)] => *rate,
            _ => rate(&self.ends),
        }
    }

    /// A queue that would hold what arrives in bursts, bytes.
    fn roomy_queue(&self) -> u64 {
        let rtt_us = min_rtt_us(&self.ends).unwrap_or(0);
        let trips = self.rate() * f64::from(rtt_us) / 1e6 * ADVISED_ROUND_TRIPS;
        (trips.max(ADVISED_QUEUE) / 1_000.0).ceil() as u64 * 1_000
    }

    fn reason(&self) -> &str {
        let first = self.flows.first().and_then(|d| d.reason.as_deref());
        first.unwrap_or("QDISC_DROP")
    }

    fn impact(&self) -> Impact {
        let affected = self.affected();
        let passing = match self.of_others() {
            0 => String::new(),
            n => format!(
                " So had {} that this host forwards.",
                Quantity::of(n, "connection")
            ),
        };
        let says = format!(
            "{} of {} had packets dropped before they left the host; together they sent {}.{passing}",
            Quantity::count(affected),
            Quantity::of(self.of, "connection"),
            Quantity::rate(self.rate())
        );
        Impact::of(affected, self.of, "connections", says)
    }

    fn sent(&self) -> Step {
        let again: u64 = self.ends.iter().map(|e| e.transfer.resends.count()).sum();
        let connections = Quantity::of(self.of, "connection");
        say!(
            "{connections} sent {segments}, and retransmitted {sent_again} of them.",
            segments = Quantity::of(self.segments(), "segment").rows(sample_rows(&self.ends)),
            sent_again = Quantity::count(again)
        )
    }

    fn dropped(&self) -> Step {
        let rows = self.flows.iter().flat_map(|d| d.rows.iter().copied());
        let location = self.flows.first().and_then(|d| d.location.as_deref());
        let location = location.map_or(String::new(), |l| format!(" in {l}"));
        let reason = self.reason();
        say!(
            "{dropped} were dropped here as they left, reason {reason}{location}: {share} of the segments sent.",
            dropped = Quantity::of(self.drops(), "packet").rows(rows.take(SHOWN_ROWS)),
            share = Quantity::share(self.share())
        )
    }

    fn only_device(&self) -> Option<Step> {
        let [(device, rate, row)] = &self.devices[..] else {
            return None;
        };
        let of = namespace(&self.story.netns(self.netns));
        let as_much = match self.sending {
            0 | 1 => "",
            _ => " as much as these connections",
        };
        Some(say!(
            "{device} is the only interface of {of} that sent{as_much}, {bytes_per_s} on average.",
            bytes_per_s = Quantity::rate(*rate).rows([*row])
        ))
    }

    /// Drops by connection, against drops by reason: packets of others, and of other protocols than TCP, make the
    /// difference.
    fn all_of_these(&self) -> Check {
        let groups = self.story.packets.all().iter();
        let same = groups.filter(|g| g.netns == self.netns && g.is_for(self.reason()));
        let formula = "drops whose packet belonged to a connection seen here = all such drops";
        let all = same.map(|g| g.count).sum();
        same_count(formula, all, self.drops(), "packets")
    }

    fn advice(&self, netns: &Netns) -> [Advice; 2] {
        let (bytes, rate) = (self.roomy_queue(), Quantity::rate(self.rate()));
        let wait = Quantity::ns((bytes as f64 / self.rate().max(1.0) * 1e9) as u64);
        let device = self.device();
        let look = match device {
            Some(device) => shell!("tc -s qdisc show dev {device}", device),
            None => shell!("tc -s qdisc show"),
        };
        let below = match device {
            Some(device) => shell!("tc qdisc show dev {device}", device),
            None => shell!("tc qdisc show"),
        };
        [
            Advice::to(format!(
                "Give the shaper of {} a queue of {} (the command shows its kind and limit).",
                self.named(),
                Quantity::bytes(bytes)
            ))
            .by(command_in(netns, look))
            .at(format!("{}; tc qdisc change", namespace(netns)))
            .risk(format!("A packet may then wait {wait} in a full queue."))
            .effect(format!(
                "Two round trips at {rate} fit: bursts wait and are not dropped."
            ))
            .change(Change::QueueLimit {
                netns: self.netns,
                device: self.device().map(|d| d.to_string()),
                bytes,
            }),
            Advice::to("Or have fq_codel manage the queue below the shaper.")
                .by(command_in(netns, below))
                .at(
                    "tc qdisc replace with the parent that the command shows in the first line (`qdisc tbf 8001:` is \
                     8001:); needs sch_fq_codel in the kernel",
                )
                .risk("Drops remain, early and one connection at a time, as a signal to slow down.")
                .effect("Connections share the rate evenly, and short ones do not wait."),
        ]
    }
}

fn judge(egress: &Egress) -> Option<Finding> {
    if egress.drops() < limits::OFTEN_TO_ONE.count() || egress.share() < limits::QDISC_SHARE.share()
    {
        return None;
    }
    let (story, netns, place) = (egress.story, egress.netns, egress.named());
    let hit = egress.hit();
    let scope = senders(story, netns, &hit, Some(format!("qdisc of {place}")));
    let dropped = Quantity::of(egress.drops(), "packet");
    let share = Quantity::share(egress.share());
    let queue = Quantity::bytes(egress.roomy_queue());
    let interfaces = egress.devices.len();
    let advice = egress.advice(&scope.netns);
    let case = Case::new(story, CAUSE, scope)
        .placed(Place::ends(&hit))
        .title([
            format!(
                "The local queueing discipline of {place} drops packets: {dropped}, {share} of them."
            ),
            format!("The queueing discipline of {place} dropped {dropped}."),
        ])
        .fix([
            format!("Give the shaper of {place} a queue of {queue}, or more rate."),
            format!("Give the shaper a queue of {queue}, or more rate."),
        ])
        .affects(egress.impact(), limited(story, &hit))
        .because(format!(
            "the kernel gives {} as the reason of each drop, with the connection",
            egress.reason()
        ))
        .at_most_if(
            Level::Medium,
            egress.device().is_none(),
            &format!("the recording does not show which of {interfaces} interfaces it is"),
        )
        .steps([egress.sent(), egress.dropped()])
        .steps(egress.only_device())
        .checks([egress.all_of_these()])
        .advise(advice);
    Some(case.verify(sentence!(
        "The drops in `tc -s qdisc show dev {device}` do not rise while data moves.",
        device = egress.device().map_or("DEVICE", |d| &**d)
    )))
}

#[cfg(test)]
mod tests;
