//! What connection tracking of a namespace did to SYNs: how full its table was, and whether it had an entry for each.

use std::collections::BTreeSet;
use std::rc::Rc;

use analysis::{Conn, Outcome, Story};
use recording::{RowRef, SourceName};

use crate::asked::Asked;
use crate::case::Case;
use crate::cause::Cause;
use crate::finding::{Scope, Step};
use crate::limits;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::rule::{Kind, Known, Limited, There, below, from};
use crate::say::{Quantity, say};
use crate::whole::{NO_CONNECTION, Whole};

/// Connection tracking of a namespace, and the SYNs to a place that it dropped.
pub(crate) struct Tracking<'a> {
    pub(crate) story: &'a Story,
    /// Where the SYNs went; `None` where no firewall here dropped one.
    pub(crate) syns: Option<Rc<UnansweredSyns<'a>>>,
    pub(crate) netns: u32,
    /// SYNs that it dropped, and not a rule.
    pub(crate) lost: u64,
    /// Connections that were opened or tried.
    of: u64,
    pub(crate) table: Option<Table>,
    /// Packets that it could not insert, with the row.
    failed: Option<(u64, RowRef)>,
    /// Connections of this host to the place that had an entry when SYNs were dropped: the fewest; and the most at any
    /// time. `None` where no client is here.
    pub(crate) held: Option<(u64, u64)>,
    /// Connects of this host that lost a SYN, and those that lost a second one.
    pub(crate) lost_again: (u64, u64),
    /// SYNs that connects of this host lost.
    own: u64,
}

/// The table of a namespace at its fullest, and the packets that it dropped.
pub(crate) struct Table {
    pub(crate) held: u64,
    pub(crate) most: u64,
    pub(crate) entries: Quantity,
    pub(crate) limit: Quantity,
    pub(crate) conntrack_dropped: Quantity,
    pub(crate) dropped: u64,
}

impl Table {
    fn of(story: &Story, netns: u32) -> Option<Table> {
        let size = story.structures.get(netns, "conntrack")?.fullest;
        let most = size.limit.filter(|l| *l > 0)?;
        let (dropped, row) = story.structures.conntrack(netns, "dropped")?;
        Some(Table {
            held: size.entries,
            most,
            entries: Quantity::count(size.entries).rows([size.row]),
            limit: Quantity::count(most),
            conntrack_dropped: Quantity::of(dropped, "packet").rows([row]),
            dropped,
        })
    }

    fn told(&self) -> Step {
        say!(
            "connection tracking held {entries} of {limit} entries at most, and dropped {conntrack_dropped}",
            entries = &self.entries,
            limit = &self.limit,
            conntrack_dropped = &self.conntrack_dropped
        )
    }
}

/// Connection tracking, wherever a firewall dropped SYNs, and wherever there is a table.
pub(crate) enum Tracked {}

impl Kind for Tracked {
    type Place<'a> = Tracking<'a>;

    const NOTHING: &'static str = NO_CONNECTION;

    fn all<'a>(whole: &Whole<'a>) -> Vec<Tracking<'a>> {
        let silent = whole.silent().iter();
        let places = silent.filter_map(|syns| Some(Tracking::of(syns, syns.firewall_netns()?)));
        let mut places: Vec<Tracking> = places.collect();
        let met: BTreeSet<u32> = places.iter().map(|place| place.netns).collect();
        let tables = whole.story.structures.named("conntrack");
        let others = tables.filter(|(netns, _)| !met.contains(netns));
        places.extend(others.map(|(netns, _)| Tracking::of_none(whole, netns)));
        if places.is_empty() {
            places.push(Tracking::of_none(whole, 0));
        }
        places
    }

    fn there<'a>(asked: &Asked<'a>) -> There<Tracking<'a>> {
        let Some(syns) = asked.silent() else {
            return There::Unknown;
        };
        match syns.firewall_netns() {
            Some(netns) => There::Place(Tracking::of(syns, netns)),
            None => There::None(say!("no firewall of this host dropped a SYN to it")),
        }
    }
}

/// The table had no room for another entry.
pub(crate) const FULL: Limited<Tracked> = from(
    &limits::NEARLY_ALL,
    "of the entries of its table in use",
    |at| match &at.table {
        Some(table) => Known::share(table.held, table.most, table.told()),
        None => Known::Not("no table of tracked connections was read"),
    },
);

