//! Short connections over a path that loses packets: samples hardly show them, but each reports at its end how much it
//! retransmitted.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use analysis::words::{count, plural, rounded};
use analysis::{Way, What};
use recording::Addr;

use super::{CAUSE, percent_of_loss};
use crate::finding::RuledOut;
use crate::limits;
use crate::places::listener::ListenerPlace;
use crate::places::other_ports::OtherPorts;
use crate::vocabulary::*;

/// The short connections between two addresses.
pub(super) struct Short<'a> {
    story: &'a Story,
    netns: u32,
    from: Addr,
    to: Addr,
    conns: Vec<&'a Conn>,
    /// SYNs retransmitted, and SYNs sent.
    syns: (u64, u64),
    /// Segments retransmitted over connections that moved something, and segments sent.
    data: (u64, u64),
    /// Packets of these that this host dropped.
    dropped: u64,
}

/// It was seen to begin here, and is no transfer. One that waits for its SYN may well have been sampled.
fn is_short(conn: &Conn) -> bool {
    conn.side == Side::Opened
        && conn.bytes_acked < limits::SHORT_BYTES.bytes()
        && !conn.remote.is_loopback()
}

/// The short connections of each way.
type ByWay<'a> = BTreeMap<Way, Vec<&'a Conn>>;

pub(super) fn places(story: &Story) -> Vec<Short<'_>> {
    all(story).filter(Short::is_lossy).collect()
}

/// For each way, what its short connections lost.
pub(super) fn refuted(story: &Story) -> impl Iterator<Item = Option<Answered>> {
    all(story).map(|short| {
        let (syns, data) = (short.syns, short.data);
        let says = || {
            say!(
                "short connections retransmitted {again_syns} of {sent_syns} and {again_data} of {sent_data}",
                again_syns = Quantity::count(syns.0),
                sent_syns = Quantity::of(syns.1, "SYN"),
                again_data = Quantity::count(data.0),
                sent_data = Quantity::of(data.1, "segment")
            )
        };
        let of = syns.1.saturating_add(data.1);
        let each = syns.0.min(data.0);
        // A share of the SYNs alone is enough.
        let often = share(syns) < limits::SHORT_LOST_SYNS.share();
        let often = often.then(|| Test::share(short.lost(), of, &limits::SHORT_LOST_SHARE, says()));
        let enough = [
            Test::events(short.lost(), of, &limits::OFTEN_TO_ONE, says()),
            Test::events(each, of, &limits::OFTEN, says()),
        ];
        every(enough.into_iter().chain(often))
    })
}

fn all(story: &Story) -> impl Iterator<Item = Short<'_>> {
    let mut places: ByWay = BTreeMap::new();
    for conn in story.conns.iter().filter(|c| is_short(c)) {
        let key = (conn.netns, conn.local.addr, conn.remote.addr);
        places.entry(key).or_default().push(conn);
    }
    let drops = SynDrops::of(story, &places);
    let dropped: Vec<u64> = places.keys().map(|way| drops.on(*way, &places)).collect();
    let places = places.into_iter().zip(dropped);
    places.map(|((way, conns), syns_dropped)| Short::of(story, way, conns, syns_dropped))
}

/// SYNs that this host dropped on their way to where short connections go.
#[derive(Default)]
struct SynDrops {
    /// By where they came from and went to: in which namespaces, and how many.
    of: AHashMap<(Addr, Addr), AHashMap<u32, u64>>,
    /// By destination, those that belong to none of these connections: translated on their way, or another host's.
    nobodys: AHashMap<Addr, u64>,
}

impl SynDrops {
    fn of(story: &Story, places: &ByWay) -> SynDrops {
        let ends = places.keys().map(|(_, from, to)| (*from, *to));
        let ends: AHashSet<(Addr, Addr)> = ends.collect();
        let to: AHashSet<Addr> = ends.iter().map(|(_, to)| *to).collect();
        let mut drops = SynDrops::default();
        let groups = story.packets.all().iter();
        let groups = groups.filter(|g| g.what == What::SynDropped && to.contains(&g.local.addr));
        for group in groups {
            let to = group.local.addr;
            let mut nobodys = group.count;
            for from in &group.remotes {
                if ends.contains(&(from.addr, to)) {
                    let of = drops.of.entry((from.addr, to)).or_default();
                    let of = of.entry(group.netns).or_default();
                    *of = of.saturating_add(from.count);
                    nobodys = nobodys.saturating_sub(from.count);
                }
            }
            drops.add_nobodys(to, nobodys);
        }
        drops.take_translated(places);
        drops
    }

    fn add_nobodys(&mut self, to: Addr, n: u64) {
        let sum = self.nobodys.entry(to).or_default();
        *sum = sum.saturating_add(n);
    }

