//! The ids of causes: what is no cause cannot be written.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of a cause, as in the book, the JSON and on the command line: kebab-case, and stable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(&'static str);

macro_rules! ids {
    ($($name:ident = $id:literal),* $(,)?) => {
        impl Id {
            $(
                #[doc = concat!("`", $id, "`")]
                pub const $name: Id = Id($id);
            )*
            /// The ids of the causes that come with this crate, by number.
            pub const OWN: &[Id] = &[$(Id::$name),*];
        }
    };
}

ids! {
    TIME_WAIT_COLLISION = "time-wait-collision",
    PORTS_EXHAUSTED = "ports-exhausted",
    PORT_SEARCH_COST = "port-search-cost",
    ACCEPT_QUEUE_OVERFLOW = "accept-queue-overflow",
    SYN_QUEUE_OVERFLOW = "syn-queue-overflow",
    SYN_COOKIE_OPTIONS_LOST = "syn-cookie-options-lost",
    MIDDLEBOX_STRIPS_OPTIONS = "middlebox-strips-options",
    LOCAL_FIREWALL_DROP = "local-firewall-drop",
    PATH_DROPS_SYN = "path-drops-syn",
    CONNECTION_REFUSED = "connection-refused",
    RESET_UNREAD_DATA = "reset-unread-data",
    RESET_BY_APPLICATION = "reset-by-application",
    INJECTED_RESET = "injected-reset",
    QDISC_DROP = "qdisc-drop",
    RECEIVE_BACKLOG_DROP = "receive-backlog-drop",
    SOFTIRQ_STARVATION = "softirq-starvation",
    PATH_LOSS = "path-loss",
    TAIL_LOSS = "tail-loss",
    BUFFERBLOAT = "bufferbloat",
    REORDERING = "reordering",
    NAGLE_DELAYED_ACK = "nagle-delayed-ack",
    SLOW_READER = "slow-reader",
    RECEIVE_BUFFER_SMALL = "receive-buffer-small",
    RECEIVE_QUEUE_PRUNED = "receive-queue-pruned",
    ZERO_WINDOW = "zero-window",
    SEND_BUFFER_SMALL = "send-buffer-small",
    PMTU_BLACK_HOLE = "pmtu-black-hole",
    TCP_MEMORY_PRESSURE = "tcp-memory-pressure",
    TIME_WAIT_TABLE_FULL = "time-wait-table-full",
    PATH_OUTAGE = "path-outage",
    CORKED_MESSAGES = "corked-messages",
    PEER_GONE = "peer-gone",
    CONNTRACK_FULL = "conntrack-full",
    LOOKUP_TABLE_GROWTH = "lookup-table-growth",
    CPU_CONTENTION = "cpu-contention",
    ROUTE_OR_NEIGHBOUR_FAILURE = "route-or-neighbour-failure",
    SOCKET_BACKLOG_DROP = "socket-backlog-drop",
    IDLE_TIMEOUT_MISMATCH = "idle-timeout-mismatch",
    RESET_BY_PEER = "reset-by-peer",
    INTERFACE_DROP = "interface-drop",
    INTERRUPT_IMBALANCE = "interrupt-imbalance",
    SYN_FLOOD = "syn-flood",
    CONNTRACK_INSERT_FAILED = "conntrack-insert-failed",
    SNAT_PORTS_EXHAUSTED = "snat-ports-exhausted",
    HALF_OPEN = "half-open",
    ACCEPT_IMBALANCE = "accept-imbalance",
    DESCRIPTORS_EXHAUSTED = "descriptors-exhausted",
    SLOW_ACCEPT = "slow-accept",
    SLOW_APPLICATION = "slow-application",
    SLOW_PEER = "slow-peer",
    CPU_SATURATED = "cpu-saturated",
    DAMAGED_PACKETS = "damaged-packets",
    LISTENER_ENDED = "listener-ended",
    SELF_CONNECTED = "self-connected",
    NAT_INVALID_RESET = "nat-invalid-reset",
}

impl Id {
    /// The id of a cause that is declared elsewhere, in kebab-case.
    pub const fn new(id: &'static str) -> Id {
        Id(id)
    }

    /// The id as text.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.0)
    }
}
impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}
impl PartialEq<str> for Id {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}
impl PartialEq<&str> for Id {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}
#[cfg(feature = "schema")]
impl schemars::JsonSchema for Id {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Id".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[a-z0-9-]+$" })
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.0)
    }
}

/// Ids that are not our own, as JSON of other builds has them.
static FOREIGN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
/// No file of findings knows more of them; each stays in memory.
const MAX_FOREIGN: usize = 1_000;
const MAX_ID_BYTES: usize = 100;

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Id, D::Error> {
        let text = String::deserialize(from)?;
        if let Some(own) = Id::OWN.iter().find(|id| id.0 == text) {
            return Ok(*own);
        }
        let mut foreign = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = foreign.get(&*text) {
            return Ok(Id(known));
        }
        if foreign.len() >= MAX_FOREIGN || text.len() > MAX_ID_BYTES {
            let why = "an id of a cause that is too long, or one too many";
            return Err(D::Error::custom(why));
        }
        let kept: &'static str = text.leak();
        foreign.insert(kept);
        Ok(Id(kept))
    }
}
