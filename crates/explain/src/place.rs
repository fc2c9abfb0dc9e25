//! The place of a finding, by which its rivals are asked and its consequences known.

use analysis::{ConnId, Endpoint};

/// Where a case is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An address and port that connects go to; of a loopback address, in this namespace.
    At(Option<u32>, Endpoint),
    /// A listener of this host.
    Listener(u32),
    /// The ends that send over what is slow.
    Ends(Vec<ConnId>),
    /// Ends that receive from senders on other hosts.
    Receivers(Vec<ConnId>),
    /// Ends of connections that resets ended, whoever sent them.
    Resets(Vec<ConnId>),
    /// Ends of connections that run without SACK or window scaling.
    WithoutOptions(Vec<ConnId>),
}

impl Place {
    /// The ends that it is about, where it is about some.
    pub(crate) fn ids(&self) -> &[ConnId] {
        match self {
            Place::Ends(ids)
            | Place::Receivers(ids)
            | Place::Resets(ids)
            | Place::WithoutOptions(ids) => ids,
            _ => &[],
        }
    }

    /// Whether what is told of one is also told of the other.
    pub(crate) fn meets(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Ends(these), Place::Ends(those))
            | (Place::Receivers(these), Place::Receivers(those))
            | (Place::Resets(these), Place::Resets(those))
            | (Place::WithoutOptions(these), Place::WithoutOptions(those)) => {
                these.iter().any(|id| those.contains(id))
            }
            _ => self == other,
        }
    }
}
