//! Rates of connections and of their troubles.

use super::{Content, Shown, goes, stays, warning_if};
use crate::columns::{Unit, columns, left, right};
use crate::numbers::{group, rate, us_in_ms};
use crate::screen::How;
use crate::style::Look;
use crate::top::frame;
use crate::top::snapshot::{Rate, Snapshot};
use crate::top::state::Target;
use crate::top::table::curve;

const CURVE: usize = 30;

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

pub(super) fn content(snapshot: &Snapshot, how: &How) -> Content {
    let lines = snapshot.rates.iter();
    let lines = lines.map(|r| (Target::Count(r.activity), r.clone()));
    let at = |percent| snapshot.connects.percentile(percent);
    let note = match (at(50), at(99)) {
        (Some(p50), Some(p99)) => format!(
            "connect p50 {}, p99 {}",
            us_in_ms(p50 as f64 / 1000.0),
            us_in_ms(p99 as f64 / 1000.0)
        ),
        _ => String::new(),
    };
    let nothing = match snapshot.has("event") {
        true => "Nothing happened yet.",
        false => "No connection has opened or ended yet.",
    };
    Content::of(COLUMNS, lines, how, note, nothing)
}
