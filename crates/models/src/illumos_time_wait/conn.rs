//! A connection of the simulation.

use super::time_wait::End;

/// One connection, or the attempt to make one.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    /// Counts connections from 0.
    pub(super) id: u64,
    /// The client's end.
    pub(super) end: End,
    /// The closed-loop client; `None` for the open load.
    pub(super) client: Option<u32>,
    pub(super) opened_ns: u64,
    pub(super) iss: u32,
    pub(super) server_iss: u32,
    /// How often the SYN was retransmitted.
    pub(super) attempt: u32,
    pub(super) older: bool,
    pub(super) requests_left: u32,
    pub(super) requests: u32,
}

impl Conn {
    /// The sequence number after the last of a side that sent so many bytes each time.
    pub(super) fn after(&self, iss: u32, bytes: u32) -> u32 {
        let payload = bytes.wrapping_mul(self.requests);
        // SYN and FIN count as one each.
        iss.wrapping_add(payload).wrapping_add(2)
    }
}