/// It dropped SYNs.
pub(crate) const DROPPED: Limited<Tracked> = from(
    &limits::FAILED_AGAIN,
    "whose SYN it dropped",
    |at| match &at.table {
        Some(table) if at.lost == 0 && table.dropped > 0 => Known::Not(
            "connection tracking dropped packets, and whether SYNs were among them is unknown",
        ),
        _ => Known::events(at.lost, at.of, at.dropped()),
    },
);

/// It counts packets that it could not insert. Other packets may fail to get an entry, too, so the count is rarely
/// lower.
pub(crate) const NOT_INSERTED: Limited<Tracked> = from(
    &limits::MOST,
    "of them not inserted (insert_failed)",
    |at| match at.failed {
        Some((failed, _)) => Known::share(failed, at.lost, at.failed_step(failed)),
        None if at.is_read() => Known::share(0, at.lost, at.failed_step(0)),
        None => Known::Not("failed insertions of connection tracking were not counted"),
    },
);

/// SYNs were dropped when as many connections had an entry as at any time: no more are available.
pub(crate) const NO_PORT_LEFT: Limited<Tracked> = from(&limits::NEARLY_ALL, HELD, |at| at.held());
/// Ports were left when SYNs were dropped.
pub(crate) const PORTS_LEFT: Limited<Tracked> = below(&limits::NEARLY_ALL, HELD, |at| at.held());
const HELD: &str = "of the maximum of entries existed when SYNs were dropped";

/// A full range drops the next SYN as well.
pub(crate) const AGAIN: Limited<Tracked> = from(&limits::MOST, TWICE, |at| at.twice());
/// Two packets that race for an entry find another a second later.
pub(crate) const ONCE: Limited<Tracked> = below(&limits::MOST, TWICE, |at| at.twice());
const TWICE: &str = "of those that lost a SYN lost a second one";

/// Only clients on this host show whether ports were left.
pub(crate) const ELSEWHERE: Limited<Tracked> = below(
    &limits::TRACKED_CLIENTS,
    "from clients on this host",
    |at| {
        let step = say!(
            "{own} of {dropped} were from clients on this host",
            own = Quantity::count(at.own).rows(at.rows()),
            dropped = Quantity::of(at.lost, "dropped SYN")
        );
        Known::events(at.own, at.lost, step)
    },
);

