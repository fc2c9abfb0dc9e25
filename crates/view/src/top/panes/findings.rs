//! The findings, a line each.

use super::{Content, age, plain};
use crate::style::Look;
use crate::top::findings::{Findings, Progress};
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::{Column, Entry, left, right};

const COLUMNS: &[Column] = &[
    right("SINCE", 9, 2),
    left("SURE", 6, 3),
    left("FINDING", 20, 0),
];

pub(super) fn content(snapshot: &Snapshot, findings: &Findings, live: bool) -> Content {
    let now = snapshot.now_ns;
    let entries = findings.cases.iter().map(|case| {
        let since = match (live, case.holds) {
            (false, _) => match &case.finding.since {
                Some(since) => format!("+{:.2} s", since.after_start_s),
                None => "-".to_string(),
            },
            (true, true) => age(now.saturating_sub(case.first_ns)),
            (true, false) => format!("ended {}", age(now.saturating_sub(case.last_ns))),
        };
        let look = if case.holds { Look::Title } else { Look::Faint };
        Entry {
            target: Target::Finding(case.key()),
            cells: vec![
                plain(since),
                plain(case.finding.confidence.level.to_string()),
                (look, case.finding.title.clone()),
            ],
        }
    });
    let nothing = match (findings.progress, live) {
        (Progress::Waiting, true) => "None yet: the first seconds are being recorded.",
        (Progress::Waiting, false) => "None yet: the recording is being explained.",
        (Progress::Explained { .. }, true) => "No cause found in the time that was explained.",
        (Progress::Explained { .. }, false) => "No cause found in this recording.",
        (Progress::Failed, _) => "It could not be explained; see above.",
    };
    Content {
        note: String::new(),
        columns: COLUMNS,
        entries: entries.collect(),
        nothing: nothing.into(),
    }
}
