//! `trace connects`: every connect(), how long it took, how long of that the search for a local
//! port, and what came of it.

use std::collections::VecDeque;
use std::io;

use ahash::AHashMap;
use analysis::Side;
use analysis::attempts::{Attempt, Attempts, Ending};
use analysis::owners::{self, Owner};
use recording::tables::{Call, Event};
use recording::{Addr, CallKind, Row, Text};
use serde::Serialize;

use super::{Ends, event_ok};
use crate::numbers::{endpoint, ms, or_dash, text_or_dash};
use crate::screen::{Column, How, Screen, When};
use crate::view::View;

/// The call returns a little after the handshake: its row is waited for this long.
const WAIT_NS: u64 = 100_000_000;
/// Calls of sockets that still connect, and connects whose call is waited for.
const MAX_CALLS: usize = 1 << 16;
/// Sockets printed last: a row that comes late is not shown twice.
const MAX_PRINTED: usize = 4096;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("COMM", -15),
    ("LOCAL", -21),
    ("REMOTE", -21),
    ("TOOK(ms)", 9),
    ("SEARCH(us)", 10),
    ("AGAIN", 5),
    ("RESULT", -1),
];

#[derive(Default)]
pub(super) struct Connects {
    attempts: Attempts,
    /// Calls that returned before the handshake ended: not blocking.
    calls: AHashMap<u64, Returned>,
    /// Handshakes that ended, oldest first, with the call if it is known.
    waiting: VecDeque<(Attempt, Option<Returned>)>,
    printed: VecDeque<Towards>,
    /// Failed calls shown without their events, and when they returned: the events may come after
    /// all, as each table is handed over by itself.
    alone: VecDeque<(Towards, u64)>,
}

/// A socket and where it connected to: the next socket may have the same id.
type Towards = (u64, Addr, u16);

fn towards(e: &Event) -> Option<Towards> {
    Some((e.sock?, e.remote_addr, e.remote_port))
}

/// What a connect() call told.
#[derive(Clone, Debug, Default)]
struct Returned {
    duration_ns: u64,
    port_search_ns: Option<u64>,
    error: Option<Text>,
}

#[derive(Serialize)]
struct Line<'o> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    #[serde(flatten)]
    owner: &'o Owner,
    #[serde(flatten)]
    ends: Ends,
    took_ns: Option<u64>,
    call_ns: Option<u64>,
    port_search_ns: Option<u64>,
    syns_sent_again: u32,
    result: &'o str,
    error: Option<Text>,
}

impl View for Connects {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, &["call"]].concat()
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        if let Row::Call(call) = row
            && call.call == CallKind::Connect
        {
            return self.returned(call, screen);
        }
        let Some(opened) = self.attempts.take(row) else {
            return Ok(());
        };
        if opened.side == Side::Accepted {
            return Ok(());
        }
        if self.is_shown(&opened) {
            return Ok(());
        }
        let call = opened.event.sock.and_then(|s| self.calls.remove(&s));
        self.waiting.push_back((opened, call));
        self.print_due(row.time_ns(), screen)
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        self.print_due(time_ns, screen)
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.print_due(u64::MAX, screen)
    }
}

