//! `trace resets`: every reset, who sent it, why, and the kernel's stack at that moment.

use std::io;

use recording::tables::Event;
use recording::{EventKind, Row};

use super::stacks::{self, Stacks};
use super::{About, Lines};
use crate::columns::{Unit, columns, json, left};
use crate::screen::Screen;

/// A reset: the kernel's stack, the innermost function first, when this host sent it.
pub(crate) struct Reset(Option<Vec<String>>);

columns! {
    About<Reset> = "reset" {
        text TIME PID COMM SENT_BY LOCAL REMOTE STATE REASON NETNS;
        json TIME PID COMM CGROUP SENT_BY NETNS FAMILY LOCAL REMOTE STATE REASON STACK FLAGS SEQ;
    }
    /// Which side gave up: `this-host` or `peer`.
    SENT_BY: left("SENT-BY", 9, &["sent_by"], Unit::Name) => |l, _| match l.event.kind {
        EventKind::ResetSent => "this-host".into(),
        _ => "peer".into(),
    };
    /// Functions of the kernel that sent it, the innermost first; null of one that was received.
    STACK: json(&["stack"], Unit::Name) => |l, _| l.more.0.clone().into();
    /// TCP flags of the packet that it answers.
    FLAGS: json(&["answered_flags"], Unit::Id) => |l, _| l.event.flags.into();
    /// Sequence number of that packet.
    SEQ: json(&["answered_seq"], Unit::Seq) => |l, _| l.event.seq.into();
}

#[derive(Default)]
pub(super) struct Resets {
    stacks: Stacks,
}

impl Lines for Resets {
    type More = Reset;

    fn more(&mut self, e: &Event) -> Option<Reset> {
        let is_one = matches!(e.kind, EventKind::ResetSent | EventKind::ResetReceived);
        is_one.then(|| Reset(e.stack.and_then(|s| self.stacks.functions(s))))
    }

    fn below(reset: &Reset, screen: &mut Screen) -> io::Result<()> {
        stacks::show(reset.0.as_deref(), screen)
    }

    fn more_tables(&self) -> &'static [&'static str] {
        stacks::TABLES
    }

    fn learn(&mut self, row: &Row) {
        self.stacks.take(row);
    }
}
