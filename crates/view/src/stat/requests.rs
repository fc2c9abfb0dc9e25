//! `stat requests`: how many requests each listener and destination had, and what their time went with.

use std::io;

use analysis::account::{Histogram, Percentiles};
use analysis::stats::ratio;
use recording::tables::{Request, RequestTime};
use recording::{Addr, Filter, Role, Row, Table, Timed, Word};

use super::largest::{Largest, Ranked};
use super::rounds::Sampler;
use crate::columns::{Unit, Value, columns, heads, json, left, right, row};
use crate::screen::Screen;

/// Listeners and destinations shown per report.
const MAX_ROWS: usize = 1 << 16;

/// Rows about how long requests took that count in a report; where there are more, it has no percentiles.
const MAX_TIMES: usize = 1 << 20;

/// The requests of a listener or destination, and how long they took.
#[derive(Default)]
pub(crate) struct Exchanged(Request, Histogram);

columns! {
    Exchanged = "request" {
        text TIME NETNS ROLE AT REQUESTS MEAN P50 P99 ACCEPT UNREAD THINK RUNQUEUE AWAIT RECEIVE SEND REPAIR UNHEARD OPEN
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
    /// Half took no longer; none where answers cannot be matched with requests.
    P50: right("P50(ms)", 8, &["p50_ns"], Unit::Ns) => |l, _| l.took_ns(|took| took.p50_s).into();
    /// 99 in 100 took no longer.
    P99: right("P99(ms)", 8, &["p99_ns"], Unit::Ns) => |l, _| l.took_ns(|took| took.p99_s).into();
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

    fn took_ns(&self, which: impl Fn(Percentiles) -> f64) -> Option<u64> {
        if analysis::account::is_multiplexed(&self.0) {
            return None;
        }
        let took = self.1.percentiles(None)?;
        Some((which(took) * 1e9).round() as u64)
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

/// Its service, before its own row has come.
fn service(row: &RequestTime) -> Request {
    Request {
        netns: row.netns,
        role: row.role.clone(),
        addr: row.addr,
        port: row.port,
        ..Request::default()
    }
}

#[derive(Default)]
pub(super) struct Requests {
    now: Largest<Key, Exchanged, MAX_ROWS>,
    times: usize,
}

impl Sampler for Requests {
    type Key = Key;

    fn tables(&self) -> Vec<&'static str> {
        vec!["request", "request_time"]
    }

    fn key(&mut self, row: &Row, f: &Filter) -> Option<Self::Key> {
        let key = match row {
            Row::Request(row) => key(row),
            Row::RequestTime(row) if row.what == Timed::Response => key(&service(row)),
            _ => return None,
        };
        let (netns, _, addr, port) = key;
        let asked = f.netns_ok(netns) && f.ports_ok(port, port) && f.addrs_ok(addr, addr);
        asked.then_some(key)
    }

    /// How long they took is told behind all rows of the same second.
    fn continues(&self, row: &Row) -> bool {
        matches!(row, Row::RequestTime(_))
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        match row {
            Row::Request(row) => match self.now.get_mut(&key(&row)) {
                Some(asked) => analysis::account::add_requests(&mut asked.0, &row),
                None => self
                    .now
                    .insert(key(&row), Exchanged(*row, Histogram::default())),
            },
            Row::RequestTime(row) => {
                self.times += 1;
                if self.times <= MAX_TIMES {
                    let of = service(&row);
                    let asked = self
                        .now
                        .row(key(&of), || Exchanged(of.clone(), Histogram::default()));
                    asked.1.add(&row);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        // Seconds that are not shown count in the next report.
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        let all_timed = std::mem::take(&mut self.times) <= MAX_TIMES;
        let (mut now, left_out) = self.now.take();
        for line in now.values_mut() {
            if !all_timed {
                line.1 = Histogram::default();
            }
            screen.show(line)?;
        }
        left_out.show::<Exchanged>(time_ns, screen)?;
        screen.end_report();
        Ok(())
    }
}
