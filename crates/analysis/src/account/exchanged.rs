//! Rows of `request` together: what the exchanges of several seconds come to.

use recording::tables::{Request, RequestPart};

/// Where more than this share of the exchanges overlapped, or was not asked for, requests cannot be matched with
/// answers.
const MULTIPLEXED: f64 = 0.05;

/// Adds another second of the same listener or destination; what was open is taken from the later one.
pub fn add_requests(all: &mut Request, more: &Request) {
    if more.time_ns >= all.time_ns {
        all.open = more.open.or(all.open);
        (all.time_ns, all.one_in) = (more.time_ns, more.one_in);
    }
    for (sum, more) in [
        (&mut all.given_up, more.given_up),
        (&mut all.given_up_ns, more.given_up_ns),
    ] {
        *sum = match (*sum, more) {
            (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
            (sum, more) => sum.or(more),
        };
    }
    for (sum, more) in [
        (&mut all.exchanges, more.exchanges),
        (&mut all.overlapped, more.overlapped),
        (&mut all.pushed, more.pushed),
        (&mut all.unanswered, more.unanswered),
        (&mut all.retransmits, more.retransmits),
        (&mut all.think_alone_ns, more.think_alone_ns),
        (&mut all.think_cpu_ns, more.think_cpu_ns),
        (&mut all.think_runqueue_ns, more.think_runqueue_ns),
    ] {
        *sum = sum.saturating_add(more);
    }
    for part in RequestPart::ALL {
        let sum = all.part_ns_mut(part);
        *sum = sum.saturating_add(more.part_ns(part));
    }
}

/// The time of all exchanges of a row, ns: its parts.
pub fn exchanged_ns(row: &Request) -> u64 {
    let parts = RequestPart::ALL.into_iter();
    parts.fold(0, |sum, part| sum.saturating_add(row.part_ns(part)))
}

/// Whether so many of a row's exchanges overlapped, or were not asked for, that requests cannot be matched with
/// answers.
pub fn is_multiplexed(row: &Request) -> bool {
    let overlapped = row.overlapped.saturating_add(row.pushed);
    overlapped as f64 > row.exchanges as f64 * MULTIPLEXED
}
