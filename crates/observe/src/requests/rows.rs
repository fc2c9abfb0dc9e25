//! From the sums that the kernel keeps to the rows of `request`, `request_time` and `exchange`.

use std::collections::BTreeMap;
use std::fs;

use recording::tables::{Exchange, Request, RequestPart, RequestTime};
use recording::{Addr, Role, TableWriter, Text, Timed, Writer};

use crate::error::Error;
use crate::space;
use crate::wire::{tied, tw_exchange, tw_part, tw_requests, tw_role, tw_service};

/// Buckets up to a power of two, in units of 2^[`UNIT`] ns.
const STEPS: usize = 32;
const UNIT: usize = 10;
/// The last one has no end.
const BUCKETS: usize = 27 * STEPS;

/// The tables, and what each service had come to when they were last filled.
pub struct Rows {
    request: TableWriter<Request>,
    time: TableWriter<RequestTime>,
    exchange: TableWriter<Exchange>,
    before: BTreeMap<Key, Before>,
}

/// What a service had come to, and when it last had something to tell.
#[derive(Default)]
struct Before {
    sums: tw_requests,
    news_ns: u64,
}

/// With so many services the kernel's map is half full, and those at rest make room.
const CROWDED: usize = 1 << 11;
/// A service is at rest that had nothing to tell for so long.
const AT_REST_NS: u64 = 60_000_000_000;

fn at_rest(known: &BTreeMap<Key, Before>, time_ns: u64) -> Vec<Key> {
    if known.len() < CROWDED {
        return Vec::new();
    }
    let at_rest = |b: &Before| time_ns.saturating_sub(b.news_ns) > AT_REST_NS;
    let services = known.iter().filter(|(_, before)| at_rest(before));
    services.map(|(service, _)| *service).collect()
}

/// A service, in an order.
pub type Key = ([u8; 16], u32, u16, u8);

/// Exchanges under way, by service: how many, and the oldest.
#[derive(Default)]
pub struct Open(BTreeMap<Key, (u64, Option<tw_exchange>)>);

impl Open {
    /// One more.
    pub fn take(&mut self, exchange: &tw_exchange) {
        let (n, oldest) = self.0.entry(key(&exchange.service)).or_default();
        *n += 1;
        if oldest.is_none_or(|o| exchange.began_ns < o.began_ns) {
            *oldest = Some(*exchange);
        }
    }

    /// The oldest of each service.
    pub fn oldest(&self) -> impl Iterator<Item = &tw_exchange> {
        self.0.values().filter_map(|(_, oldest)| oldest.as_ref())
    }
}

impl Rows {
    /// Empty tables.
    pub fn new(writer: &Writer) -> Result<Rows, Error> {
        Ok(Rows {
            request: writer.table()?,
            time: writer.table()?,
            exchange: writer.table()?,
            before: BTreeMap::new(),
        })
    }

    /// One of the slowest, or one that is still under way at last.
    pub fn exchange(&mut self, x: &tw_exchange) -> Result<(), Error> {
        Ok(self.exchange.push(row(x))?)
    }

    /// The recording begins: what a service has come to until then is not told.
    pub fn begin(&mut self, at: &tw_service, sums: &tw_requests) {
        let before = Before {
            sums: *sums,
            news_ns: 0,
        };
        self.before.insert(key(at), before);
    }

    /// What a service has come to by now; how many exchanges have ended since it was last told.
    pub fn service(
        &mut self,
        time_ns: u64,
        at: &tw_service,
        now: &tw_requests,
        open: Option<&Open>,
        one_in: u32,
    ) -> Result<u64, Error> {
        let known = self.before.entry(key(at)).or_default();
        let before = std::mem::replace(&mut known.sums, *now);
        let waiting = open.map(|open| open.0.get(&key(at)).map_or(0, |(n, _)| *n));
        let rise = |of: fn(&tw_requests) -> u64| of(now).wrapping_sub(of(&before));
        let mut row = Request {
            time_ns,
            netns: at.netns,
            role: role(at),
            addr: Addr(at.addr),
            port: at.port,
            exchanges: rise(|r| r.exchanges),
            overlapped: rise(|r| r.overlapped),
            pushed: rise(|r| r.pushed),
            unanswered: rise(|r| r.unanswered),
            given_up: Some(rise(|r| r.given_up)),
            given_up_ns: Some(rise(|r| r.given_up_ns)),
            open: waiting,
            retransmits: rise(|r| r.retransmits),
            think_alone_ns: rise(|r| r.alone_ns),
            think_cpu_ns: rise(|r| r.cpu_ns),
            think_runqueue_ns: rise(|r| r.runqueue_ns),
            one_in,
            ..Request::default()
        };
        for (at, part) in PARTS.into_iter().enumerate() {
            *row.part_ns_mut(part) = now.ns[at].wrapping_sub(before.ns[at]);
        }
        let happened = [
            row.exchanges,
            row.pushed,
            row.unanswered,
            row.given_up.unwrap_or(0),
            row.open.unwrap_or(0),
        ];
        if happened == [0; 5] {
            return Ok(0);
        }
        known.news_ns = time_ns;
        let exchanges = row.exchanges;
        self.request.push(row)?;
        for (what, now, before) in [
            (Timed::Response, &now.response, &before.response),
            (Timed::Think, &now.think, &before.think),
        ] {
            for (i, (now, before)) in now.iter().zip(before).enumerate() {
                let count = now.wrapping_sub(*before);
                if count > 0 {
                    self.time.push(RequestTime {
                        time_ns,
                        netns: at.netns,
                        role: role(at),
                        addr: Addr(at.addr),
                        port: at.port,
                        what: what.clone(),
                        at_least_ns: if i == 0 { 0 } else { bound(i) },
                        below_ns: (i + 1 < BUCKETS).then(|| bound(i + 1)),
                        count: count.into(),
                    })?;
                }
            }
        }
        Ok(exchanges)
    }

