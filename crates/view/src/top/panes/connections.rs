//! Rates of connections and of their troubles.

use analysis::Activity;

use super::{Content, Shown, goes, stays, warning_if};
use crate::columns::{Unit, columns, left, right};
use crate::how::How;
use crate::numbers::{group, rate, us_in_ms};
use crate::style::Look;
use crate::top::frame;
use crate::top::snapshot::{Rate, Snapshot};
use crate::top::state::Target;
use crate::top::table::curve;

const CURVE: usize = 30;
/// Pending connects are shown when the oldest is older.
const LONG_NS: u64 = 10_000_000;

impl Rate {
    columns! {
        /// What is counted.
        NAME: left("PER SECOND", 15, &[], Unit::Name) => |l, _| frame::shown(l.activity).0.into();
        /// In the last whole second.
        NOW: right("NOW", 8, &[], Unit::PerSecond) => |l, _| rate(l.now).into();
        /// Over the window.
        WINDOW: right("WINDOW", 8, &[], Unit::PerSecond) => |l, _| rate(l.mean).into();
        /// How many in the window.
        COUNT: right("COUNT", 9, &[], Unit::Count) => |l, _| group(l.count as f64).into();
        /// Second by second.
        HISTORY: right("LAST MINUTE", CURVE, &[], Unit::Words) => |l, _| curve(&l.curve, CURVE).into();
        /// Kinds and reasons, the most frequent first.
        WHY: left("WHY, IN THE WINDOW", 8, &[], Unit::Words) => |l, _| {
            let why = l.reasons.iter().take(4).map(|(why, n)| format!("{why} {n}"));
            why.collect::<Vec<_>>().join(", ").into()
        };
    }

    fn look(&self) -> Look {
        warning_if(self.activity.is_trouble() && self.count > 0)
    }
}

pub(super) const COLUMNS: &[Shown<Rate>] = &[
    stays(Rate::NAME).looking(Rate::look),
    stays(Rate::NOW).looking(Rate::look),
    goes(2, Rate::WINDOW),
    goes(3, Rate::COUNT),
    goes(1, Rate::HISTORY).looking(|_| Look::Command),
    goes(2, Rate::WHY),
];

/// How long a connect took; a second and more in seconds.
pub(in crate::top) fn took(ns: u64) -> String {
    match ns {
        0..1_000_000_000 => us_in_ms(ns as f64 / 1000.0),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

pub(super) fn content(snapshot: &Snapshot, how: &How) -> Content {
    // Rates of connects are always there; then comes what happened, and last what did not.
    let always = |r: &&Rate| matches!(r.activity, Activity::Opened | Activity::Accepted);
    let mut rates: Vec<&Rate> = snapshot.rates.iter().collect();
    rates.sort_by_key(|r| (!always(r), r.count == 0, !r.activity.is_trouble()));
    let lines = rates.into_iter();
    let lines = lines.map(|r| (Target::Count(r.activity), r.clone()));
    let at = |percent| snapshot.connects.percentile(percent);
    let mut note = match (at(50), at(99)) {
        (Some(p50), Some(p99)) => format!("connect p50 {}, p99 {}", took(p50), took(p99)),
        _ => String::new(),
    };
    // A connect that has only just begun is not waiting.
    let (pending, oldest) = snapshot.pending;
    if pending > 0 && oldest >= LONG_NS {
        note += &format!(
            "; {} pending, oldest {}",
            group(pending as f64),
            took(oldest)
        );
    }
    let nothing = if snapshot.has("event") {
        "Nothing happened yet."
    } else {
        "No connection has opened or ended yet."
    };
    Content::of(COLUMNS, lines, how, note, nothing)
}
