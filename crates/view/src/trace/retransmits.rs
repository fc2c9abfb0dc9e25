//! `trace retransmits`: every segment retransmitted, with its owner, what sent it, and which attempt.

use std::io;

use analysis::owners::Owner;
use recording::tables::Event;
use recording::{EventKind, TcpState};
use serde::Serialize;

use super::{Ends, EventLines};
use crate::numbers::{endpoint, or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("COMM", -15),
    ("LOCAL", -21),
    ("REMOTE", -21),
    ("STATE", -12),
    ("KIND", -7),
    ("NTH", 3),
    ("SEQ", 10),
    ("CWND", 5),
    ("RTT(us)", 7),
];

pub(super) struct Retransmits;

#[derive(Serialize)]
struct Line<'e> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    #[serde(flatten)]
    owner: &'e Owner,
    #[serde(flatten)]
    ends: Ends,
    state: &'e Option<TcpState>,
    kind: &'e str,
    attempt: Option<u32>,
    seq: Option<u32>,
    cwnd_segments: Option<u32>,
    rtt_us: Option<u32>,
    total_retransmits: Option<u32>,
}

/// What was retransmitted, or what retransmitted it.
fn kind(e: &Event) -> &str {
    match (&e.kind, &e.state, &e.retransmit_kind) {
        (EventKind::SynAckRetransmit, ..) => "syn-ack",
        (_, Some(TcpState::SynSent), _) => "syn",
        (_, _, Some(kind)) => kind.as_str(),
        (_, _, None) => "",
    }
}

impl EventLines for Retransmits {
    fn shows(&mut self, e: &Event) -> bool {
        matches!(e.kind, EventKind::Retransmit | EventKind::SynAckRetransmit)
    }

    fn line(&mut self, e: &Event, owner: &Owner, screen: &mut Screen) -> io::Result<()> {
        if screen.how.json {
            return screen.json(&Line {
                r#type: "retransmit",
                when: When::of(e.time_ns, screen.how),
                owner,
                ends: Ends::of(e, screen.how),
                state: &e.state,
                kind: kind(e),
                attempt: e.attempt,
                seq: e.seq,
                cwnd_segments: e.cwnd,
                rtt_us: e.rtt_us,
                total_retransmits: e.retransmits,
            });
        }
        let cells = [
            screen.how.time(e.time_ns),
            or_dash(owner.pid),
            text_or_dash(owner.comm.as_deref()),
            endpoint(e.local_addr, e.local_port),
            endpoint(e.remote_addr, e.remote_port),
            text_or_dash(e.state.as_ref().map(TcpState::as_str)),
            text_or_dash(Some(kind(e))),
            or_dash(e.attempt),
            or_dash(e.seq),
            or_dash(e.cwnd),
            or_dash(e.rtt_us),
        ];
        screen.line(COLUMNS, &cells)
    }
}
