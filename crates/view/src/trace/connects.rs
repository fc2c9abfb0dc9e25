//! `trace connects`: every connect(), how long it took, how much of that was the search for a local port, and what
//! came of it.

use std::collections::VecDeque;
use std::io;

use ahash::AHashMap;
use analysis::Side;
use analysis::attempts::{Attempt, Attempts, Ending};
use analysis::owners::{self, Owner};
use recording::tables::{Call, Event};
use recording::{Addr, CallKind, Row, Text};

use super::About;
use crate::columns::{Unit, Value, columns, json, left, right};
use crate::screen::Screen;
use crate::view::View;

/// The call returns a little after the handshake: its row is waited for this long.
const WAIT_NS: u64 = 100_000_000;
/// Calls of sockets that still connect, and connects whose call is waited for.
const MAX_CALLS: usize = 1 << 16;
/// Sockets printed last: a row that comes late is not shown twice.
const MAX_PRINTED: usize = 4096;

/// A connect(), and what its call returned, if that was seen.
pub(crate) struct Connect {
    took_ns: Option<u64>,
    retransmits: u32,
    ending: Ending,
    call: Option<Returned>,
}

columns! {
    About<Connect> = "connect" {
        text TIME PID COMM LOCAL REMOTE TOOK SEARCH RETRANS RESULT NETNS;
        json TIME PID COMM CGROUP NETNS FAMILY LOCAL REMOTE TOOK CALL SEARCH RETRANS RESULT ERROR;
    }
    /// From connect() to ESTABLISHED, or until it failed.
    TOOK: right("TOOK(ms)", 9, &["took_ns"], Unit::Ns) => |l, _| l.more.took_ns.into();
    /// Time that connect() searched for a local port, where calls are recorded.
    SEARCH: right("SEARCH(us)", 10, &["port_search_ns"], Unit::Ns) => |l, _| match l.more.searched_ns() {
        Some(ns) => Value::Told(ns.into(), (ns / 1_000).to_string()),
        None => recording::Value::Null.into(),
    };
    /// SYNs that were retransmitted.
    RETRANS: right("RETRANS", 7, &["syns_sent_again"], Unit::Count) => |l, _| l.more.retransmits.into();
    /// As of a handshake, or the name of the error that the call returned.
    RESULT: left("RESULT", 12, &["result"], Unit::Name) => |l, _| l.more.result().into();
    /// How long the call lasted.
    CALL: json(&["call_ns"], Unit::Ns) => |l, _| l.more.call.as_ref().map(|c| c.duration_ns).into();
    /// Name of the error that the call returned.
    ERROR: json(&["error"], Unit::Name) => |l, _| l.more.error().into();
}

impl Connect {
    fn searched_ns(&self) -> Option<u64> {
        self.call.as_ref()?.port_search_ns
    }

    fn error(&self) -> Option<&str> {
        self.call.as_ref()?.error.as_deref()
    }

    /// The error by the kernel's name where there is one, else what the states tell.
    fn result(&self) -> &str {
        let failed = self.ending != Ending::Established;
        match self.error() {
            Some(error) if failed && error != "EINPROGRESS" => error,
            _ => self.ending.as_str(),
        }
    }
}

#[derive(Default)]
pub(super) struct Connects {
    attempts: Attempts,
    /// Calls that returned before the handshake ended: not blocking.
    calls: AHashMap<u64, Returned>,
    /// Handshakes that ended, oldest first, with the call if it is known.
    waiting: VecDeque<(Attempt, Option<Returned>)>,
    printed: VecDeque<Towards>,
    /// Failed calls shown without their events, and when they returned: the events may still come, as each table
    /// arrives by itself.
    alone: VecDeque<(Towards, u64)>,
}

/// A socket and where it connected to: the next socket may have the same id.
type Towards = (u64, Addr, u16);

fn towards(e: &Event) -> Option<Towards> {
    Some((e.sock?, e.remote_addr, e.remote_port))
}

/// What a connect() call returned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Returned {
    duration_ns: u64,
    port_search_ns: Option<u64>,
    error: Option<Text>,
}

impl View for Connects {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, &["call"]].concat()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        if let Row::Call(call) = &row
            && call.call == CallKind::Connect
        {
            return self.returned(call, screen);
        }
        let Some(opened) = self.attempts.take(&row) else {
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

    /// Whether the events belong to a call that was shown already. A socket's id may be used again: its events are
    /// then later than the call.
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
            let Some((opened, call)) = self.waiting.pop_front() else {
                break;
            };
            self.printed.extend(towards(&opened.event));
            if self.printed.len() > MAX_PRINTED {
                self.printed.pop_front();
            }
            let line = About {
                event: opened.event,
                owner: opened.owner,
                more: Connect {
                    took_ns: opened.took_ns,
                    retransmits: opened.retransmits,
                    ending: opened.ending,
                    call,
                },
            };
            if line.passes(&screen.how.filter) {
                screen.show(&line)?;
            }
        }
        Ok(())
    }
}
