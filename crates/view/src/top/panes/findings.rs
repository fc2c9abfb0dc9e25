//! The findings: whose trouble, and what it is; for the selected one, also what to do.

use analysis::{Doing, ProcessState};
use explain::Finding;

use super::{Content, Shown, goes, stays};
use crate::columns::{Unit, columns, left, right};
use crate::how::How;
use crate::numbers::age;
use crate::style::Look;
use crate::text;
use crate::top::findings::{Case, Findings, Progress};
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::Below;

/// Stopped processes that are named.
const NAMED: usize = 4;

/// A finding, and since when in words.
pub(super) struct Found {
    case: Case,
    since: String,
}

impl Found {
    columns! {
        /// Since when it is found; in a recording, when the trouble began.
        SINCE: right("SINCE", 9, &[], Unit::Words) => |l, _| (&*l.since).into();
        /// How sure it is.
        SURE: left("SURE", 6, &[], Unit::Name)
            => |l, _| l.case.finding.confidence.level.to_string().into();
        /// Whose trouble it is, and what is wrong; of the selected one below it what to do (`fix:` a command that changes something, `look:` one that shows more; `y` copies it).
        FINDING: left("FINDING", 20, &[], Unit::Words) => |l, _| format!("{}{}", text::title(&l.case.finding), others(&l.case.finding)).into();
    }
}

pub(super) const COLUMNS: &[Shown<Found>] = &[
    goes(2, Found::SINCE),
    goes(3, Found::SURE),
    stays(Found::FINDING)
        .looking(|l| {
            if l.case.holds {
                Look::Title
            } else {
                Look::Faint
            }
        })
        .folding(),
];

pub(super) fn content(snapshot: &Snapshot, findings: &Findings, live: bool, how: &How) -> Content {
    let now = snapshot.now_ns;
    let lines = findings.cases.iter().map(|case| {
        let since = match (live, case.holds) {
            (false, _) => match &case.finding.since {
                Some(since) => format!("+{:.2} s", since.after_start_s),
                None => "-".to_string(),
            },
            (true, true) => age(now.saturating_sub(case.first_ns)),
            (true, false) => format!("ended {}", age(now.saturating_sub(case.last_ns))),
        };
        let found = Found {
            case: case.clone(),
            since,
        };
        (Target::Finding(case.key()), found)
    });
    let nothing = match (findings.progress, live) {
        (Progress::Waiting, true) => "None yet: the first seconds are being recorded.",
        (Progress::Waiting, false) => "None yet: the recording is being explained.",
        (Progress::Explained { .. }, true) => "No cause found in the time that was explained.",
        (Progress::Explained { .. }, false) => "No cause found in this recording.",
        (Progress::Failed, _) => "It could not be explained; see above.",
    };
    Content::of(COLUMNS, lines, how, String::new(), nothing).with(findings.cases.iter().map(to_do))
}

/// All stopped processes, where the one in the title is not the only one.
fn others(finding: &Finding) -> String {
    let stopped = |p: &&Doing| matches!(p.state, ProcessState::Stopped | ProcessState::WasStopped);
    let stopped = finding.scope.processes.iter().filter(stopped);
    let pids: Vec<String> = stopped.map(|p| p.pid.to_string()).collect();
    match pids.len() {
        0 | 1 => String::new(),
        n if n <= NAMED => format!(" (stopped: {})", pids.join(", ")),
        n => format!(" ({n} stopped: {}, …)", pids[..NAMED].join(", ")),
    }
}

/// What to do about it, and the first command that there is; if that is of other advice, with what it advises.
fn to_do(case: &Case) -> Vec<Below> {
    let below = |label: &str, look, text: &str| Below {
        label: label.into(),
        look,
        text: text.into(),
    };
    let mut lines = vec![below("do:   ", Look::Fix, &case.finding.fix)];
    if let Some((at, advice, command)) = case.command() {
        if at > 0 {
            lines.push(below("or:   ", Look::Plain, &advice.action));
        }
        let kind = format!("{:<5} ", text::advice_kind(advice));
        lines.push(below(&kind, Look::Command, command));
    }
    lines
}
