//! `trace accepts`: every connection accepted, and how long it waited for accept().

use std::collections::VecDeque;
use std::io;

use ahash::AHashMap;
use analysis::Side;
use analysis::attempts::{Attempt, Attempts, Ending, Tuple, tuple};
use analysis::owners::{self, Owner};
use recording::tables::{Call, Event};
use recording::{CallKind, EventKind, Row, TcpState};

use super::About;
use super::accept_waits::Waits;
use crate::columns::{Unit, columns, json, left, right};
use crate::screen::Screen;
use crate::view::View;

/// Connections whose accept() is waited for. Beyond that, the oldest is shown without it.
const MAX_QUEUED: usize = 1 << 17;

/// A connection that was accepted, or an accept() that failed.
pub(crate) struct Accept {
    established_ns: Option<u64>,
    queued_ns: Option<u64>,
    call: Option<Box<Call>>,
    unknown: Option<Unknown>,
}

/// Why it is not known how long a connection was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// accept() calls are not recorded.
    NoCalls,
    /// It was established before anything was recorded.
    Older,
    /// It ended, and no accept() took it as far as was seen.
    Ended,
    /// It has not been accepted yet.
    Queued,
    /// It was accepted, and that call was not seen.
    Unseen,
}

impl Unknown {
    fn says(self) -> &'static str {
        match self {
            Unknown::NoCalls => "calls not recorded",
            Unknown::Older => "established before the trace began",
            Unknown::Ended => "ended; its accept() was not seen",
            Unknown::Queued => "not accepted yet",
            Unknown::Unseen => "its accept() was not seen",
        }
    }
}

columns! {
    About<Accept> = "accept" {
        text TIME PID COMM LOCAL REMOTE QUEUED CALL COOKIE RESULT NETNS NOTES;
        json TIME PID COMM CGROUP NETNS FAMILY LOCAL REMOTE ESTABLISHED QUEUED UNKNOWN CALL COOKIE RESULT ERROR;
    }
    /// Time in the accept queue.
    QUEUED: right("QUEUED(ms)", 10, &["queued_ns"], Unit::Ns) => |l, _| l.more.queued_ns.into();
    /// How long accept() lasted.
    CALL: right("CALL(ms)", 9, &["call_ns"], Unit::Ns)
        => |l, _| l.more.call.as_ref().map(|c| c.duration_ns).into();
    /// `accepted`, `established` where calls are not recorded, or the name of the error.
    RESULT: left("RESULT", 11, &["result"], Unit::Name) => |l, _| l.more.result().into();
    /// Why it is not known how long it was queued; where calls are not recorded a line before the first says so.
    NOTES: left("NOTES", 1, &[], Unit::Words) => |l, _| {
        let unknown = l.more.unknown.filter(|why| *why != Unknown::NoCalls);
        unknown.map(Unknown::says).into()
    };
    /// Why it is not known how long it was queued; null where it is.
    UNKNOWN: json(&["queued_unknown"], Unit::Words) => |l, _| l.more.unknown.map(Unknown::says).into();
    /// When it was established, ns of CLOCK_MONOTONIC.
    ESTABLISHED: json(&["established_ns"], Unit::Time) => |l, _| l.more.established_ns.into();
    /// Name of the error that the call returned.
    ERROR: json(&["error"], Unit::Name) => |l, _| l.more.error().into();
}

impl Accept {
    fn error(&self) -> Option<&str> {
        self.call.as_ref()?.error.as_deref()
    }

    fn result(&self) -> &str {
        let seen = self.call.is_some();
        self.error()
            .unwrap_or(if seen { "accepted" } else { "established" })
    }
}

/// Whether accept() calls are seen shows with the first of them; until then, connections are shown
/// when they are established.
#[derive(Default)]
pub(super) struct Accepts {
    attempts: Attempts,
    calls_seen: bool,
    /// Whether the note that calls are not recorded was printed.
    said: bool,
    queued: AHashMap<Tuple, Attempt>,
    order: VecDeque<Tuple>,
    /// Instead of a line for each.
    waits: Option<Waits>,
}

impl View for Accepts {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, &["call"]].concat()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        let row = match row {
            Row::Call(call) if call.call == CallKind::Accept => return self.called(call, screen),
            row => row,
        };
        match &row {
            Row::Event(e) if e.kind == EventKind::State && e.state == Some(TcpState::Close) => {
                if let Some(opened) = self.queued.remove(&tuple(e)) {
                    self.show(opened, Err(Unknown::Ended), screen)?;
                }
            }
            _ => {}
        }
        let Some(opened) = self.attempts.take(&row) else {
            return Ok(());
        };
        match opened.side {
            Side::Opened | Side::Older => Ok(()),
            Side::Accepted if self.calls_seen => self.queue(opened, screen),
            Side::Accepted => self.show(opened, Err(Unknown::NoCalls), screen),
        }
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        for tuple in std::mem::take(&mut self.order) {
            if let Some(opened) = self.queued.remove(&tuple) {
                self.show(opened, Err(Unknown::Queued), screen)?;
            }
        }
        match &self.waits {
            Some(waits) => waits.show(screen),
            None => Ok(()),
        }
    }
}

