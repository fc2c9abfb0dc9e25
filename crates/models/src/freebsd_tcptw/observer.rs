//! Where the simulation can be watched from, once the lead-in is over; watching changes nothing.

use super::outcome::Second;
use super::pcbs::List;

/// One connection as observers are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conn {
    pub(super) id: u64,
    pub(super) local_port: u16,
    /// This host made it.
    pub(super) outbound: bool,
}

/// A connect() that returned.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) worker: u32,
    /// When it was called, got the lock, and returned, ns.
    pub(super) called_ns: u64,
    pub(super) began_ns: u64,
    pub(super) returned_ns: u64,
    /// The connection that it made; `None` when no port was free.
    pub(super) made: Option<Conn>,
}

/// What is told while it happens, in order of time; times are on the simulation's clock, ns.
pub(super) trait Observer {
    /// The lead-in is over: what there is, by port.
    fn begins(&mut self, _now_ns: u64, _lists: &[List]) {}
    /// A service took a connection.
    fn accepted(&mut self, _conn: Conn, _now_ns: u64) {}
    /// A connection of this host's is established; connect() was called then.
    fn established(&mut self, _conn: Conn, _called_ns: u64, _now_ns: u64) {}
    /// A connection was closed, by this host first or by the other side.
    fn closed(&mut self, _conn: Conn, _first: bool, _now_ns: u64) {}
    /// A worker waits for the lock in connect(), from now, while the other one has it.
    fn blocked(&mut self, _worker: u32, _holder: u32, _from_ns: u64, _to_ns: u64) {}
    /// A worker walks lists in connect(), from now, with the lock held.
    fn searches(&mut self, _worker: u32, _from_ns: u64, _to_ns: u64) {}
    /// connect() returned, now.
    fn returned(&mut self, _call: &Call) {}
    /// A second ends now; the first time, the lead-in.
    fn second(&mut self, _now_ns: u64, _second: &Second, _lists: &[List]) {}
}

/// Nobody watches.
impl Observer for () {}
