//! `stat requests`: how many requests each listener and destination had, and what their time went with.

use std::io;

use analysis::stats::ratio;
use recording::tables::Request;
use recording::{Addr, Filter, Role, Row, Table, Word};

use super::largest::{Largest, Ranked};
use super::rounds::Sampler;
use crate::columns::{Unit, Value, columns, heads, json, left, right, row};
use crate::screen::Screen;

/// Listeners and destinations shown per report.
const MAX_ROWS: usize = 1 << 16;

/// The requests of a listener or destination.
pub(crate) struct Exchanged(Request);

columns! {
    Exchanged = "request" {
        text TIME NETNS ROLE AT REQUESTS MEAN ACCEPT UNREAD THINK RUNQUEUE AWAIT RECEIVE SEND REPAIR UNHEARD OPEN
            UNANSWERED NOTES;
        json TIME ROW NETNS TOTAL MEAN;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.0.time_ns);
    ROW: row(Request::INFO) => |l, _| Value::Row(l.0.cells());
    NETNS: heads::NETNS => |l, _| Value::Netns(l.0.netns);
    /// `server`: it answers; `client`: it asks.
    ROLE: left("ROLE", 6, &["role"], Unit::Name) => |l, _| l.0.role.text().into();
    /// Where a server listens, and a client connects to.
    AT: left("AT", 21, &["addr", "port"], Unit::Address) => |l, _| Value::Endpoint(l.0.addr, l.0.port);
    /// Exchanges that ended: a request and its answer.
    REQUESTS: right("REQUESTS", 9, &["exchanges"], Unit::Count) => |l, _| l.0.exchanges.into();
    /// Time of all exchanges together.
    TOTAL: json(&["total_ns"], Unit::Ns) => |l, _| l.total_ns().into();
    /// How long one took on average.
    MEAN: right("MEAN(ms)", 9, &["mean_ns"], Unit::Ns) => |l, _| l.mean_ns().into();
    /// Share of the time in which data waited for accept() and the first read after it.
    ACCEPT: right("ACCEPT%", 7, &[], Unit::Percent) => |l, _| l.percent(l.0.accept_ns).into();
    /// In which data waited to be read.
    UNREAD: right("UNREAD%", 7, &[], Unit::Percent) => |l, _| l.percent(l.0.unread_ns).into();
    /// In which our application worked on the answer; on the request, at a client.
    THINK: right("THINK%", 6, &[], Unit::Percent) => |l, _| l.percent(l.0.think_ns).into();
    /// Of that, the thread waited for a CPU, as far as one thread did nothing else.
    RUNQUEUE: right("RUNQ%", 5, &[], Unit::Percent) => |l, _| l.percent(l.0.think_runqueue_ns).into();
    /// In which a client awaited the answer: network and peer.
    AWAIT: right("AWAIT%", 6, &[], Unit::Percent) => |l, _| l.percent(l.0.await_ns).into();
    /// In which more of the message was on its way.
    RECEIVE: right("RECV%", 5, &[], Unit::Percent) => |l, _| l.percent(l.0.receive_ns).into();
    /// In which windows and buffers held a message back.
    SEND: right("SEND%", 5, &[], Unit::Percent) => |l, _| l.percent(l.0.send_ns).into();
    /// In which what had been sent was lost.
    REPAIR: right("REPAIR%", 7, &[], Unit::Percent) => |l, _| l.percent(l.0.repair_ns).into();
    /// In which it was retransmitted though it had come: its acknowledgement was lost, or the answer.
    UNHEARD: right("UNHEARD%", 8, &[], Unit::Percent) => |l, _| l.percent(l.0.unheard_ns).into();
    /// Exchanges a second old, or older, and not answered.
    OPEN: right("OPEN", 5, &["open"], Unit::Count) => |l, _| l.0.open.into();
    /// Connections that closed before the answer.
    UNANSWERED: right("UNANSWERED", 10, &["unanswered"], Unit::Count) => |l, _| l.0.unanswered.into();
    /// `MULTIPLEXED`: more than 5 % overlapped, or were unsolicited, so that service time may be counted as receiving.
    NOTES: left("NOTES", 1, &[], Unit::Words) => |l, _| l.note().into();
}

impl Exchanged {
    fn total_ns(&self) -> u64 {
        analysis::account::exchanged_ns(&self.0)
    }

    fn mean_ns(&self) -> Option<u64> {
        self.total_ns().checked_div(self.0.exchanges)
    }

    fn percent(&self, ns: u64) -> Option<f64> {
        Some(ratio(ns as f64, self.total_ns() as f64)? * 100.0)
    }

    fn note(&self) -> &'static str {
        if analysis::account::is_multiplexed(&self.0) {
            "MULTIPLEXED"
        } else {
            ""
        }
    }
}

/// By the time of its exchanges.
impl Ranked for Exchanged {
    fn rank(&self) -> f64 {
        self.total_ns() as f64
    }
}

/// Namespace, whether it answers, and where.
type Key = (u32, bool, Addr, u16);

fn key(row: &Request) -> Key {
    (row.netns, row.role == Role::Server, row.addr, row.port)
}

#[derive(Default)]
pub(super) struct Requests {
    now: Largest<Key, Exchanged, MAX_ROWS>,
}

impl Sampler for Requests {
    type Key = Key;

    fn tables(&self) -> Vec<&'static str> {
        vec!["request"]
    }

    fn key(&mut self, row: &Row, f: &Filter) -> Option<Self::Key> {
        let Row::Request(row) = row else { return None };
        let asked = f.netns_ok(row.netns)
            && f.ports_ok(row.port, row.port)
            && f.addrs_ok(row.addr, row.addr);
        asked.then(|| key(row))
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::Request(row) = row {
            match self.now.get_mut(&key(&row)) {
                Some(asked) => analysis::account::add_requests(&mut asked.0, &row),
                None => self.now.insert(key(&row), Exchanged(*row)),
            }
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        // Seconds that are not shown count in the next report.
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        let (now, left_out) = self.now.take();
        for line in now.values() {
            screen.show(line)?;
        }
        left_out.show::<Exchanged>(time_ns, screen)?;
        screen.end_report();
        Ok(())
    }
}
