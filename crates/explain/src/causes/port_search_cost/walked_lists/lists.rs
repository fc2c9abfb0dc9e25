//! What hung in the lists of the ports that a search passed: connections, and TIME_WAITs behind them.

use std::collections::{BTreeMap, BTreeSet};

use analysis::searches::Connecting;
use analysis::{Side, Story, TIME_WAIT_NS};
use recording::RowRef;

use crate::places::listener::SHOWN_ROWS;

/// The ports from which connect() chooses.
pub(super) const FIRST: &str = "net.inet.ip.portrange.first";
pub(super) const LAST: &str = "net.inet.ip.portrange.last";
/// Half of the time that a connection stays in TIME_WAIT, ms.
const MSL: &str = "net.inet.tcp.msl";

/// The ports from which connect() chooses, both ends included, and what listens there.
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) rows: Vec<RowRef>,
    pub(super) listening: BTreeSet<u16>,
}

impl Range {
    pub(super) fn of(story: &Story, netns: u32) -> Option<Range> {
        let (low, high) = (
            story.settings.get(netns, FIRST)?,
            story.settings.get(netns, LAST)?,
        );
        let port = |n: Option<u64>| u16::try_from(n?).ok();
        let (first, last) = (port(low.number(0))?, port(high.number(0))?);
        let ports = story.listeners.of_netns(netns).map(|(_, l)| l.local.port);
        Some(Range {
            first,
            last,
            rows: vec![low.row, high.row],
            listening: ports.filter(|p| (first..=last).contains(p)).collect(),
        })
    }

    /// The listening ports right before the one that a search found: it passed them.
    pub(super) fn before(&self, found: u16) -> Vec<u16> {
        let below = (self.first..found).rev();
        let mut ports: Vec<u16> = below.take_while(|p| self.listening.contains(p)).collect();
        ports.reverse();
        ports
    }

    /// The larger part of the range without those ports; its ends.
    pub(super) fn beside(&self) -> Option<(u16, u16)> {
        let (low, high) = (*self.listening.first()?, *self.listening.last()?);
        let below = (low > self.first).then(|| (self.first, low - 1));
        let above = (high < self.last).then(|| (high + 1, self.last));
        let parts = below.into_iter().chain(above);
        parts.max_by_key(|(from, to)| to - from)
    }
}

/// What a search met, and the cost of passing it.
#[derive(Default)]
pub(super) struct Met {
    pub(super) open: u64,
    pub(super) time_wait: u64,
    /// Entries passed if each TIME_WAIT is ended and the walk starts again.
    pub(super) passed: f64,
    pub(super) rows: Vec<RowRef>,
}

/// The list of one port, at one moment.
#[derive(Clone, Copy, Default)]
struct List {
    open: u64,
    time_wait: u64,
}

impl Met {
    /// What each search met. A TIME_WAIT that the one before ended is met by none.
    pub(super) fn of(
        story: &Story,
        netns: u32,
        range: Option<&Range>,
        searches: &[Connecting],
    ) -> Vec<Met> {
        let Some(range) = range else {
            return Vec::new();
        };
        let lasts_ns = story
            .settings
            .number(netns, MSL)
            .map_or(TIME_WAIT_NS, |ms| ms.saturating_mul(2_000_000));
        let mut since_ns = 0;
        let met = searches.iter().map(|search| {
            let at_ns = search.search_began_ns();
            let from_ns = at_ns.saturating_sub(lasts_ns).max(since_ns);
            since_ns = search.returned_ns;
            Met::at(story, netns, &range.before(search.port), from_ns, at_ns)
        });
        met.collect()
    }

    fn at(story: &Story, netns: u32, ports: &[u16], from_ns: u64, at_ns: u64) -> Met {
        let mut lists: BTreeMap<u16, List> = ports.iter().map(|p| (*p, List::default())).collect();
        let mut rows = Vec::new();
        for conn in story.conns.iter().filter(|c| c.netns == netns) {
            if conn.side == Side::Opened || conn.start_ns > at_ns {
                continue;
            }
            let Some(list) = lists.get_mut(&conn.local.port) else {
                continue;
            };
            match conn.ended_ns {
                Some(ended) if ended <= at_ns => {
                    let waits = conn.closed_first && ended > from_ns;
                    list.time_wait += u64::from(waits);
                }
                _ => list.open += 1,
            }
            if rows.len() < SHOWN_ROWS {
                rows.extend(conn.row());
            }
        }
        let passed = lists.values().map(|list| {
            // The listener comes last.
            let (open, waits) = (list.open as f64, list.time_wait as f64);
            waits * (open + 1.0) + open + 1.0
        });
        Met {
            passed: passed.sum(),
            open: lists.values().map(|l| l.open).sum(),
            time_wait: lists.values().map(|l| l.time_wait).sum(),
            rows,
        }
    }
}