    /// Services that are at rest, where there are so many that others might find no room.
    pub fn at_rest(&self, time_ns: u64) -> Vec<Key> {
        at_rest(&self.before, time_ns)
    }

    /// The kernel counts this service from zero again, should it come back.
    pub fn forget(&mut self, service: &Key) {
        self.before.remove(service);
    }

    /// Seals what is there.
    pub fn seal(&mut self) -> Result<(), Error> {
        self.request.seal()?;
        self.time.seal()?;
        Ok(self.exchange.seal()?)
    }

    /// Seals it if that is due.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        if self.request.is_due() || self.exchange.is_due() {
            self.seal()?;
        }
        Ok(())
    }
}

const _: () = assert!(tw_part::TW_PARTS.0 as usize == RequestPart::ALL.len());
/// The parts in the kernel's order.
const PARTS: [RequestPart; RequestPart::ALL.len()] = tied!(from 0;
    tw_part::TW_PART_ACCEPT => RequestPart::Accept,
    tw_part::TW_PART_UNREAD => RequestPart::Unread,
    tw_part::TW_PART_RECEIVE => RequestPart::Receive,
    tw_part::TW_PART_THINK => RequestPart::Think,
    tw_part::TW_PART_AWAIT => RequestPart::Await,
    tw_part::TW_PART_SEND => RequestPart::Send,
    tw_part::TW_PART_REPAIR => RequestPart::Repair,
    tw_part::TW_PART_UNHEARD => RequestPart::Unheard,
);

/// Where a bucket begins, ns.
fn bound(bucket: usize) -> u64 {
    ((STEPS + bucket % STEPS) as u64) << (bucket / STEPS + UNIT - STEPS.ilog2() as usize)
}

/// The service, by that.
pub fn key(at: &tw_service) -> Key {
    (at.addr, at.netns, at.port, at.role)
}

fn role(at: &tw_service) -> Role {
    let words = tied!(from 0;
        tw_role::TW_ROLE_SERVER => Role::Server,
        tw_role::TW_ROLE_CLIENT => Role::Client,
    );
    match words.get(usize::from(at.role)) {
        Some(role) => role.clone(),
        None => Role::Client,
    }
}

fn row(x: &tw_exchange) -> Exchange {
    let thread = |id: u32| (id != 0).then_some(id);
    let mut row = Exchange {
        time_ns: x.time_ns,
        began_ns: x.began_ns,
        netns: x.service.netns,
        role: role(&x.service),
        sock: x.sock,
        family: x.family,
        local_addr: Addr(x.local_addr),
        local_port: x.local_port,
        remote_addr: Addr(x.remote_addr),
        remote_port: x.remote_port,
        pid: thread(x.pid),
        tid: thread(x.tid),
        comm: thread(x.tid).and_then(|tid| comm(x.pid, tid)),
        open: x.open != 0,
        given_up: Some(x.given_up != 0),
        overlapped: x.overlapped != 0,
        retransmits: x.retransmits,
        think_alone_ns: x.alone_ns,
        think_cpu_ns: x.cpu_ns,
        think_runqueue_ns: x.runqueue_ns,
        unread_longest_ns: Some(x.unread_longest_ns),
        ..Exchange::default()
    };
    for (at, part) in PARTS.into_iter().enumerate() {
        *row.part_ns_mut(part) = x.ns[at];
    }
    row
}

/// The name of a thread; `None` when it is gone, or not in our PID namespace.
fn comm(pid: u32, tid: u32) -> Option<Text> {
    if !space::pids_are_ours() {
        return None;
    }
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_thirty_seconds_of_powers_of_two() {
        assert_eq!(bound(0), 1 << UNIT);
        assert_eq!([bound(32), bound(33), bound(64)], [2048, 2112, 4096]);
        assert_eq!(tw_requests::default().response.len(), BUCKETS);
        let last = bound(BUCKETS - 1);
        assert!((130_000_000_000..137_500_000_000).contains(&last), "{last}");
    }

    #[test]
    fn services_at_rest_make_room_where_there_are_many() {
        let second = 1_000_000_000;
        let service = |n| ([0; 16], n, 80, 0);
        let told = |news_ns| Before {
            news_ns,
            ..Before::default()
        };
        let mut known: BTreeMap<Key, Before> = [(service(0), told(second))].into();
        assert!(at_rest(&known, 1_000 * second).is_empty(), "there is room");
        let others = (1..CROWDED as u32).map(|n| (service(n), told(100 * second)));
        known.extend(others);
        assert_eq!(at_rest(&known, 100 * second), [service(0)]);
        known.insert(service(0), told(102 * second));
        assert!(at_rest(&known, 102 * second).is_empty());
        assert_eq!(at_rest(&known, 163 * second).len(), CROWDED);
    }
}