impl Connects {
    fn returned(&mut self, call: &Call, screen: &mut Screen) -> io::Result<()> {
        let returned = Returned {
            duration_ns: call.duration_ns,
            port_search_ns: call.port_search_ns,
            error: call.error.clone(),
        };
        if let Some(sock) = call.sock {
            let this = (sock, call.remote_addr, call.remote_port);
            let mut waiting = self.waiting.iter_mut();
            let found = waiting.find(|(o, c)| towards(&o.event) == Some(this) && c.is_none());
            if let Some((_, call)) = found {
                *call = Some(returned);
                return self.print_due(0, screen);
            }
            if self.attempts.is_connecting(sock) {
                if self.calls.len() < MAX_CALLS {
                    self.calls.insert(sock, returned);
                }
                return Ok(());
            }
            if self.printed.contains(&this) {
                return Ok(());
            }
        }
        // It failed before there was anything to change state: no route, a bad address.
        let progress = |e: &str| matches!(e, "EINPROGRESS" | "EALREADY" | "EISCONN");
        if call.error.as_deref().is_none_or(progress) || !matches!(call.family, 4 | 6) {
            return Ok(());
        }
        let opened = Attempt {
            side: Side::Opened,
            owner: Owner {
                pid: Some(call.pid),
                comm: Some(call.comm.clone()),
                cgroup: Some(call.cgroup),
            },
            took_ns: Some(call.duration_ns),
            retransmits: 0,
            ending: Ending::Failed,
            event: Event {
                time_ns: call.time_ns,
                netns: call.netns,
                family: call.family,
                sock: call.sock,
                local_addr: call.local_addr,
                local_port: call.local_port,
                remote_addr: call.remote_addr,
                remote_port: call.remote_port,
                ..Event::default()
            },
        };
        if let Some(sock) = call.sock {
            let this = (sock, call.remote_addr, call.remote_port);
            self.alone.push_back((this, call.time_ns));
            if self.alone.len() > MAX_PRINTED {
                self.alone.pop_front();
            }
        }
        self.waiting.push_back((opened, Some(returned)));
        self.print_due(0, screen)
    }

    /// Whether the events tell of a call that was shown already. A socket's id may be used again: its
    /// events are then later than the call.
    fn is_shown(&mut self, opened: &Attempt) -> bool {
        let Some(this) = towards(&opened.event) else {
            return false;
        };
        let is_it = |&(shown, returned_ns): &(Towards, u64)| {
            shown == this
                && opened.event.time_ns <= returned_ns
                && opened.ending != Ending::Established
        };
        let at = self.alone.iter().position(is_it);
        at.is_some_and(|at| self.alone.remove(at).is_some())
    }

    /// Prints, in order, what is complete or was waited for long enough.
    fn print_due(&mut self, now_ns: u64, screen: &mut Screen) -> io::Result<()> {
        while let Some((opened, call)) = self.waiting.front() {
            let waited = now_ns.saturating_sub(opened.event.time_ns);
            if call.is_none() && waited < WAIT_NS && self.waiting.len() < MAX_CALLS {
                break;
            }
            let filter = &screen.how.filter;
            if event_ok(&opened.event, filter) && opened.owner.passes(filter) {
                line(
                    opened,
                    call.clone().unwrap_or_default(),
                    call.is_some(),
                    screen,
                )?;
            }
            self.printed.extend(towards(&opened.event));
            if self.printed.len() > MAX_PRINTED {
                self.printed.pop_front();
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
}

/// The error by the kernel's name where there is one, else what the states tell.
fn result(o: &Attempt, call: &Returned) -> String {
    let failed = o.ending != Ending::Established;
    match &call.error {
        Some(error) if failed && &**error != "EINPROGRESS" => error.to_string(),
        _ => o.ending.as_str().to_string(),
    }
}

fn line(o: &Attempt, call: Returned, seen: bool, screen: &mut Screen) -> io::Result<()> {
    let e = &o.event;
    let how: &How = screen.how;
    let result = result(o, &call);
    if how.json {
        return screen.json(&Line {
            r#type: "connect",
            when: When::of(e.time_ns, how),
            owner: &o.owner,
            ends: Ends::of(e, how),
            took_ns: o.took_ns,
            call_ns: seen.then_some(call.duration_ns),
            port_search_ns: call.port_search_ns,
            syns_sent_again: o.retransmits,
            result: &result,
            error: call.error,
        });
    }
    let cells = [
        how.time(e.time_ns),
        or_dash(o.owner.pid),
        text_or_dash(o.owner.comm.as_deref()),
        endpoint(e.local_addr, e.local_port),
        endpoint(e.remote_addr, e.remote_port),
        or_dash(o.took_ns.map(ms)),
        or_dash(call.port_search_ns.map(|ns| ns / 1_000)),
        o.retransmits.to_string(),
        result,
    ];
    screen.line(COLUMNS, &cells)
}
