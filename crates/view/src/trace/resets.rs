//! `trace resets`: every reset, who sent it, why, and the kernel's stack at that moment.

use std::io;

use analysis::owners::Owner;
use recording::tables::Event;
use recording::{EventKind, Row, TcpState, Text};
use serde::Serialize;

use super::stacks::{self, Stacks};
use super::{Ends, EventLines};
use crate::numbers::{endpoint, or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("COMM", -15),
    ("SENT-BY", -9),
    ("LOCAL", -21),
    ("REMOTE", -21),
    ("STATE", -12),
    ("REASON", -1),
];

#[derive(Default)]
pub(super) struct Resets {
    stacks: Stacks,
}

#[derive(Serialize)]
struct Line<'e> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    #[serde(flatten)]
    owner: &'e Owner,
    sent_by: &'static str,
    #[serde(flatten)]
    ends: Ends,
    state: &'e Option<TcpState>,
    reason: &'e Option<Text>,
    stack: Option<Vec<String>>,
    answered_flags: Option<u8>,
    answered_seq: Option<u32>,
}

fn sent_by(e: &Event) -> &'static str {
    match e.kind {
        EventKind::ResetSent => "this-host",
        _ => "peer",
    }
}

impl EventLines for Resets {
    fn shows(&mut self, e: &Event) -> bool {
        matches!(e.kind, EventKind::ResetSent | EventKind::ResetReceived)
    }

    fn line(&mut self, e: &Event, owner: &Owner, screen: &mut Screen) -> io::Result<()> {
        let stack = e.stack.and_then(|s| self.stacks.functions(s));
        if screen.how.json {
            return screen.json(&Line {
                r#type: "reset",
                when: When::of(e.time_ns, screen.how),
                owner,
                sent_by: sent_by(e),
                ends: Ends::of(e, screen.how),
                state: &e.state,
                reason: &e.reason,
                stack,
                answered_flags: e.flags,
                answered_seq: e.seq,
            });
        }
        let cells = [
            screen.how.time(e.time_ns),
            or_dash(owner.pid),
            text_or_dash(owner.comm.as_deref()),
            sent_by(e).into(),
            endpoint(e.local_addr, e.local_port),
            endpoint(e.remote_addr, e.remote_port),
            text_or_dash(e.state.as_ref().map(TcpState::as_str)),
            text_or_dash(e.reason.as_deref()),
        ];
        screen.line(COLUMNS, &cells)?;
        for function in stack.iter().flatten() {
            screen.more(&format!("              {function}"))?;
        }
        Ok(())
    }

    fn more_tables(&self) -> &'static [&'static str] {
        stacks::TABLES
    }

    fn learn(&mut self, row: &Row) {
        self.stacks.take(row);
    }
}
