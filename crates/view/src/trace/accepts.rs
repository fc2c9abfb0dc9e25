//! `trace accepts`: every connection accepted, and how long it waited for accept().

use std::collections::VecDeque;
use std::io;

use ahash::AHashMap;
use analysis::Side;
use analysis::attempts::{Attempt, Attempts, Ending, Tuple, tuple};
use analysis::owners::{self, Owner};
use recording::tables::Call;
use recording::{CallKind, EventKind, Row, TcpState, Text};
use serde::Serialize;

use super::{Ends, event_ok};
use crate::numbers::{endpoint, ms, or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// Connections whose accept() is waited for. Of more, the oldest is shown without it.
const MAX_QUEUED: usize = 1 << 17;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("PID", 7),
    ("COMM", -15),
    ("LOCAL", -21),
    ("REMOTE", -21),
    ("QUEUED(ms)", 10),
    ("CALL(ms)", 9),
    ("COOKIE", -6),
    ("RESULT", -1),
];

/// Whether accept() calls are seen shows with the first of them; until then, connections are shown
/// when they are established.
#[derive(Default)]
pub(super) struct Accepts {
    attempts: Attempts,
    calls_seen: bool,
    queued: AHashMap<Tuple, Attempt>,
    order: VecDeque<Tuple>,
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
    established_ns: Option<u64>,
    queued_ns: Option<u64>,
    call_ns: Option<u64>,
    cookie: Option<bool>,
    result: &'o str,
    error: Option<Text>,
}

impl View for Accepts {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, &["call"]].concat()
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        match row {
            Row::Call(call) if call.call == CallKind::Accept => return self.called(call, screen),
            Row::Event(e) if e.kind == EventKind::State && e.state == Some(TcpState::Close) => {
                if let Some(opened) = self.queued.remove(&tuple(e)) {
                    line(&opened, None, screen)?;
                }
            }
            _ => {}
        }
        let Some(opened) = self.attempts.take(row) else {
            return Ok(());
        };
        match opened.side {
            Side::Opened | Side::Older => Ok(()),
            Side::Accepted if self.calls_seen => self.queue(opened, screen),
            Side::Accepted => line(&opened, None, screen),
        }
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        for tuple in std::mem::take(&mut self.order) {
            if let Some(opened) = self.queued.remove(&tuple) {
                line(&opened, None, screen)?;
            }
        }
        Ok(())
    }
}

impl Accepts {
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
                line(&opened, None, screen)?;
            }
        }
        Ok(())
    }

    fn called(&mut self, call: &Call, screen: &mut Screen) -> io::Result<()> {
        self.calls_seen = true;
        // The call's socket is the listener; its ends are those of the connection.
        let local = (call.local_addr, call.local_port);
        let remote = (call.remote_addr, call.remote_port);
        let opened = self.queued.remove(&(call.netns, local, remote));
        match (opened, call.error.as_deref()) {
            (Some(mut opened), None) => {
                // Who accepted it owns it, be it a worker or the one that listens.
                opened.owner = owner(call);
                line(&opened, Some(call), screen)
            }
            // Nothing was there to accept: not an error.
            (_, Some("EAGAIN")) => Ok(()),
            (None, None) if call.remote_port == 0 => Ok(()),
            _ => line(&of_call(call), Some(call), screen),
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
        event: recording::tables::Event {
            netns: call.netns,
            family: call.family,
            local_addr: call.local_addr,
            local_port: call.local_port,
            remote_addr: call.remote_addr,
            remote_port: call.remote_port,
            ..Default::default()
        },
    }
}

fn line(o: &Attempt, call: Option<&Call>, screen: &mut Screen) -> io::Result<()> {
    let e = &o.event;
    let filter = &screen.how.filter;
    if !event_ok(e, filter) || !o.owner.passes(filter) {
        return Ok(());
    }
    let established_ns = (e.time_ns > 0).then_some(e.time_ns);
    let time_ns = call.map_or(e.time_ns, |c| c.time_ns);
    let queued_ns = call.and_then(|c| c.time_ns.checked_sub(established_ns?));
    let error = call.and_then(|c| c.error.clone());
    let result = match (call, &error) {
        (_, Some(error)) => error,
        (Some(_), None) => "accepted",
        (None, _) => "established",
    };
    if screen.how.json {
        return screen.json(&Line {
            r#type: "accept",
            when: When::of(time_ns, screen.how),
            owner: &o.owner,
            ends: Ends::of(e, screen.how),
            established_ns,
            queued_ns,
            call_ns: call.map(|c| c.duration_ns),
            cookie: e.cookie,
            result,
            error: error.clone(),
        });
    }
    let cells = [
        screen.how.time(time_ns),
        or_dash(o.owner.pid),
        text_or_dash(o.owner.comm.as_deref()),
        endpoint(e.local_addr, e.local_port),
        endpoint(e.remote_addr, e.remote_port),
        or_dash(queued_ns.map(ms)),
        or_dash(call.map(|c| ms(c.duration_ns))),
        or_dash(e.cookie.map(|c| if c { "yes" } else { "no" })),
        result.into(),
    ];
    screen.line(COLUMNS, &cells)
}
