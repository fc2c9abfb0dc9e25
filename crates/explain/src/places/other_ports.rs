//! Whether one port of a host loses packets while its others do not: then the path is not the reason.

use ahash::AHashMap;
use analysis::{Conn, Endpoint, Outcome, Story};
use recording::Addr;

use crate::finding::Step;
use crate::limits;
use crate::say::{Quantity, say};

/// Connects that failed unanswered, or retransmitted a SYN or data, and all connects; to one port of a host, and to its
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OtherPorts {
    own: (u64, u64),
    others: (u64, u64),
}

/// Connects to each host of each namespace, over all ports: those that suffered, and all.
pub(crate) struct Hosts(AHashMap<(u32, Addr), (u64, u64)>);

impl Hosts {
    pub(crate) fn of(story: &Story) -> Hosts {
        let mut hosts: AHashMap<(u32, Addr), (u64, u64)> = AHashMap::new();
        for conn in story.conns.iter().filter(|c| c.connects()) {
            count(
                hosts.entry((conn.netns, conn.remote.addr)).or_default(),
                conn,
            );
        }
        Hosts(hosts)
    }

    /// A port compared with the others of its host, by its clients of a namespace.
    pub(crate) fn other_ports<'a>(
        &self,
        netns: u32,
        at: Endpoint,
        clients: impl Iterator<Item = &'a Conn>,
    ) -> OtherPorts {
        let mut own = (0, 0);
        for conn in clients.filter(|c| c.netns == netns && c.connects()) {
            count(&mut own, conn);
        }
        let (lost, of) = self.0.get(&(netns, at.addr)).copied().unwrap_or_default();
        let others = (lost.saturating_sub(own.0), of.saturating_sub(own.1));
        OtherPorts { own, others }
    }
}

fn count((lost, of): &mut (u64, u64), conn: &Conn) {
    let in_vain = conn.outcome == Outcome::Failed && conn.refused.is_none();
    *lost += u64::from(conn.syn_retries > 0 || conn.retransmits > 0 || in_vain);
    *of += 1;
}

impl OtherPorts {
    /// The counts of the connects to one host.
    pub(crate) fn of<'a>(port: u16, conns: impl Iterator<Item = &'a Conn>) -> OtherPorts {
        let mut ports = OtherPorts::default();
        for conn in conns {
            if conn.remote.port == port {
                count(&mut ports.own, conn)
            } else {
                count(&mut ports.others, conn)
            }
        }
        ports
    }

    /// Whether the trouble is the port's own: a full queue, or a firewall rule for the port.
    pub(crate) fn are_well(&self) -> bool {
        let ((lost, of), (others, of_others)) = (self.own, self.others);
        let would = lost as f64 / of.max(1) as f64 * of_others as f64;
        would >= limits::OTHERS_WOULD.number()
            && others as f64 * limits::OTHERS_FEWER.times() <= would
    }

    /// The same, as a step.
    pub(crate) fn step(&self) -> Step {
        say!(
            "{lost} of {own} to this port retransmitted a SYN or data, and {others_lost} of {others} to \
             other ports of that host: all share one path.",
            own = Quantity::of(self.own.1, "connect"),
            lost = Quantity::count(self.own.0),
            others = Quantity::of(self.others.1, "connect"),
            others_lost = Quantity::count(self.others.0)
        )
    }
}
