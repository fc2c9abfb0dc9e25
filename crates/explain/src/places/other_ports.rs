//! Whether one port of a host loses packets while its others do not: then no path does.

use analysis::{Conn, Outcome};

use crate::finding::Step;
use crate::say::{Quantity, say};

/// So many connections to other ports would have suffered as well, were it the path: by chance, hardly fewer
/// than a quarter of them do.
const WOULD: f64 = 10.0;
const FEWER: f64 = 4.0;

/// Connections that retransmitted a SYN or data, of all; to one port of a host, and to its others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OtherPorts {
    own: (u64, u64),
    others: (u64, u64),
}

impl OtherPorts {
    /// Of connections to one host.
    pub(crate) fn of<'a>(port: u16, conns: impl Iterator<Item = &'a Conn>) -> OtherPorts {
        let mut ports = OtherPorts::default();
        for conn in conns.filter(|c| c.connects()) {
            let known = match conn.remote.port == port {
                true => &mut ports.own,
                false => &mut ports.others,
            };
            let in_vain = conn.outcome == Outcome::Failed && conn.refused.is_none();
            known.0 += u64::from(conn.syn_retries > 0 || conn.retransmits > 0 || in_vain);
            known.1 += 1;
        }
        ports
    }

    /// Whether what the port suffers from is its own: a full queue, or a firewall that asks for the port.
    pub(crate) fn are_well(&self) -> bool {
        let ((lost, of), (others, of_others)) = (self.own, self.others);
        let would = lost as f64 / of.max(1) as f64 * of_others as f64;
        would >= WOULD && others as f64 * FEWER <= would
    }

    /// The same, to be told.
    pub(crate) fn step(&self) -> Step {
        say!(
            "Of {own} to this port {lost} retransmitted a SYN or data, of {others} to other ports of that host \
             {others_lost}: the path is one for all.",
            own = Quantity::of(self.own.1, "connect"),
            lost = Quantity::count(self.own.0),
            others = Quantity::of(self.others.1, "connect"),
            others_lost = Quantity::count(self.others.0)
        )
    }
}
