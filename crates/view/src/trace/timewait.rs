//! `trace timewait`: SYNs that met a TIME_WAIT socket, and whether it made way.
//!
//! A refusal is a packet dropped at a TIME_WAIT socket. That the socket made way is not an event of
//! the kernel's: it is told when a connection is accepted between the same ends within the 60 s
//! after this side ended one first, which leaves a TIME_WAIT socket, and no refusal came between.

use std::collections::VecDeque;
use std::io;

use ahash::AHashMap;
use analysis::Activity;
use analysis::attempts::{Tuple, tuple};
use analysis::owners::{self, Owner, Owners};
use recording::tables::Event;
use recording::{Addr, Row, TcpState, Text};
use serde::Serialize;

use super::event_ok;
use crate::numbers::{or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// TCP_TIMEWAIT_LEN, compiled into Linux.
const TIME_WAIT_NS: u64 = 60_000_000_000;
/// TIME_WAIT sockets followed: net.ipv4.tcp_max_tw_buckets is a quarter of this by default.
const MAX_TUPLES: usize = 1 << 19;
const SYN: u8 = 2;
const ACK: u8 = 16;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("TCP_STATE", -10),
    ("SRC-IP", -15),
    ("PORT", 5),
    ("DST-IP", -15),
    ("PORT", 5),
    ("FLAGS", 5),
    ("VERDICT", -16),
    ("AGE(s)", 6),
    ("PID", 7),
    ("COMM", -1),
];

#[derive(Default)]
pub(super) struct TimeWait {
    owners: Owners,
    /// When each tuple came into TIME_WAIT.
    since: AHashMap<Tuple, u64>,
    /// The same in order of time, to forget.
    order: VecDeque<(u64, Tuple)>,
}

#[derive(Serialize)]
struct Line<'e> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    state: TcpState,
    netns: u32,
    family: u8,
    src_addr: Addr,
    src_port: u16,
    dst_addr: Addr,
    dst_port: u16,
    flags: u8,
    seq: Option<u32>,
    verdict: &'static str,
    reason: &'e Option<Text>,
    time_wait_age_ms: Option<u64>,
    #[serde(flatten)]
    owner: &'e Owner,
}

impl View for TimeWait {
    fn tables(&self) -> Vec<&'static str> {
        owners::TABLES.to_vec()
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        self.owners.learn(row);
        self.forget(row.time_ns());
        match row {
            Row::Event(e) => {
                let Some((verdict, since)) = self.verdict(e) else {
                    return Ok(());
                };
                let accepted = self.owners.of_listener(e.netns, e.local_addr, e.local_port);
                let owner = accepted.unwrap_or_default();
                let filter = &screen.how.filter;
                if event_ok(e, filter) && owner.passes(filter) {
                    line(e, verdict, since, &owner, screen)?;
                }
                Ok(())
            }
            Row::Socket(s) if s.state == TcpState::TimeWait => {
                let local = (s.local_addr, s.local_port);
                let remote = (s.remote_addr, s.remote_port);
                self.waits((s.netns, local, remote), s.time_ns);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl TimeWait {
    /// What an event says of a SYN in TIME_WAIT: the verdict, and since when the socket waited.
    fn verdict(&mut self, e: &Event) -> Option<(&'static str, Option<u64>)> {
        match Activity::of(e)? {
            Activity::Closed if e.old_state.as_ref().is_some_and(TcpState::closed_first) => {
                self.waits(tuple(e), e.time_ns);
                None
            }
            Activity::Accepted => {
                let since = self.since.remove(&tuple(e))?;
                Some(("accepted", Some(since)))
            }
            // connect() took the port over from it: no SYN came in.
            Activity::Connected => {
                self.since.remove(&tuple(e));
                None
            }
            Activity::Dropped if e.state == Some(TcpState::TimeWait) => {
                let flags = e.flags?;
                if flags & (SYN | ACK) != SYN {
                    return None;
                }
                let paws = e.reason.as_deref().is_some_and(|r| r.contains("PAWS"));
                let verdict = if paws {
                    "refused-paws"
                } else {
                    "refused-sequence"
                };
                // The reset that follows ends it; a later SYN finds nothing in its way.
                Some((verdict, self.since.remove(&tuple(e))))
            }
            _ => None,
        }
    }

    fn waits(&mut self, tuple: Tuple, time_ns: u64) {
        if self.order.len() >= MAX_TUPLES
            && let Some((since, oldest)) = self.order.pop_front()
        {
            self.drop_if(since, &oldest);
        }
        self.since.insert(tuple, time_ns);
        self.order.push_back((time_ns, tuple));
    }

    fn forget(&mut self, now_ns: u64) {
        while let Some((since, _)) = self.order.front()
            && now_ns.saturating_sub(*since) > TIME_WAIT_NS
            && let Some((since, tuple)) = self.order.pop_front()
        {
            self.drop_if(since, &tuple);
        }
    }

    /// Forgets a tuple unless it came into TIME_WAIT again.
    fn drop_if(&mut self, since: u64, tuple: &Tuple) {
        if self.since.get(tuple) == Some(&since) {
            self.since.remove(tuple);
        }
    }
}

fn line(
    e: &Event,
    verdict: &'static str,
    since: Option<u64>,
    owner: &Owner,
    screen: &mut Screen,
) -> io::Result<()> {
    let age_ns = since.map(|since| e.time_ns.saturating_sub(since));
    let flags = e.flags.unwrap_or(SYN);
    if screen.how.json {
        return screen.json(&Line {
            r#type: "timewait",
            when: When::of(e.time_ns, screen.how),
            state: TcpState::TimeWait,
            netns: e.netns,
            family: e.family,
            src_addr: e.remote_addr,
            src_port: e.remote_port,
            dst_addr: e.local_addr,
            dst_port: e.local_port,
            flags,
            seq: e.seq,
            verdict,
            reason: &e.reason,
            time_wait_age_ms: age_ns.map(|ns| ns / 1_000_000),
            owner,
        });
    }
    let cells = [
        screen.how.time(e.time_ns),
        TcpState::TimeWait.to_string(),
        e.remote_addr.to_string(),
        e.remote_port.to_string(),
        e.local_addr.to_string(),
        e.local_port.to_string(),
        flags.to_string(),
        verdict.into(),
        or_dash(age_ns.map(|ns| format!("{:.1}", ns as f64 / 1e9))),
        or_dash(owner.pid),
        text_or_dash(owner.comm.as_deref()),
    ];
    screen.line(COLUMNS, &cells)
}
