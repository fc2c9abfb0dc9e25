//! What the time of exchanges was spent on: its parts, and whose they were.

use recording::tables::RequestPart;
use serde::{Deserialize, Serialize};

use super::state::Role;

/// Time of exchanges by part, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parts {
    /// Data waited for accept() and the first read after it.
    pub accept: f64,
    /// Data waited to be read by our application.
    pub unread: f64,
    /// More of the message was on its way.
    pub receive: f64,
    /// Our application worked.
    pub think: f64,
    /// The answer was awaited: network and peer.
    pub awaited: f64,
    /// Between two writes of a message, with full segments not yet sent: windows and buffers held them back.
    pub send: f64,
    /// Until what we had sent was retransmitted.
    pub repair: f64,
    /// Until it was retransmitted though it had come: its acknowledgement was lost, or the answer.
    pub unheard: f64,
}

impl Parts {
    /// Each part as `s` gives it, s.
    pub(super) fn of(s: impl Fn(RequestPart) -> f64) -> Parts {
        Parts {
            accept: s(RequestPart::Accept),
            unread: s(RequestPart::Unread),
            receive: s(RequestPart::Receive),
            think: s(RequestPart::Think),
            awaited: s(RequestPart::Await),
            send: s(RequestPart::Send),
            repair: s(RequestPart::Repair),
            unheard: s(RequestPart::Unheard),
        }
    }

    /// All of it, s.
    pub fn total(&self) -> f64 {
        let application = self.accept + self.unread + self.think;
        let elsewhere = self.receive + self.awaited + self.unheard;
        application + self.send + self.repair + elsewhere
    }

    /// Whose time it was, given that each of so many exchanges took a round trip of this many seconds.
    pub(super) fn whose(&self, role: Role, exchanges: u64, round_trip_s: Option<f64>) -> Whose {
        let elsewhere = self.receive + self.awaited;
        let network = match (role, round_trip_s) {
            (Role::Client, Some(s)) => {
                Some((s * exchanges as f64).min(self.awaited) + self.receive)
            }
            _ => None,
        };
        Whose {
            application: self.accept + self.unread + self.think,
            tcp: self.send + self.repair,
            network: network.unwrap_or(0.0),
            peer: network.map_or(0.0, |s| elsewhere - s),
            network_or_peer: self.unheard + if network.is_some() { 0.0 } else { elsewhere },
        }
    }
}

/// Whose time the exchanges of a service took, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Whose {
    /// Our application: accepting, reading, thinking.
    pub application: f64,
    /// TCP here: repairing losses; windows and buffers that held data back.
    pub tcp: f64,
    /// The network: a round trip for each exchange, and what came piecemeal.
    pub network: f64,
    /// The other end: what is left of waiting for the answer.
    pub peer: f64,
    /// Network or peer, where no round trip tells them apart, or where only the loss of what came back is known.
    pub network_or_peer: f64,
}

/// What threads did between reading a request and answering it, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thinking {
    /// One thread read and answered, and read no other request meanwhile; of the rest of `think` nobody
    /// can tell (event loops, work handed on).
    pub alone: f64,
    /// Of that, it ran.
    pub cpu: f64,
    /// Of that, it waited for a CPU.
    pub runqueue: f64,
}

impl Thinking {
    /// The thread slept: locks, disks, timers, other connections, s.
    pub fn asleep(&self) -> f64 {
        (self.alone - self.cpu - self.runqueue).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_on_its_way_back_is_the_networks_or_the_peers() {
        let parts = Parts {
            awaited: 5.0,
            unheard: 2.0,
            repair: 1.0,
            ..Parts::default()
        };
        let whose = parts.whose(Role::Client, 20, Some(0.1));
        let told = [whose.tcp, whose.network, whose.peer, whose.network_or_peer];
        assert_eq!(told, [1.0, 2.0, 3.0, 2.0]);
        assert_eq!(told.iter().sum::<f64>(), parts.total());
        let unmeasured = parts.whose(Role::Client, 20, None);
        assert_eq!(unmeasured.network_or_peer, 7.0);
    }
}