    /// A namespace drops no more of its own SYNs than were retransmitted or are unanswered: the others were given its
    /// address on their way.
    fn take_translated(&mut self, places: &ByWay) {
        let own = |c: &&Conn| u64::from(c.syn_retries) + u64::from(c.established_ns.is_none());
        let mut translated = Vec::new();
        for ((from, to), of) in self.of.iter_mut() {
            for (netns, n) in of.iter_mut() {
                if let Some(conns) = places.get(&(*netns, *from, *to)) {
                    let own: u64 = conns.iter().map(own).sum();
                    translated.push((*to, n.saturating_sub(own)));
                    *n = own.min(*n);
                }
            }
        }
        for (to, n) in translated {
            self.add_nobodys(to, n);
        }
    }

    /// The drops of a way: where its packets begin, or where they pass. Another namespace with the same addresses drops
    /// its own.
    fn on(&self, way: Way, places: &ByWay) -> u64 {
        let (netns, from, to) = way;
        let passes = |at: u32| at == netns || !places.contains_key(&(at, from, to));
        let of = self.of.get(&(from, to)).into_iter();
        let of = of.flat_map(|of| of.iter());
        let of = of.filter(|(at, _)| passes(**at)).map(|(_, n)| *n);
        let nobodys = self.nobodys.get(&to).copied().unwrap_or(0);
        of.fold(nobodys, u64::saturating_add)
    }
}

impl<'a> Short<'a> {
    fn of(story: &'a Story, way: Way, conns: Vec<&'a Conn>, syns_dropped: u64) -> Short<'a> {
        let (netns, from, to) = way;
        let sum = |of: &dyn Fn(&Conn) -> u64| conns.iter().map(|c| of(c)).sum::<u64>();
        let syns_again = sum(&|c| c.syn_retries.into());
        // A connection whose server dropped its last ACK retransmits without success.
        let moved = |c: &Conn| c.bytes_acked > 0 || c.bytes_received > 0;
        let again = sum(&|c| if moved(c) { c.retransmits.into() } else { 0 });
        let segments = sum(&|c| {
            if moved(c) {
                c.bytes_acked / u64::from(c.mss.max(536)) + 2
            } else {
                0
            }
        });
        let to_each = conns.iter().map(|c| c.remote);
        let translated = story.drops.translated_to(to_each);
        let dropped = sum(&|c| story.dropped(c)).saturating_add(translated);
        Short {
            story,
            netns,
            from,
            to,
            syns: (syns_again, conns.len() as u64 + syns_again),
            data: (again, segments + again),
            dropped: syns_dropped.saturating_add(dropped),
            conns,
        }
    }

    fn suffering(&self) -> impl Iterator<Item = &'a Conn> + Clone + '_ {
        let all = self.conns.iter().copied();
        all.filter(|c| c.syn_retries > 0 || c.retransmits > 0)
    }

    fn lost(&self) -> u64 {
        self.syns.0 + self.data.0
    }

    fn share(&self) -> f64 {
        self.lost() as f64 / (self.syns.1 + self.data.1).max(1) as f64
    }

    fn is_lossy(&self) -> bool {
        let each = self.syns.0 >= limits::OFTEN.count() && self.data.0 >= limits::OFTEN.count();
        let of_syns = self.syns.0 as f64 / self.syns.1.max(1) as f64;
        let often = self.share() >= limits::SHORT_LOST_SHARE.share()
            || of_syns >= limits::SHORT_LOST_SYNS.share();
        let enough = self.lost() >= limits::OFTEN_TO_ONE.count() && often;
        let elsewhere = !limits::SMALL_PART.exceeded(self.dropped, self.lost());
        each && enough
            && self.loses_data()
            && elsewhere
            && self.is_spread()
            && self.listeners_drop() == 0
            && !self.is_of_one_port()
    }

    /// Where data is lost by far fewer connections than SYNs, it is `path-drops-syn`.
    fn loses_data(&self) -> bool {
        let retried = self.suffering().filter(|c| c.syn_retries > 0).count();
        let resent = self.suffering().filter(|c| c.retransmits > 0).count();
        limits::MOST.exceeded(resent, retried)
    }

    /// Whether only one port suffers: a full accept queue drops SYNs and last ACKs, and makes clients retransmit both.
    fn is_of_one_port(&self) -> bool {
        let mut lossy: BTreeMap<u16, u64> = BTreeMap::new();
        for conn in self.suffering() {
            *lossy.entry(conn.remote.port).or_default() += 1;
        }
        let worst = lossy.iter().max_by_key(|(_, n)| **n);
        worst.is_some_and(|(port, _)| OtherPorts::of(*port, self.conns.iter().copied()).are_well())
    }

    /// Whether it went on for as long as there were connections.
    fn is_spread(&self) -> bool {
        let (start, end) = (self.story.start_ns, self.story.end_ns);
        let part_ns = (end.saturating_sub(start) / limits::PARTS.count()).max(1);
        let part = |c: &Conn| c.start_ns.saturating_sub(start) / part_ns;
        let all: AHashSet<u64> = self.conns.iter().map(|c| part(c)).collect();
        let lossy: AHashSet<u64> = self.suffering().map(part).collect();
        limits::MOST.reached(lossy.len(), all.len()) && lossy.len() > limits::SEEN_TWICE.as_usize()
    }

    /// What listeners of this host dropped themselves, among those connected to.
    fn listeners_drop(&self) -> u64 {
        let listeners: AHashSet<u32> = self.conns.iter().filter_map(|c| c.listener).collect();
        let all = listeners.iter();
        let places = all.filter_map(|i| ListenerPlace::at(self.story, *i));
        places.map(|place| place.dropped()).sum()
    }

    /// The way that its packets take.
    pub(super) fn way(&self) -> Way {
        (self.netns, self.from, self.to)
    }

    fn name(&self) -> String {
        format!("{} → {}", self.from, self.to)
    }
}

