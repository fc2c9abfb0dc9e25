//! What was lost on a path, and how it was noticed.

use analysis::{Conn, Resends, SLOTS, Story};

use crate::finding::Step;
use crate::limits;
use crate::places::listener::SHOWN_ROWS;
use crate::places::path::{End, Path};
use crate::say::{Quantity, say};

/// What was lost of the segments that the ends of a path sent.
pub(crate) struct Losses<'a> {
    pub(crate) story: &'a Story,
    /// Segments retransmitted that were not duplicates at the receiver.
    pub(crate) lost: u64,
    /// Segments that the receiver had got twice.
    pub(crate) spurious: u64,
    pub(crate) segments: u64,
    /// What this host dropped of these connections.
    pub(crate) dropped: u64,
    /// Segments retransmitted on ACKs.
    pub(crate) fast: u64,
    /// Segments that had to wait for a timer.
    pub(crate) waited: u64,
    /// Parts of the recording with losses, and those in which something was sent.
    pub(crate) slots: (u32, u32),
    /// All ends.
    pub(crate) ends: Vec<End<'a>>,
    /// The ends that retransmitted something.
    pub(crate) suffering: Vec<End<'a>>,
}

impl<'a> Path<'a> {
    pub(crate) fn losses(&self) -> Losses<'a> {
        Losses::of(self.story, self.ends.clone())
    }
}

impl<'a> Losses<'a> {
    /// The losses among what these ends sent.
    pub(crate) fn of(story: &'a Story, ends: Vec<End<'a>>) -> Losses<'a> {
        let sum = |of: fn(&End) -> u64| ends.iter().map(of).sum::<u64>();
        let again = sum(|e| e.transfer.resends.count());
        let spurious = sum(|e| e.transfer.twice());
        let dropped: u64 = ends.iter().map(|e| story.dropped(e.conn)).sum();
        let translated = story
            .drops
            .translated_to(ends.iter().map(|e| e.conn.remote));
        let dropped = dropped.saturating_add(translated);
        let slots = ends.iter().map(|e| e.transfer.resends.slots);
        let slots = slots.fold(0, |all, of_one| all | of_one).count_ones();
        let longest = ends.iter().map(|e| e.transfer.span_ns).max();
        let whole = story.end_ns.saturating_sub(story.start_ns).max(1);
        let sent = longest.unwrap_or(0) as f64 / whole as f64 * f64::from(SLOTS);
        let suffering = ends.iter().filter(|e| e.transfer.resends.count() > 0);
        let suffering: Vec<End> = suffering.copied().collect();
        Losses {
            story,
            lost: again.saturating_sub(spurious),
            spurious,
            segments: sum(|e| e.transfer.segments()),
            dropped,
            fast: sum(|e| e.transfer.resends.fast),
            waited: sum(|e| e.transfer.resends.waited_sampled),
            slots: (slots, (sent.ceil() as u32).clamp(slots, SLOTS)),
            suffering,
            ends,
        }
    }
}

impl<'a> Losses<'a> {
    /// The path that all of the ends take.
    pub(crate) fn path(&self) -> Option<Path<'a>> {
        let Conn {
            netns,
            local,
            remote,
            ..
        } = self.ends.first()?.conn;
        let path = Path {
            story: self.story,
            netns: *netns,
            from: local.addr,
            to: remote.addr,
            ends: self.ends.clone(),
        };
        let all = self.ends.iter().all(|end| path.has(end.conn));
        all.then_some(path)
    }

    /// Segments that were retransmitted.
    pub(crate) fn retransmitted(&self) -> u64 {
        self.lost.saturating_add(self.spurious)
    }

    /// Share of the segments that were lost.
    pub(crate) fn share(&self) -> f64 {
        self.lost as f64 / self.segments.max(1) as f64
    }

    /// Segments that had to wait for a timer and that the receiver did not have yet: for those that it had, the ACK was
    /// lost. Which ones it had is unknown: at least as many were lost as duplicates leave, and as a rule the same share
    /// as of all that was retransmitted.
    pub(crate) fn late(&self) -> u64 {
        let least = self.waited.saturating_sub(self.spurious);
        let again = self.retransmitted().max(1);
        let share = self.lost as f64 / again as f64;
        least.max((self.waited as f64 * share) as u64)
    }

    /// The share of retransmitted segments that had to wait for a timer.
    pub(crate) fn tail_share(&self) -> f64 {
        self.waited as f64 / (self.waited + self.fast).max(1) as f64
    }

    /// Whether mostly the last segments of messages were lost, not parts of transfers.
    pub(crate) fn are_tails(&self) -> bool {
        self.tail_share() >= limits::MOST.share()
    }

    /// Whether almost none of it was dropped on this host.
    pub(crate) fn are_elsewhere(&self) -> bool {
        !limits::SMALL_PART.exceeded(self.dropped, self.lost)
    }

    /// Whether losses went on for as long as something was sent.
    pub(crate) fn are_spread(&self) -> bool {
        limits::MOST.reached(self.slots.0, self.slots.1)
    }

    /// What was retransmitted, and how its loss was noticed.
    pub(crate) fn retransmitted_step(&self) -> Step {
        let resends = || self.suffering.iter().map(|e| &e.transfer.resends);
        let sum = |of: fn(&Resends) -> u64| Quantity::count(resends().map(of).sum::<u64>());
        let rows = resends().flat_map(|r| r.rows.first().copied());
        say!(
            "{connections} sent {segments} and retransmitted {retransmitted} of them: {fast} on ACKs \
             or the reordering timer, {probes} as tail loss probes, {timeouts} on the RTO.",
            connections = Quantity::of(self.ends.len() as u64, "connection"),
            segments = Quantity::of(self.segments, "segment").rows(rows.take(2 * SHOWN_ROWS)),
            retransmitted = Quantity::count(self.retransmitted()),
            fast = sum(|r| r.fast),
            probes = sum(|r| r.probes),
            timeouts = sum(|r| r.timeouts)
        )
    }
}
