//! Listeners: how full the queue is that they accept from, the fullest first.

use analysis::AcceptQueue;

use super::{Content, plain, rate, warning_if, who};
use crate::numbers::endpoint;
use crate::style::Look;
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::{Column, Entry, curve, gauge, left, right};

const GAUGE: usize = 12;
const CURVE: usize = 20;
const COLUMNS: &[Column] = &[
    left("LISTENER", 21, 0),
    left("ACCEPT QUEUE", GAUGE, 1),
    right("OF", 10, 0),
    right("SYN QUEUE", 9, 2),
    right("DROPS", 7, 0),
    right("ACCEPTED/s", 10, 1),
    right("QUEUE, LAST MINUTE", CURVE, 5),
    left("NETNS", 12, 4),
    left("OWNER", 14, 1),
];

pub(super) fn content(snapshot: &Snapshot) -> Content {
    let entries = snapshot.listeners.iter().map(|l| {
        let row = &l.row;
        let accept_queue = AcceptQueue::of(row);
        let full = accept_queue.is_full();
        let look = match full {
            true => Look::Title,
            false => Look::Command,
        };
        let queue = format!("{}/{}", row.accept_queue, row.backlog);
        Entry {
            target: Target::Listener(row.netns, row.sock),
            cells: vec![
                plain(endpoint(row.local_addr, row.local_port)),
                (look, gauge(accept_queue.share(), GAUGE)),
                warning_if(full, queue),
                warning_if(row.synflood_warned, row.syn_queue.to_string()),
                warning_if(l.drops > 0, l.drops.to_string()),
                plain(rate(l.accepted)),
                (Look::Command, curve(&l.queue, CURVE)),
                plain(snapshot.netns(row.netns)),
                plain(who(&l.owner)),
            ],
        }
    });
    let note = match snapshot.left_out {
        0 => "the fullest first; drops in the window".to_string(),
        n => format!("{n} samples found no room: there are more"),
    };
    Content {
        note,
        columns: COLUMNS,
        entries: entries.collect(),
        nothing: "Nothing listens.".into(),
    }
}
