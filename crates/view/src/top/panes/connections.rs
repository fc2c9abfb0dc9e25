//! Rates of connections and of their troubles.

use super::{Content, group, ms, plain, rate, warning_if};
use crate::style::Look;
use crate::top::frame;
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::{Column, Entry, curve, left, right};

const CURVE: usize = 30;
const COLUMNS: &[Column] = &[
    left("PER SECOND", 13, 0),
    right("NOW", 8, 0),
    right("WINDOW", 8, 2),
    right("COUNT", 9, 3),
    right("LAST MINUTE", CURVE, 1),
    left("WHY, IN THE WINDOW", 8, 2),
];

pub(super) fn content(snapshot: &Snapshot) -> Content {
    let entries = snapshot.rates.iter().map(|r| {
        let (most, ..) = r.reasons.split_at(r.reasons.len().min(4));
        let why = most.iter().map(|(why, n)| format!("{why} {n}"));
        let trouble = r.activity.is_trouble() && r.count > 0;
        Entry {
            target: Target::Count(r.activity),
            cells: vec![
                warning_if(trouble, frame::shown(r.activity).0),
                warning_if(trouble, rate(r.now)),
                plain(rate(r.mean)),
                plain(group(r.count as f64)),
                (Look::Command, curve(&r.curve, CURVE)),
                plain(why.collect::<Vec<_>>().join(", ")),
            ],
        }
    });
    let at = |percent| snapshot.connects.percentile(percent);
    let note = match (at(50), at(99)) {
        (Some(p50), Some(p99)) => format!(
            "connect took up to {} in half, {} in 99 %",
            ms(p50 as f64 / 1000.0),
            ms(p99 as f64 / 1000.0)
        ),
        _ => String::new(),
    };
    let nothing = match snapshot.has("event") {
        true => "Nothing happened yet.",
        false => "No connection has opened or ended yet.",
    };
    Content {
        note,
        columns: COLUMNS,
        entries: entries.collect(),
        nothing: nothing.into(),
    }
}
