//! `trace drops`: every TCP packet that this host threw away, why and where.

use std::io;

use analysis::owners::Owner;
use recording::tables::Event;
use recording::{EventKind, TcpState, Text};
use serde::Serialize;

use super::{Ends, EventLines};
use crate::numbers::{endpoint, flags, or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("COMM", -15),
    ("TO", -21),
    ("FROM", -21),
    ("FLAGS", -11),
    ("STATE", -12),
    ("REASON", -24),
    ("LOCATION", -1),
];

pub(super) struct Drops;

#[derive(Serialize)]
struct Line<'e> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    #[serde(flatten)]
    owner: &'e Owner,
    #[serde(flatten)]
    ends: Ends,
    flags: Option<u8>,
    seq: Option<u32>,
    state: &'e Option<TcpState>,
    reason: &'e Option<Text>,
    location: &'e Option<Text>,
}

impl EventLines for Drops {
    fn shows(&mut self, e: &Event) -> bool {
        e.kind == EventKind::Drop
    }

    fn line(&mut self, e: &Event, owner: &Owner, screen: &mut Screen) -> io::Result<()> {
        if screen.how.json {
            return screen.json(&Line {
                r#type: "drop",
                when: When::of(e.time_ns, screen.how),
                owner,
                ends: Ends::of(e, screen.how),
                flags: e.flags,
                seq: e.seq,
                state: &e.state,
                reason: &e.reason,
                location: &e.location,
            });
        }
        let cells = [
            screen.how.time(e.time_ns),
            or_dash(owner.pid),
            text_or_dash(owner.comm.as_deref()),
            endpoint(e.local_addr, e.local_port),
            endpoint(e.remote_addr, e.remote_port),
            flags(e.flags),
            text_or_dash(e.state.as_ref().map(TcpState::as_str)),
            text_or_dash(e.reason.as_deref()),
            text_or_dash(e.location.as_deref()),
        ];
        screen.line(COLUMNS, &cells)
    }
}
