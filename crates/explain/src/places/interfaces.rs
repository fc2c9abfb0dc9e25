//! What this host lost on receipt or on sending: at interfaces, in the queues of CPUs (softnet) and of sockets; and
//! whether TCP missed it.

use std::collections::BTreeMap;

use analysis::Story;
use analysis::resources::Line;
use recording::{RowRef, counter};

use crate::finding::{Check, RuledOut};
use crate::id::Id;
use crate::limits;
use crate::say::{Quantity, say};

/// Packets of an interface in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Way {
    pub(crate) packets: u64,
    /// By the queue in the device or the kernel that was full.
    pub(crate) dropped: u64,
    /// By the device's ring alone.
    pub(crate) fifo: u64,
    /// Damaged on the wire.
    pub(crate) errors: u64,
    pub(crate) rows: Vec<RowRef>,
}

impl Way {
    /// What was lost; drivers' sums overlap.
    pub(crate) fn lost(&self) -> u64 {
        self.dropped.max(self.fifo).max(self.errors)
    }

    fn take(&mut self, metric: &str, line: &Line) {
        let rise = line.rise() as u64;
        match metric {
            "packets" => self.packets = rise,
            "dropped" => self.dropped = rise,
            "fifo" => self.fifo = rise,
            "errors" => self.errors = rise,
            _ => return,
        }
        if metric != "packets" && rise > 0 {
            self.rows.push(line.row);
        }
    }
}

/// What an interface received and sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: Way,
    pub(crate) sent: Way,
}

/// Every interface that was read twice, by namespace and name.
pub(crate) fn interfaces(story: &Story) -> BTreeMap<(u32, String), Traffic> {
    let mut all: BTreeMap<(u32, String), Traffic> = BTreeMap::new();
    let lines = story.resources.all();
    let lines = lines
        .filter(|(name, line)| &*name.resource == "network" && line.cumulative && line.compares());
    for (name, line) in lines {
        let (way, metric) = match name.metric.split_once('_') {
            Some((way @ ("rx" | "tx"), metric)) => (way, metric),
            _ => continue,
        };
        let traffic = all.entry((name.netns, name.instance.to_string()));
        let traffic = traffic.or_default();
        match way {
            "rx" => traffic.received.take(metric, line),
            _ => traffic.sent.take(metric, line),
        }
    }
    all
}

/// What the queues of the CPUs dropped.
pub(crate) fn by_softnet(story: &Story) -> u64 {
    story.cpus.all().map(|cpu| cpu.dropped).sum()
}

/// That a counter of the namespace, which would point to another cause, hardly rose.
pub(crate) fn not_counted(story: &Story, netns: u32, id: Id, name: &str) -> RuledOut {
    let rise = story.counters.rise(netns, name);
    let counted = Quantity::count(rise.by).rows(rise.rows());
    let name = counter::short(name);
    RuledOut::by(
        id,
        say!("{name} of the namespace rose by {counted}", counted),
    )
}

/// Segments that came out of order, or were retransmitted, over all namespaces: what crosses an interface may belong to
/// any of them.
pub(crate) fn missed(story: &Story, received: bool) -> (u64, Vec<RowRef>) {
    let name = if received {
        counter::TCP_OFO_QUEUE
    } else {
        counter::RETRANS_SEGS
    };
    let rises = story.counters.rises(name);
    let by = rises.values().map(|rise| rise.by).sum();
    let rows = rises.values().flat_map(|rise| rise.rows());
    (by, rows.take(4).collect())
}

/// What TCP missed, against what was lost. `certain`: all of it was wanted.
pub(crate) fn missed_check(story: &Story, received: bool, lost: u64, certain: bool) -> Check {
    let (missed, _) = missed(story, received);
    let of = if received {
        "segments that arrived out of order (TCPOFOQueue)"
    } else {
        "segments retransmitted (RetransSegs)"
    };
    let part = if certain { "a tenth of " } else { "" };
    Check {
        formula: format!("{of} ≥ {part}what was lost"),
        expected: least_missed(lost, certain),
        measured: missed as f64,
        unit: "segments".into(),
        agrees: is_missed(missed, lost, certain),
        tolerance: "not below it".into(),
    }
}

fn least_missed(lost: u64, certain: bool) -> f64 {
    let share = if certain {
        limits::SMALL_PART.share()
    } else {
        limits::MISSED_ALL.share()
    };
    (share * lost as f64).ceil()
}

/// Whether TCP missed what was lost.
pub(crate) fn is_missed(missed: u64, lost: u64, certain: bool) -> bool {
    missed as f64 >= least_missed(lost, certain)
}
