//! What goes wrong: mechanisms, and where each acts. Pure.

use serde::{Deserialize, Serialize};

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident at $at:ident,)+) => {
        /// What goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Fault { $($(#[doc = $doc])+ $name,)+ }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$(Fault::$name),+];

            /// Where it acts.
            pub(super) fn at(self) -> At {
                match self { $(Fault::$name => At::$at,)+ }
            }

            /// What it is, in a few words.
            pub(super) fn what(self) -> &'static str {
                match self { $(Fault::$name => concat!($($doc),+).trim(),)+ }
            }
        }
    };
}

/// Where a fault acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// In the network between two hosts, which nobody records.
    Network,
    /// On the host before the network that asks.
    Near,
    /// On the host behind the network that answers.
    Far,
    /// On the router.
    Router,
    /// In the proxy that the caller talks to.
    Proxy,
    /// In the server.
    Server,
    /// In the caller.
    Caller,
}

faults! {
    /// the network drops SYNs
    SynLost at Network,
    /// the network drops SYN-ACKs
    SynAnswerLost at Network,
    /// the network drops packets above a size
    BigLost at Network,
    /// the network drops everything of the service
    AllLost at Network,
    /// the network drops what goes to the server
    WayThereLost at Network,
    /// the network drops what comes from the server
    WayBackLost at Network,
    /// the network loses a share of all packets
    Loss at Network,
    /// the network's rate falls, and its queue holds a few packets
    ShortQueue at Network,
    /// the network's rate falls, and its queue holds seconds
    LongQueue at Network,
    /// the network's MTU falls, and nobody is told
    MtuHole at Network,
    /// a box answers some packets of connections with resets
    ResetByBox at Network,
    /// a box answers SYNs with resets
    RefusedByBox at Network,
    /// a box answers SYNs with ICMP
    UnreachableByBox at Network,
    /// the gateway no longer answers ARP
    DeadNeighbour at Near,
    /// the server's firewall drops SYNs
    FirewallFarSyn at Far,
    /// the server's firewall drops everything of the service
    FirewallFarAll at Far,
    /// the asking host's firewall drops SYN-ACKs
    FirewallNearSyn at Near,
    /// the asking host's firewall drops everything from the server
    FirewallNearAll at Near,
    /// the router's firewall drops everything of the service
    FirewallRouter at Router,
    /// the router drops a share of the SYNs
    FirewallRouterSyn at Router,
    /// the address moves away from the server
    AddressGone at Far,
    /// the server has no route back
    RouteBackGone at Far,
    /// the way back is another device, and rp_filter is strict
    RpFilter at Far,
    /// the server's own queueing discipline is short
    OwnQueue at Far,
    /// the answer is no longer translated for the host itself
    HairpinBare at Network,
    /// the server no longer accepts
    NotAccepting at Server,
    /// the server is stopped (SIGSTOP)
    Stopped at Server,
    /// the server is stopped for a second, time and again
    StopsAndGoes at Server,
    /// the server's cgroup has a small CPU quota
    Quota at Server,
    /// the server takes longer for each answer
    SlowAnswers at Server,
    /// the server takes longer for one answer of several
    SlowNowAndThen at Server,
    /// the server is late with its greeting
    SlowGreeting at Server,
    /// a script holds redis
    RedisScript at Server,
    /// a session holds the table's lock
    PostgresLock at Server,
    /// the server has ended
    ServerGone at Server,
    /// the server ends and starts again
    Restart at Server,
    /// the server resets instead of answering (SO_LINGER 0)
    ResetsAnswers at Server,
    /// the server closes without having read the request's body
    ClosesUnread at Server,
    /// the server has no descriptor left
    FewDescriptors at Server,
    /// the server closes idle connections sooner than the pool uses them
    IdleClose at Server,
    /// the server sets a small send buffer
    SmallSendBuffer at Server,
    /// the server writes an answer in three with Nagle's algorithm on
    SplitAnswers at Server,
    /// the server leaves TCP_CORK set
    Cork at Server,
    /// one of the processes that share the port is stopped
    WorkerStuck at Server,
    /// the proxy is stopped (SIGSTOP)
    ProxyStopped at Proxy,
    /// the caller reads slowly
    SlowReader at Caller,
    /// the caller sets a small receive buffer
    SmallReceiveBuffer at Caller,
    /// the caller writes a request in two with Nagle's algorithm on
    NagledRequests at Caller,
    /// the caller's range of ports is small
    FewPorts at Caller,
    /// the caller's resolver is slow
    SlowNames at Caller,
    /// the caller gives up sooner than the path can answer
    Impatient at Caller,
}

impl Fault {
    /// Whether the caller asks a resolver before it connects: with the fault and, of the same seed, without.
    pub(super) fn wants_resolver(self) -> bool {
        self == Fault::SlowNames
    }
}
