//! `trace timewait`: SYNs that met a TIME_WAIT socket, and whether it made way.
//!
//! A refusal is a packet dropped at a TIME_WAIT socket. The kernel has no event for a socket that made way: it did if
//! a connection is accepted between the same ends within the 60 s after this side ended one first, which leaves a
//! TIME_WAIT socket, and no refusal came between.

use std::collections::VecDeque;
use std::io;

use ahash::AHashMap;
use analysis::Activity;
use analysis::attempts::{Tuple, tuple};
use analysis::owners::{self, Owners};
use recording::tables::Event;
use recording::{Row, TcpState};

use super::About;
use crate::columns::{Unit, Value, columns, json, left, right};
use crate::numbers::tenth;
use crate::screen::Screen;
use crate::view::View;

/// TCP_TIMEWAIT_LEN, compiled into Linux.
const TIME_WAIT_NS: u64 = 60_000_000_000;
/// TIME_WAIT sockets followed: net.ipv4.tcp_max_tw_buckets is a quarter of this by default.
const MAX_TUPLES: usize = 1 << 19;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A SYN that met a TIME_WAIT socket: the verdict, and since when the socket waited.
pub(crate) struct Met {
    verdict: &'static str,
    since_ns: Option<u64>,
}

columns! {
    About<Met> = "timewait" {
        text TIME TCP_STATE SRC SRC_PORT DST DST_PORT FLAGS VERDICT AGE PID COMM;
        json TIME TCP_STATE INODE FAMILY SRC SRC_PORT DST DST_PORT FLAGS SEQ VERDICT REASON AGE PID COMM CGROUP;
    }
    /// State of the socket that it met.
    TCP_STATE: left("TCP_STATE", 10, &["state"], Unit::Name) => |_, _| (&TcpState::TimeWait).into();
    /// Inode of the network namespace.
    INODE: json(&["netns"], Unit::Id) => |l, _| l.event.netns.into();
    /// Source of the SYN.
    SRC: left("SRC-IP", 15, &["src_addr"], Unit::Address) => |l, _| l.event.remote_addr.into();
    /// Its port.
    SRC_PORT: right("PORT", 5, &["src_port"], Unit::Id) => |l, _| l.event.remote_port.into();
    /// Its destination, on this host.
    DST: left("DST-IP", 15, &["dst_addr"], Unit::Address) => |l, _| l.event.local_addr.into();
    /// That port.
    DST_PORT: right("PORT", 5, &["dst_port"], Unit::Id) => |l, _| l.event.local_port.into();
    /// TCP flags of the packet, a byte.
    FLAGS: right("FLAGS", 5, &["flags"], Unit::Id) => |l, _| l.event.flags.unwrap_or(SYN).into();
    /// `accepted`: the socket made way; `refused-sequence`, `refused-paws`: the SYN was dropped, because of its sequence number, or because its timestamp was old.
    VERDICT: left("VERDICT", 16, &["verdict"], Unit::Name) => |l, _| l.more.verdict.into();
    /// How long the socket had waited; ms in JSON.
    AGE: right("AGE(s)", 6, &["time_wait_age_ms"], Unit::Ms) => |l, _| match l.age_ns() {
        Some(ns) => Value::Told((ns / 1_000_000).into(), tenth(ns as f64 / 1e9)),
        None => recording::Value::Null.into(),
    };
    /// Its sequence number.
    SEQ: json(&["seq"], Unit::Seq) => |l, _| l.event.seq.into();
}

impl About<Met> {
    fn age_ns(&self) -> Option<u64> {
        Some(self.event.time_ns.saturating_sub(self.more.since_ns?))
    }
}

#[derive(Default)]
pub(super) struct TimeWait {
    owners: Owners,
    /// When each tuple came into TIME_WAIT.
    since: AHashMap<Tuple, u64>,
    /// The same in order of time, to forget.
    order: VecDeque<(u64, Tuple)>,
}

impl View for TimeWait {
    fn tables(&self) -> Vec<&'static str> {
        owners::TABLES.to_vec()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        self.owners.learn(&row);
        self.forget(row.time_ns());
        match row {
            Row::Event(e) => {
                let Some(met) = self.verdict(&e) else {
                    return Ok(());
                };
                let accepted = self.owners.of_listener(e.netns, e.local_addr, e.local_port);
                let line = About {
                    event: *e,
                    owner: accepted.unwrap_or_default(),
                    more: met,
                };
                if line.passes(&screen.how.filter) {
                    screen.show(&line)
                } else {
                    Ok(())
                }
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
    /// What an event says of a SYN in TIME_WAIT.
    fn verdict(&mut self, e: &Event) -> Option<Met> {
        match Activity::of(e)? {
            Activity::Closed if e.old_state.as_ref().is_some_and(TcpState::closed_first) => {
                self.waits(tuple(e), e.time_ns);
                None
            }
            Activity::Accepted => {
                let since = self.since.remove(&tuple(e))?;
                Some(Met {
                    verdict: "accepted",
                    since_ns: Some(since),
                })
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
                Some(Met {
                    verdict,
                    since_ns: self.since.remove(&tuple(e)),
                })
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
