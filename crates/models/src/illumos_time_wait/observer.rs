//! Where the simulation can be watched from; watching changes nothing.

use super::conn::Conn;
use super::outcome::Second;

/// What is told while it happens, in order of time. The times are those at which the client's part
/// happens, virtual ns.
pub(super) trait Observer {
    /// connect() was called.
    fn opened(&mut self, _conn: &Conn) {}
    /// A TIME_WAIT answered the SYN that was sent now with an ACK, the client that with a reset.
    fn refused(&mut self, _conn: &Conn, _now_ns: u64) {}
    /// A TIME_WAIT answered the SYN that was sent now with a reset.
    fn rejected(&mut self, _conn: &Conn, _now_ns: u64) {}
    /// The SYN is retransmitted, now.
    fn resent(&mut self, _conn: &Conn, _now_ns: u64) {}
    /// The SYN that was sent now is taken.
    fn established(&mut self, _conn: &Conn, _now_ns: u64) {}
    /// A request woke the server's thread.
    fn woken(&mut self, _conn: &Conn, _at_ns: u64, _slept_ns: u64) {}
    /// The server closed, then the client.
    fn closed(&mut self, _conn: &Conn, _server_ns: u64, _now_ns: u64) {}
    /// A second ends now.
    fn second(&mut self, _now_ns: u64, _second: &Second) {}
}

/// Nobody watches.
impl Observer for () {}