impl<'a> Tracking<'a> {
    fn of(syns: &Rc<UnansweredSyns<'a>>, netns: u32) -> Tracking<'a> {
        let story = syns.story;
        let reached = syns.times.total().max(syns.passed());
        Tracking {
            story,
            netns,
            lost: syns.untracked(netns).0,
            of: reached.saturating_add(syns.firewall_drops()),
            table: Table::of(story, netns),
            failed: story.structures.conntrack(netns, "insert_failed"),
            held: fullest(syns),
            lost_again: lost_again(syns),
            own: story
                .all(&syns.clients)
                .map(|(_, c)| u64::from(lost(c)))
                .sum(),
            syns: Some(Rc::clone(syns)),
        }
    }

    /// A namespace that dropped no SYN.
    fn of_none(whole: &Whole<'a>, netns: u32) -> Tracking<'a> {
        Tracking {
            story: whole.story,
            syns: None,
            netns,
            lost: 0,
            of: whole.opened(),
            table: Table::of(whole.story, netns),
            failed: whole.story.structures.conntrack(netns, "insert_failed"),
            held: None,
            lost_again: (0, 0),
            own: 0,
        }
    }

    fn is_read(&self) -> bool {
        self.story.health.has(&SourceName::Conntrack)
    }

    fn dropped(&self) -> Step {
        let rows = self.syns.as_ref().map(|syns| syns.firewall_rows());
        say!(
            "connection tracking dropped {dropped} of {opened} opened or tried",
            dropped = Quantity::of(self.lost, "SYN").rows(rows.into_iter().flatten()),
            opened = Quantity::of(self.of, "connection")
        )
    }

    fn failed_step(&self, failed: u64) -> Step {
        say!(
            "connection tracking counted {insert_failed} that it could not insert, of {dropped} dropped for that \
             reason",
            insert_failed = Quantity::of(failed, "packet").rows(self.rows()),
            dropped = Quantity::of(self.lost, "SYN")
        )
    }

    fn held(&self) -> Known {
        let Some((least, most)) = self.held else {
            return Known::Not("no client is on this host: whether ports were left is unknown");
        };
        let step = say!(
            "SYNs were dropped when {held} of at most {most} connections had an entry",
            held = Quantity::count(least).rows(self.rows()),
            most = Quantity::count(most)
        );
        Known::share(least, most, step)
    }

    fn twice(&self) -> Known {
        let (once, twice) = self.lost_again;
        let step = say!(
            "{lost_twice} of {lost_once} that lost a SYN lost a second one",
            lost_twice = Quantity::count(twice).rows(self.rows()),
            lost_once = Quantity::of(once, "connect")
        );
        Known::share(twice, once, step)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        self.failed.iter().map(|(_, row)| *row)
    }

    pub(crate) fn scope(&self, syns: &UnansweredSyns) -> Scope {
        Scope {
            resource: Some("conntrack".into()),
            ..syns.scope(self.netns)
        }
    }

    /// The case for the SYNs that it dropped, for any reason.
    pub(crate) fn case(&self, syns: &UnansweredSyns<'a>, cause: Cause, scope: Scope) -> Case<'a> {
        let (lost, passed) = (self.lost, syns.passed());
        Case::new(self.story, cause, scope)
            .placed(syns.place())
            .affects(syns.impact(lost, passed), syns.times.lost(self.story, lost))
            .steps(syns.firewall_steps())
            .checks(syns.drops_check(lost))
    }

    /// What the namespace counted that it could not insert.
    pub(crate) fn counted(&self) -> Option<Step> {
        let (failed, _) = self.failed?;
        Some(say!(
            "Connection tracking counted {insert_failed} that it could not insert (insert_failed): another \
             connection had the translated addresses and ports.",
            insert_failed = Quantity::of(failed, "packet").rows(self.rows())
        ))
    }
}

/// The connections with an entry, if they fill the range.
fn fullest(place: &UnansweredSyns) -> Option<(u64, u64)> {
    let [open, lingering] = [0, limits::TRACKED_LINGERS.ns()].map(|ns| held(place, ns));
    let is_full = |(least, most): (u64, u64)| most > 0 && limits::NEARLY_ALL.reached(least, most);
    if lingering.is_some_and(is_full) {
        lingering
    } else {
        open
    }
}

/// Connects that lost a SYN, and those that lost a second one.
fn lost_again(place: &UnansweredSyns) -> (u64, u64) {
    let all = || place.story.all(&place.clients).map(|(_, c)| lost(c));
    let of = |n: u32| all().filter(|lost| *lost >= n).count() as u64;
    (of(1), of(2))
}

/// Connections of this host to the place with an entry: the fewest when a SYN was dropped, and the most, where entries
/// outlive their connections by this time, ns; `None` where no client is here.
fn held(place: &UnansweredSyns, lingers_ns: u64) -> Option<(u64, u64)> {
    let story = place.story;
    let all = || story.all(&place.clients).map(|(_, c)| c);
    let made = || all().filter(|c| matches!(c.outcome, Outcome::Open | Outcome::Closed));
    let began = made().map(|c| c.established_ns.unwrap_or(c.start_ns));
    let mut began: Vec<u64> = began.collect();
    let until = made().filter_map(|c| Some(c.ended_ns?.saturating_add(lingers_ns)));
    let mut until: Vec<u64> = until.collect();
    began.sort_unstable();
    until.sort_unstable();
    let by = |times: &[u64], ns: u64| times.partition_point(|t| *t <= ns) as u64;
    let at = |ns: u64| by(&began, ns).saturating_sub(by(&until, ns));
    let least = all()
        .filter(|c| lost(c) > 0)
        .map(|c| at(c.start_ns))
        .min()?;
    let most = began.iter().map(|ns| at(*ns)).max().unwrap_or(0);
    Some((least, most.max(least)))
}

/// SYNs of a connect that nothing answered.
fn lost(conn: &Conn) -> u32 {
    let last = matches!(conn.outcome, Outcome::Pending | Outcome::Failed);
    conn.syn_retries.saturating_add(u32::from(last))
}