pub(super) fn judge(short: &Short) -> Finding {
    let (story, to) = (short.story, short.to);
    let (name, p) = (short.name(), percent_of_loss(short.share()));
    let (n, of) = (short.suffering().count() as u64, short.conns.len() as u64);
    let scope = Scope {
        netns: story.netns(short.netns),
        resource: Some(format!("path {name}")),
        role: Role::Client,
        ..owners(story, short.suffering())
    };
    let says = format!(
        "{} of {} retransmitted a SYN or data; a lost SYN delays its connect by 1 s or more.",
        count(n),
        plural(of, "short connection")
    );
    let late = short.suffering().filter(|c| c.syn_retries > 0);
    let sent = short.syns.1 + short.data.1;
    let advice = repair_path(&scope.netns, short.from, to)
        .effect("Connects take one round trip, and answers do not wait for a timer.");
    Case::new(story, CAUSE, scope)
        .title([
            format!("The path {name} loses {p} of the packets of short connections, SYNs and data alike."),
            format!("The path {name} loses {p} of the packets, SYNs and data."),
            format!("The path to {to} loses {p} of the packets."),
        ])
        .fix([
            format!("Find the link that drops between {} and {to}.", short.from),
            "Find the link on the path that drops.".into(),
        ])
        .affects(
            Impact::of(n, of, "connections", says),
            Lost::connects(story, late).happened(short.lost(), sent),
        )
        .because("SYNs and data were retransmitted alike, and this host dropped almost none of them")
        .at_most(
            Level::Medium,
            "too short to be sampled: whether the peer already had some of them was not seen",
        )
        .at_most_if(
            Level::Low,
            !story.health.sees(&SourceName::Drops),
            "this kernel does not report its own drops",
        )
        .steps([evidence(short)])
        .checks([alike(short)])
        .rules_out(ruled_out(short))
        .advise([advice])
        .verify(sentence!("`nstat -az TcpExtTCPSynRetrans TcpRetransSegs` shows almost no rise while clients connect \
                           to {to}.", to))
}

fn evidence(short: &Short) -> Step {
    let retried = short.suffering().filter(|c| c.syn_retries > 0);
    let resent = short.suffering().filter(|c| c.retransmits > 0);
    let first = retried.filter_map(|c| c.first_retry.map(RowRef::from));
    let ends = resent.filter_map(|c| c.close_row.map(RowRef::from));
    say!(
        "{syns_again} of {syns} were retransmitted ({syn_share}), and {data_again} of about {segments} of data \
         ({data_share}).",
        syns = Quantity::of(short.syns.1, "SYN"),
        syns_again = Quantity::count(short.syns.0).rows(first.take(SHOWN_ROWS)),
        syn_share = Quantity::share(share(short.syns)),
        segments = Quantity::of(short.data.1, "segment"),
        data_again = Quantity::count(short.data.0).rows(ends.take(SHOWN_ROWS)),
        data_share = Quantity::share(share(short.data))
    )
}

fn share((part, of): (u64, u64)) -> f64 {
    part as f64 / of.max(1) as f64
}

/// Something that drops only SYNs, or only data, does not give this result.
fn alike(short: &Short) -> Check {
    let (syns, data) = (share(short.syns), share(short.data));
    Check {
        formula: "share of SYNs retransmitted = share of data segments retransmitted".into(),
        expected: rounded(syns * 100.0),
        measured: rounded(data * 100.0),
        unit: "%".into(),
        agrees: syns <= data * limits::SEVERAL_TIMES.times()
            && data <= syns * limits::SEVERAL_TIMES.times(),
        tolerance: "a third to three times: a SYN is also retransmitted when its answer was lost"
            .into(),
    }
}

fn ruled_out(short: &Short) -> [RuledOut; 2] {
    let data_again = Quantity::of(short.data.0, "data segment");
    let dropped_here = Quantity::of(short.dropped, "packet");
    [
        RuledOut::by(
            Id::PATH_DROPS_SYN,
            say!("{data_again} were retransmitted as well", data_again),
        ),
        RuledOut::by(
            Id::QDISC_DROP,
            say!(
                "this host dropped {dropped_here} of these connections",
                dropped_here
            ),
        ),
    ]
}
