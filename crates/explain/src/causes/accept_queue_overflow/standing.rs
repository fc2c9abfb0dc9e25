//! A queue that was full before the recording began and from which nothing was taken: its counters need not rise, as
//! clients that have given up, or use the connections that they have, send no SYN.

use analysis::account;
use analysis::words::{duration, plural};

use crate::moment::{Began, Since};
use crate::places::listener::ListenerPlace;
use crate::vocabulary::*;

/// What stands in a listener's accept queue.
pub(super) struct Standing {
    /// Connections that wait for accept().
    waiting: u64,
    /// From the first sample to the last, ns.
    for_ns: u64,
    rows: [RowRef; 2],
    /// The sampled ones among them.
    ids: Vec<ConnId>,
}

impl Standing {
    /// The standing queue of a listener whose queues were never seen with room and which accepted nothing.
    pub(super) fn of(here: ListenerPlace) -> Option<Standing> {
        let listener = here.listener;
        let full = listener.socks.iter().find(|s| s.stood_full())?;
        // With SO_REUSEPORT the other sockets may serve; one that hangs among them is another matter.
        let alone = listener.socks.len() == 1 && listener.call.is_none();
        if !alone || here.accepted() > 0 {
            return None;
        }
        let (first, last) = listener.crowded_ns()?;
        let ends = here.story.all(&listener.accepted);
        let unaccepted = ends.filter(|(_, c)| {
            let spent = account::of_end(here.story, c);
            spent.of(State::Unaccepted) > 0
        });
        Some(Standing {
            waiting: full.last_queue.into(),
            for_ns: last.saturating_sub(first),
            rows: [full.first_row, full.last_row],
            ids: unaccepted.map(|(id, _)| id).collect(),
        })
    }

    pub(super) fn says(&self) -> String {
        format!(
            "the accept queue was full in the first sample and in every one after it, and nothing was \
             accepted from it for {}",
            Quantity::ns(self.for_ns)
        )
    }

    pub(super) fn step(&self) -> Step {
        say!(
            "It was full before the recording began: {waiting} stayed in it for the whole {standing}, and \
             none was accepted.",
            waiting = Quantity::of(self.waiting, "connection").rows(self.rows),
            standing = Quantity::ns(self.for_ns)
        )
    }

    pub(super) fn impact(&self) -> Impact {
        let says = format!(
            "{} waited for accept() throughout ({}); new connects get no answer.",
            plural(self.waiting, "connection"),
            duration(self.for_ns)
        );
        Impact::of(self.waiting, self.waiting, "connections", says)
    }

    /// How long each of them waited; for those that no sample shows, as long as the queue was seen.
    pub(super) fn lost(&self, story: &Story) -> Lost {
        let mut lost = Lost::unknown();
        for (_, conn) in story.all(&self.ids) {
            let spent = account::of_end(story, conn);
            lost.add(conn, State::Unaccepted, spent.of(State::Unaccepted));
        }
        if self.ids.is_empty() {
            Lost::elsewhere(self.waiting.saturating_mul(self.for_ns))
        } else {
            lost
        }
    }

    pub(super) fn since(&self, story: &Story) -> Since {
        Since::at(story, story.start_ns, Began::Before)
    }
}
