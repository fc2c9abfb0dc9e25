//! Threads: what each did with its time, those that did or waited for most first.

use analysis::Microstate;

use super::{Content, Shown, goes, stays, warning_if};
use crate::columns::{Column, Unit, columns, left};
use crate::screen::How;
use crate::stat::threads::Timed;
use crate::style::Look;
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::letters;

const BAR: usize = 20;

/// The parts of a thread's time, and a letter for each.
pub(in crate::top) const PARTS: [(char, Column<Timed>); 8] = [
    ('U', Timed::USR),
    ('S', Timed::SYS),
    ('L', Timed::LAT),
    ('·', Timed::SLP),
    ('K', Timed::LCK),
    ('D', Timed::DSK),
    ('F', Timed::FLT),
    ('T', Timed::STP),
];

impl Timed {
    columns! {
        /// Its parts, a letter for each twentieth: U user, S system, L waits for a CPU, · asleep, K lock, D disk, F fault, T stopped.
        BAR: left("TIME", BAR, &[], Unit::Words) => |l, _| letters(&shares(l), BAR).into();
        /// The system call that it slept in longest.
        ASLEEP: left("ASLEEP IN", 12, &[], Unit::Words)
            => |l, _| l.sleeps.iter().flatten().next().map(|s| &s.syscall).into();
    }
}

/// Waiting for a CPU, and being stopped, is what nobody wants.
fn unwanted(t: &Timed, state: Microstate) -> Look {
    warning_if(t.spent.percent(state) >= 10.0)
}

pub(super) const COLUMNS: &[Shown<Timed>] = &[
    stays(Timed::PROCESS),
    goes(1, Timed::TID),
    goes(3, Timed::BAR).looking(|_| Look::Command),
    stays(Timed::USR),
    stays(Timed::SYS),
    stays(Timed::LAT).looking(|t| unwanted(t, Microstate::Runqueue)),
    goes(2, Timed::SLP),
    goes(2, Timed::LCK),
    goes(2, Timed::DSK),
    goes(4, Timed::FLT),
    goes(2, Timed::STP).looking(|t| unwanted(t, Microstate::Stopped)),
    goes(5, Timed::ASLEEP),
];

/// The parts of its time, shares of 1, with their letters.
fn shares(t: &Timed) -> [(f64, char); 8] {
    let share = |i: usize| t.spent.percent(Microstate::ALL[i]) / 100.0;
    std::array::from_fn(|i| (share(i), PARTS[i].0))
}

pub(super) fn content(snapshot: &Snapshot, live: bool, how: &How) -> Content {
    let lines = snapshot.threads.iter();
    let lines = lines.map(|t| (Target::Thread(t.last.pid, t.last.tid), t.clone()));
    let nothing = match (snapshot.has("thread"), live) {
        (true, _) => "No thread did anything but sleep and wait for locks.",
        (false, true) => "Threads are not recorded: leave out `--without threads`.",
        (false, false) => "This recording has no threads: record it `--with threads`.",
    };
    let note = "U user, S system, L waits for a CPU, K lock, D disk, F fault, T stopped, · asleep";
    Content::of(COLUMNS, lines, how, note.into(), nothing)
}
