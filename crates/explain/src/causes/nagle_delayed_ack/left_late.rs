//! Requests whose end left as long after it was written as an ACK is delayed, as exchanges show it.

use ahash::AHashSet;
use analysis::Endpoint;
use analysis::account::{Exchanges, Role, exchanged_ns};
use analysis::stats::median;
use recording::RowRef;
use recording::tables::Exchange;

use crate::limits;
use crate::lost::OfExchanges;
use crate::places::path::End;
use crate::vocabulary::{Answered, Quantity, SHOWN_ROWS, Test, every, say};

/// The requests of a service that left this late, those recorded individually and all of them.
pub(super) struct LeftLate {
    /// Those recorded individually.
    pub(super) told: u64,
    pub(super) rows: Vec<RowRef>,
    /// The ends that these went over.
    over: AHashSet<(Endpoint, Endpoint)>,
    /// How late the end of one left (median), µs.
    pub(super) delay_us: f64,
    /// The total, estimated from the time that they lost together.
    pub(super) times: u64,
    pub(super) of: u64,
    lost_ns: u64,
    whole_ns: u64,
}

impl LeftLate {
    pub(super) fn of(exchanges: &Exchanges) -> Option<LeftLate> {
        let told = exchanges.slowest.iter();
        let delayed_ns = limits::DELAYED_ACK_LEAST.ns()..=limits::DELAYED_ACK_MOST.ns();
        let is_late =
            |x: &Exchange| !x.open && x.retransmits == 0 && delayed_ns.contains(&x.send_ns);
        let late = told.filter(|(_, x)| is_late(x));
        let over = late.clone().map(|(_, x)| {
            let local = Endpoint::new(x.local_addr, x.local_port);
            (local, Endpoint::new(x.remote_addr, x.remote_port))
        });
        let over = over.collect();
        let (rows, mut delays): (Vec<RowRef>, Vec<u64>) =
            late.map(|(row, x)| (*row, x.send_ns)).unzip();
        let told = delays.len() as u64;
        let delay_ns = median(&mut delays).filter(|_| told >= limits::A_FEW.as_u32().into())?;
        let all = &exchanges.all;
        (exchanges.role() == Role::Client).then(|| LeftLate {
            told,
            rows: rows.into_iter().take(SHOWN_ROWS).collect(),
            over,
            delay_us: delay_ns as f64 / 1e3,
            times: (all.send_ns / delay_ns).clamp(told, all.exchanges.max(told)),
            of: all.exchanges.max(told),
            lost_ns: all.send_ns,
            whole_ns: exchanged_ns(all).max(all.send_ns),
        })
    }

    /// Nagle's algorithm may have held them: it was on, and a request is what is in flight and what waits for it, not a
    /// transfer that takes this long to send.
    pub(super) fn is_of(&self, ends: &[End]) -> bool {
        let sent: u64 = ends.iter().map(|e| e.transfer.segments()).sum();
        let own = |e: &&End| self.over.contains(&(e.conn.local, e.conn.remote));
        let own: Vec<&End> = ends.iter().filter(own).collect();
        let on = own.iter().filter(|e| e.transfer.nagle).count();
        // For connections too short for a sample, others show it.
        let on = match own.len() {
            0 => ends.iter().any(|e| e.transfer.nagle),
            n => limits::MOST.reached(on, n),
        };
        on && sent <= (limits::HELD_SEGMENTS.count() + 1) * self.of
    }

    /// What they lost, over this many connections.
    pub(super) fn lost(&self, connections: u64) -> OfExchanges {
        OfExchanges {
            slow: self.times,
            of: self.of,
            connections,
            lost_ns: self.lost_ns,
            whole_ns: self.whole_ns,
            stalled_ns: 0,
            failed: (0, 0),
        }
    }
}

/// How many of a client's individually recorded requests left as late as a delayed ACK makes them.
pub(super) fn refuted(exchanges: &Exchanges) -> Option<Answered> {
    if exchanges.role() != Role::Client {
        return None;
    }
    let delayed_ns = limits::DELAYED_ACK_LEAST.ns()..=limits::DELAYED_ACK_MOST.ns();
    let told = exchanges.slowest.iter();
    let late =
        told.filter(|(_, x)| !x.open && x.retransmits == 0 && delayed_ns.contains(&x.send_ns));
    let (n, of) = (late.clone().count() as u64, exchanges.all.exchanges);
    let step = say!(
        "the end of {late} of {requests} left with a delay of 30 to 60 ms",
        late = Quantity::count(n).rows(late.map(|(row, _)| *row).take(SHOWN_ROWS)),
        requests = Quantity::of(of, "request")
    );
    every([Test::events(n, of, &limits::A_FEW, step)])
}
