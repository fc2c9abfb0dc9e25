//! Threads: what each did with its time, those that did or waited for most first.

use recording::tables::Thread;

use super::{Content, plain, warning_if};
use crate::numbers::tenth;
use crate::stat;
use crate::style::Look;
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::{Column, Entry, left, right};

const BAR: usize = 20;
/// A letter for each part of a thread's time, in the order of the columns.
pub(in crate::top) const LETTERS: [(char, &str); 8] = [
    ('U', "USR"),
    ('S', "SYS"),
    ('L', "LAT"),
    ('·', "SLP"),
    ('K', "LCK"),
    ('D', "DSK"),
    ('F', "FLT"),
    ('T', "STP"),
];
const COLUMNS: &[Column] = &[
    left("THREAD", 15, 0),
    right("TID", 8, 1),
    left("", BAR, 3),
    right("USR%", 5, 0),
    right("SYS%", 5, 0),
    right("LAT%", 5, 0),
    right("SLP%", 5, 2),
    right("LCK%", 5, 2),
    right("DSK%", 5, 2),
    right("FLT%", 5, 4),
    right("STP%", 5, 2),
    left("ASLEEP IN", 12, 5),
];

/// The parts of its time, shares of 1.
pub(in crate::top) fn shares(t: &Thread) -> [f64; 8] {
    stat::threads::parts(t).map(|ns| ns as f64 / t.interval_ns.max(1) as f64)
}

/// The parts as letters; each that there is has one at least, as far as there is room.
fn bar(shares: [f64; 8]) -> String {
    let mut bar = String::new();
    let mut until = 0.0;
    for (share, (letter, _)) in shares.iter().zip(LETTERS) {
        until += share;
        let to = (until * BAR as f64).round() as usize;
        let have = bar.chars().count();
        let least = usize::from(*share >= 0.01);
        let n = to.saturating_sub(have).max(least).min(BAR - have.min(BAR));
        bar.extend(std::iter::repeat_n(letter, n));
    }
    bar
}

pub(super) fn content(snapshot: &Snapshot, live: bool) -> Content {
    let entries = snapshot.threads.iter().map(|t| {
        let p = shares(&t.sum);
        let mut cells = vec![
            plain(&*t.sum.comm),
            plain(t.sum.tid.to_string()),
            (Look::Command, bar(p)),
        ];
        for (i, share) in p.iter().enumerate() {
            let text = tenth(share * 100.0);
            // Waiting for a CPU, and being stopped, is what nobody wants.
            cells.push(warning_if(matches!(i, 2 | 7) && *share >= 0.1, text));
        }
        let asleep = t.sleeps.first();
        cells.push(plain(asleep.map_or("", |(call, ..)| call)));
        Entry {
            target: Target::Thread(t.sum.pid, t.sum.tid),
            cells,
        }
    });
    let nothing = match (snapshot.has("thread"), live) {
        (true, _) => "No thread did anything but sleep and wait for locks.",
        (false, true) => "Threads are not recorded: leave out `--without threads`.",
        (false, false) => "This recording has no threads: record it `--with threads`.",
    };
    Content {
        note: "U user, S system, L waits for a CPU, K lock, D disk, F fault, T stopped, · asleep"
            .into(),
        columns: COLUMNS,
        entries: entries.collect(),
        nothing: nothing.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_every_part() {
        assert_eq!(
            bar([0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]),
            "UUUUUUUUUU··········"
        );
        let small = bar([0.02, 0.0, 0.02, 0.96, 0.0, 0.0, 0.0, 0.0]);
        assert!(small.starts_with("UL·"), "{small}");
        for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            assert!(bar([odd; 8]).chars().count() <= BAR);
        }
    }
}
