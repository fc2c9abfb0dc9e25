//! Where the simulation can be watched from; watching changes nothing.

use super::flow::{Flow, How};
use super::mesh::{Happened, Mesh};

/// What is told while it happens, in order of time; times are virtual ns.
pub(super) trait Observer {
    /// Something happened to a handshake.
    fn handshake(&mut self, _mesh: &Mesh, _happened: Happened) {}
    /// A sender retransmits so many segments, now.
    fn resent(&mut self, _mesh: &Mesh, _flow: &Flow, _now_ns: u64, _resent: (How, u64)) {}
    /// A second ends now.
    fn second(&mut self, _mesh: &Mesh, _flows: &[Flow], _now_ns: u64) {}
}

/// Nobody watches.
impl Observer for () {}
