//! Threads: what each did with its time, those that did or waited for most first.

use analysis::Microstate;

use super::{Content, Shown, goes, stays, warning_if};
use crate::columns::{Column, Unit, columns, left};
use crate::how::How;
use crate::stat::threads::Timed;
use crate::style::Look;
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::letters;

const BAR: usize = 20;

/// The name of our own process, which its first thread has.
pub(in crate::top) const OWN: &str = "tcpwhy";

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
        /// The thread's name; those of tcpwhy itself, which come last, begin with `tcpwhy:`.
        WHO: left("PROCESS", 15, &[], Unit::Name) => |l, _| if l.own && &*l.last.comm != OWN { format!("{OWN}:{}", &*l.last.comm).into() } else { (&l.last.comm).into() };
        /// Its parts, a letter for each twentieth: U user, S system, L waits for a CPU, · asleep, K lock, D disk, F fault, T stopped.
        BAR: left("TIME", BAR, &[], Unit::Words) => |l, _| letters(&shares(l), BAR).into();
        /// The system call that it slept in longest.
        ASLEEP: left("ASLEEP IN", 12, &[], Unit::Words)
            => |l, _| l.sleeps.iter().flatten().next().map(|s| &s.syscall).into();
    }
}

impl Timed {
    /// Whether it is kept from its work: a thread should neither wait for a CPU nor be stopped.
    pub(in crate::top) fn is_kept_by(&self, state: Microstate) -> bool {
        /// Percent of the time; less is normal.
        const KEPT: f64 = 10.0;
        self.spent.percent(state) >= KEPT
    }
}

fn unwanted(t: &Timed, state: Microstate) -> Look {
    warning_if(t.is_kept_by(state) && !t.own)
}

pub(super) const COLUMNS: &[Shown<Timed>] = &[
    stays(Timed::WHO).looking(|t| if t.own { Look::Faint } else { Look::Plain }),
    goes(1, Timed::TID),
    goes(2, Timed::BAR).looking(|_| Look::Command),
    stays(Timed::USR),
    stays(Timed::SYS),
    stays(Timed::LAT).looking(|t| unwanted(t, Microstate::Runqueue)),
    goes(3, Timed::SLP),
    goes(3, Timed::LCK),
    goes(3, Timed::DSK),
    goes(4, Timed::FLT),
    goes(1, Timed::STP).looking(|t| unwanted(t, Microstate::Stopped)),
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
