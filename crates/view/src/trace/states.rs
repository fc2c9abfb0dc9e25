//! `trace states`: every change of state, and how long the old state lasted.

use std::io;

use ahash::AHashMap;
use analysis::owners::Owner;
use recording::tables::Event;
use recording::{EventKind, TcpState};
use serde::Serialize;

use super::{Ends, EventLines};
use crate::numbers::{endpoint, ms, or_dash, rounded, text_or_dash};
use crate::screen::{Column, Screen, When};

/// Sockets whose last change is remembered; of others the duration is not told.
const MAX_SOCKETS: usize = 1 << 20;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("COMM", -15),
    ("LOCAL", -21),
    ("REMOTE", -21),
    ("OLD", -11),
    ("->", -2),
    ("NEW", -11),
    ("IN-OLD(ms)", 12),
];

#[derive(Default)]
pub(super) struct States {
    /// When each socket came into which state.
    since: AHashMap<u64, (u64, Option<TcpState>)>,
    /// How long the state lasted that the event at hand ends.
    lasted_ns: Option<u64>,
}

#[derive(Serialize)]
struct Line<'e> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    #[serde(flatten)]
    owner: &'e Owner,
    #[serde(flatten)]
    ends: Ends,
    old_state: &'e Option<TcpState>,
    state: &'e Option<TcpState>,
    in_old_state_ms: Option<f64>,
}

impl EventLines for States {
    fn shows(&mut self, e: &Event) -> bool {
        if e.kind != EventKind::State {
            return false;
        }
        let Some(sock) = e.sock else { return true };
        // Of a change that was not seen, or of a socket that had the same id, nothing is told.
        let since = self.since.remove(&sock);
        let since = since.filter(|(_, state)| *state == e.old_state);
        self.lasted_ns = since.and_then(|(since, _)| e.time_ns.checked_sub(since));
        if e.state != Some(TcpState::Close) && self.since.len() < MAX_SOCKETS {
            self.since.insert(sock, (e.time_ns, e.state.clone()));
        }
        true
    }

    fn line(&mut self, e: &Event, owner: &Owner, screen: &mut Screen) -> io::Result<()> {
        if screen.how.json {
            return screen.json(&Line {
                r#type: "state",
                when: When::of(e.time_ns, screen.how),
                owner,
                ends: Ends::of(e, screen.how),
                old_state: &e.old_state,
                state: &e.state,
                in_old_state_ms: self.lasted_ns.map(|ns| rounded(ns as f64 / 1e6)),
            });
        }
        let cells = [
            screen.how.time(e.time_ns),
            or_dash(owner.pid),
            text_or_dash(owner.comm.as_deref()),
            endpoint(e.local_addr, e.local_port),
            endpoint(e.remote_addr, e.remote_port),
            text_or_dash(e.old_state.as_ref().map(TcpState::as_str)),
            "->".into(),
            text_or_dash(e.state.as_ref().map(TcpState::as_str)),
            or_dash(self.lasted_ns.map(ms)),
        ];
        screen.line(COLUMNS, &cells)
    }
}