impl Accepts {
    /// How long they waited in all, listener by listener.
    pub(super) fn histogram() -> Accepts {
        Accepts {
            waits: Some(Waits::default()),
            ..Accepts::with_calls()
        }
    }

    /// For a source that gives accept() calls: connections are shown when they are accepted.
    pub(super) fn with_calls() -> Accepts {
        Accepts {
            calls_seen: true,
            ..Accepts::default()
        }
    }

    fn queue(&mut self, opened: Attempt, screen: &mut Screen) -> io::Result<()> {
        let tuple = tuple(&opened.event);
        self.queued.insert(tuple, opened);
        self.order.push_back(tuple);
        while self.order.len() > MAX_QUEUED {
            let oldest = self.order.pop_front();
            if let Some(opened) = oldest.and_then(|t| self.queued.remove(&t)) {
                self.show(opened, Err(Unknown::Unseen), screen)?;
            }
        }
        Ok(())
    }

    fn called(&mut self, call: Box<Call>, screen: &mut Screen) -> io::Result<()> {
        self.calls_seen = true;
        // The call's socket is the listener; its ends are those of the connection.
        let local = (call.local_addr, call.local_port);
        let remote = (call.remote_addr, call.remote_port);
        let opened = self.queued.remove(&(call.netns, local, remote));
        match (opened, call.error.as_deref()) {
            (Some(mut opened), None) => {
                // The process that accepted it owns it, whether a worker or the one that listens.
                opened.owner = owner(&call);
                self.show(opened, Ok(call), screen)
            }
            // Nothing was there to accept: not an error.
            (_, Some("EAGAIN")) => Ok(()),
            (None, None) if call.remote_port == 0 => Ok(()),
            _ => self.show(of_call(&call), Ok(call), screen),
        }
    }

    fn show(
        &mut self,
        o: Attempt,
        call: Result<Box<Call>, Unknown>,
        screen: &mut Screen,
    ) -> io::Result<()> {
        let (call, unseen) = match call {
            Ok(call) => (Some(call), None),
            Err(why) => (None, Some(why)),
        };
        let established_ns = (o.event.time_ns > 0).then_some(o.event.time_ns);
        let called_ns = call.as_ref().map(|c| c.time_ns);
        let failed = call.as_ref().is_some_and(|c| c.error.is_some());
        let older = (established_ns.is_none() && !failed).then_some(Unknown::Older);
        let line = About {
            owner: o.owner,
            more: Accept {
                established_ns,
                queued_ns: called_ns.and_then(|ns| ns.checked_sub(established_ns?)),
                call,
                unknown: unseen.or(older),
            },
            event: Event {
                time_ns: called_ns.unwrap_or(o.event.time_ns),
                ..o.event
            },
        };
        if !line.passes(&screen.how.filter) {
            return Ok(());
        }
        let (e, queued_ns) = (&line.event, line.more.queued_ns);
        match (&mut self.waits, queued_ns) {
            (None, _) => {
                if line.more.unknown == Some(Unknown::NoCalls) && !self.said {
                    self.said = true;
                    screen.more(
                        "QUEUED and CALL are not known: accept() calls were not recorded \
                         (record --with calls --call-over 0s, or trace accepts live)",
                    )?;
                }
                screen.show(&line)
            }
            (Some(waits), Some(ns)) => {
                waits.add(e.time_ns, e.netns, (e.local_addr, e.local_port), ns);
                Ok(())
            }
            (Some(_), None) => Ok(()),
        }
    }
}

fn owner(call: &Call) -> Owner {
    Owner {
        pid: Some(call.pid),
        comm: Some(call.comm.clone()),
        cgroup: Some(call.cgroup),
    }
}

/// A call whose connection was established unseen, or that failed.
fn of_call(call: &Call) -> Attempt {
    Attempt {
        side: Side::Accepted,
        owner: owner(call),
        took_ns: None,
        retransmits: 0,
        ending: Ending::Failed,
        event: Event {
            netns: call.netns,
            family: call.family,
            local_addr: call.local_addr,
            local_port: call.local_port,
            remote_addr: call.remote_addr,
            remote_port: call.remote_port,
            ..Event::default()
        },
    }
}
