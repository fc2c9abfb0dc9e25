//! Which connections wait for an answer when the recording ends, as their sockets tell it: also where the request is
//! older than the recording, and so was not recorded itself.

use super::state::{Role, State};
use crate::conn::{Conn, ConnId, Sampled};

/// The connections of one service that wait for an answer, and when it last gave one.
#[derive(Clone, Debug, Default)]
pub struct Owed {
    /// Those that wait, with the moment when their request came or went, ns since boot.
    pub ends: Vec<(ConnId, u64)>,
    /// When an answer was last given on another connection of the service, as their sockets tell, ns since boot.
    pub answered_ns: Option<u64>,
    /// Data moves on some of its connections, or what became of some is not known.
    pub busy: bool,
    /// Data has gone both ways on one of its connections: it is a service that answers.
    pub answers: bool,
}

impl Owed {
    /// An end that was established.
    pub(super) fn add(&mut self, id: ConnId, conn: &Conn, sampled: Option<&Sampled>, role: Role) {
        // The SYN counts among the bytes.
        let both_ways = conn.bytes_received > 1 && conn.bytes_acked > 1;
        self.answers |= both_ways;
        if let Some(ended_ns) = conn.ended_ns {
            self.answered(both_ways.then_some(ended_ns));
            return;
        }
        let Some((last, ledger)) = sampled.and_then(|s| Some((s.last, s.ledger.as_ref()?))) else {
            return;
        };
        self.answered(ledger.answered_ns(role).filter(|_| both_ways));
        match ledger.last(role) {
            State::Owing | State::Awaiting if last.all_acked => {
                self.ends.extend(last.spoke_ns.map(|ns| (id, ns)));
            }
            State::Idle if both_ways => self.answered(last.spoke_ns),
            // It waits like the others, before its server has the request, or has ended.
            State::Idle | State::Closing | State::Unaccepted | State::Unread => {}
            _ => self.busy = true,
        }
    }

    /// Something was answered then.
    fn answered(&mut self, at_ns: Option<u64>) {
        self.answers |= at_ns.is_some();
        self.answered_ns = self.answered_ns.max(at_ns);
    }
}
