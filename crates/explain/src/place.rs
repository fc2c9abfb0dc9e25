//! The place of a finding, by which its rivals are asked and its consequences known.

use ahash::AHashSet;
use analysis::account::ServiceKey;
use analysis::{ConnId, Endpoint};
use recording::Addr;

/// Where a case is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An address and port that connects go to; for a loopback address, in this namespace.
    At(Option<u32>, Endpoint),
    /// A listener of this host.
    Listener(u32),
    /// The ends that send over what is slow.
    Ends(Vec<ConnId>),
    /// Ends that receive from senders on other hosts.
    Receivers(Vec<ConnId>),
    /// Ends of connections that resets ended, no matter who sent them.
    Resets(Vec<ConnId>),
    /// Ends of connections that run without SACK or window scaling.
    WithoutOptions(Vec<ConnId>),
    /// A process that waits for a CPU.
    Process(u32),
    /// CPUs on which the kernel's threads for packets wait.
    Cpus(Vec<u32>),
    /// The local ports of an address that connect to a destination, in a namespace.
    LocalPorts(u32, Addr, Endpoint),
    /// A lookup structure, as `table_size` calls it, of a namespace; 0 for the host's.
    Table(u32, &'static str),
    /// The exchanges of a service: its listener if that is on this host, the processes that answered or asked,
    /// and the ends of both sides that were slow.
    Service {
        key: ServiceKey,
        listener: Option<u32>,
        pids: Vec<u32>,
        ids: Vec<ConnId>,
    },
    /// System calls that took long.
    Calls(SlowCalls),
    /// The host: nothing narrower is known.
    Host,
}

/// Calls that took long, and how much of that their threads were on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowCalls {
    /// Where they were called.
    pub(crate) netns: u32,
    /// As in `connect()`.
    pub(crate) call: &'static str,
    /// The port that they asked for; none where any would do.
    pub(crate) asked_for: Option<Endpoint>,
    pub(crate) took_ns: u64,
    pub(crate) on_cpu_ns: u64,
}

impl Place {
    /// The ends that it is about, where it is about some.
    pub(crate) fn ids(&self) -> &[ConnId] {
        match self {
            Place::Ends(ids)
            | Place::Receivers(ids)
            | Place::Resets(ids)
            | Place::WithoutOptions(ids)
            | Place::Service { ids, .. } => ids,
            _ => &[],
        }
    }

    /// Whether what is said of one also applies to the other.
    pub(crate) fn meets(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Ends(these), Place::Ends(those))
            | (Place::Receivers(these), Place::Receivers(those))
            | (Place::Resets(these), Place::Resets(those))
            | (Place::WithoutOptions(these), Place::WithoutOptions(those)) => {
                have_in_common(these, those)
            }
            (Place::Service { .. }, Place::Service { .. }) => self == other,
            (other, service @ Place::Service { .. }) | (service @ Place::Service { .. }, other) => {
                service.is_served_at(other)
            }
            (Place::Host, Place::Host) => false,
            _ => self == other,
        }
    }

    /// Of a service: whether it is what another place is about.
    fn is_served_at(&self, other: &Place) -> bool {
        let Place::Service {
            listener,
            pids,
            ids,
            ..
        } = self
        else {
            return false;
        };
        match other {
            Place::Listener(index) => *listener == Some(*index),
            Place::Process(pid) => pids.contains(pid),
            _ => have_in_common(other.ids(), ids),
        }
    }
}

/// This few are looked for one by one.
const MAX_ONE_BY_ONE: usize = 8;

/// Whether one is in both lists, which may be long.
fn have_in_common(these: &[ConnId], those: &[ConnId]) -> bool {
    let (few, many) = if these.len() <= those.len() {
        (these, those)
    } else {
        (those, these)
    };
    if few.len() <= MAX_ONE_BY_ONE {
        return few.iter().any(|id| many.contains(id));
    }
    let few: AHashSet<ConnId> = few.iter().copied().collect();
    many.iter().any(|id| few.contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_meet_where_they_have_one_in_common() {
        let ends = |ids: std::ops::Range<ConnId>| Place::Ends(ids.collect());
        for n in [1, MAX_ONE_BY_ONE as ConnId, 1_000] {
            let these = ends(0..n);
            assert!(these.meets(&ends(n - 1..n + 1_000)), "{n}");
            assert!(ends(n - 1..n + 1_000).meets(&these), "{n}");
            assert!(!these.meets(&ends(n..n + 1_000)), "{n}");
            assert!(!these.meets(&Place::Receivers(vec![0])), "{n}");
        }
        assert!(!ends(0..0).meets(&ends(0..0)));
    }
}
