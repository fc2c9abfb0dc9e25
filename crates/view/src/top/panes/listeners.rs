//! Listeners: how full the queue is that they accept from, the fullest first.

use analysis::AcceptQueue;

use super::{Content, OWNER, Shown, goes, stays, warning_if, who};
use crate::columns::{Unit, columns, left, right};
use crate::how::How;
use crate::stat::listeners::Listening;
use crate::style::Look;
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::{curve, gauge};

const GAUGE: usize = 12;
const CURVE: usize = 20;

impl Listening {
    columns! {
        /// How full the queue is that accept() takes from.
        GAUGE: left("ACCEPT QUEUE", GAUGE, &[], Unit::Words)
            => |l, _| gauge(AcceptQueue::of(&l.row).share(), GAUGE).into();
        /// Connections that wait for accept(), against the backlog.
        OF: right("OF", 10, &[], Unit::Count)
            => |l, _| format!("{}/{}", l.row.accept_queue, l.row.backlog).into();
        /// Packets dropped at it in the window.
        DROPPED: right("DROPPED", 7, &[], Unit::Count) => |l, _| l.dropped.into();
        /// Its accept queue, second by second.
        HISTORY: right("QUEUE, LAST MINUTE", CURVE, &[], Unit::Words) => |l, _| curve(&l.queue, CURVE).into();
        /// The process that accepts there, and how many more do.
        OWNER: OWNER => |l, _| match l.more_owners {
            0 => who(&l.owner).into(),
            more => format!("{} +{more}", who(&l.owner)).into(),
        };
    }

    fn is_full(&self) -> bool {
        AcceptQueue::of(&self.row).is_full()
    }
}

pub(super) const COLUMNS: &[Shown<Listening>] = &[
    stays(Listening::LOCAL),
    goes(1, Listening::GAUGE).looking(|l| {
        if l.is_full() {
            Look::Title
        } else {
            Look::Command
        }
    }),
    stays(Listening::OF).looking(|l| warning_if(l.is_full())),
    goes(2, Listening::WAITED),
    goes(2, Listening::SYNQ).looking(|l| warning_if(l.row.synflood_warned)),
    stays(Listening::DROPPED).looking(|l| warning_if(l.dropped > 0)),
    goes(1, Listening::ACCEPT_RATE),
    goes(5, Listening::HISTORY).looking(|_| Look::Command),
    goes(4, Listening::NETNS),
    goes(1, Listening::OWNER),
];

pub(super) fn content(snapshot: &Snapshot, how: &How) -> Content {
    let lines = snapshot.listeners.iter();
    let lines = lines.map(|l| (Target::Listener(l.row.netns, l.row.sock), l.clone()));
    let note = match snapshot.left_out {
        0 => "the fullest first".to_string(),
        n => format!("{n} samples found no room: there are more listeners than shown"),
    };
    Content::of(COLUMNS, lines, how, note, "Nothing listens.")
}
