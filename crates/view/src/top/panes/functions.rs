//! Functions of the kernel in which CPUs were found.

use super::{Content, Shown, goes, stays};
use crate::columns::{Unit, columns, left, right};
use crate::how::How;
use crate::numbers::tenth;
use crate::style::Look;
use crate::top::snapshot::{Function, Snapshot};
use crate::top::state::Target;
use crate::top::table::gauge;

const GAUGE: usize = 10;

impl Function {
    columns! {
        /// Share of the samples that were in the function itself.
        SELF: right("SELF%", 6, &[], Unit::Percent) => |l, _| (l.share(l.itself) * 100.0).into();
        /// Share of the samples that were in it, or in what it called.
        TOTAL: right("TOTAL%", 6, &[], Unit::Percent) => |l, _| (l.share(l.total) * 100.0).into();
        GAUGE: left("", GAUGE, &[], Unit::Words) => |l, _| gauge(l.share(l.itself), GAUGE).into();
        /// Name of the function.
        NAME: left("FUNCTION", 16, &[], Unit::Name) => |l, _| (&l.name).into();
    }

    /// A share of all samples.
    pub(in crate::top) fn share(&self, samples: u64) -> f64 {
        samples as f64 / self.of.max(1) as f64
    }
}

pub(super) const COLUMNS: &[Shown<Function>] = &[
    stays(Function::SELF),
    goes(1, Function::TOTAL),
    goes(2, Function::GAUGE).looking(|_| Look::Command),
    stays(Function::NAME),
];

pub(super) fn content(snapshot: &Snapshot, live: bool, how: &How) -> Content {
    let lines = snapshot.functions.iter();
    let lines = lines.map(|f| (Target::Function(f.name.clone()), f.clone()));
    let (all, idle) = snapshot.samples;
    let note = match all {
        0 => String::new(),
        all => {
            let idle = tenth(idle as f64 * 100.0 / all as f64);
            format!("of {all} samples; idle {idle} %")
        }
    };
    let nothing = match (snapshot.has("sample"), live) {
        (true, _) => "No CPU sample was in the kernel.",
        (false, true) => "CPUs are not sampled: `tcpwhy top --with profile` does.",
        (false, false) => "This recording has no CPU profile: record it `--with profile`.",
    };
    Content::of(COLUMNS, lines, how, note, nothing)
}
