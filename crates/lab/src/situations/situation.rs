//! What a situation is, and what follows from its parts. Pure.

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::kinds::{
    Age, Beside, Caller, Harmless, Patience, Proxy, SMALL_TRANSFER, Server, Shape, Side, Topology,
};

/// One situation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Situation {
    /// The seed of which it is made.
    pub seed: u64,
    /// What stands between.
    pub topology: Topology,
    /// The proxies, from the caller's side.
    pub proxies: Vec<Proxy>,
    /// The network is behind so many of them.
    pub network_behind: usize,
    /// Who says what when.
    pub shape: Shape,
    /// Who serves.
    pub server: Server,
    /// Who asks.
    pub caller: Caller,
    /// Who asks as well.
    pub beside: Option<Beside>,
    /// So many at once.
    pub threads: u32,
    /// What the caller puts up with.
    pub patience: Patience,
    /// Bytes of an answer, or of a transfer.
    pub size: u64,
    /// One-way delay of the network, ms.
    pub delay_ms: f64,
    /// Its rate, Mbit/s.
    pub rate_mbit: Option<f64>,
    /// What is wrong, and how severe it is: 0 to 2.
    pub fault: Option<(Fault, usize)>,
    /// What is harmless.
    pub harmless: Option<Harmless>,
    /// Which hosts are recorded.
    pub side: Side,
    /// Since when it is wrong.
    pub age: Age,
}

/// What is said over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Http,
    Tls,
    Lines,
    Redis,
    Postgres,
    Iperf3,
}

impl Speaks {
    /// What a program says in a shape; `None` where it does not.
    pub(super) fn of(server: Server, shape: Shape) -> Option<Speaks> {
        use Server::{Iperf3, Nginx, Node, Postgres, Python, Redis};
        use Shape::{
            Ask, Both, Down, Greeting, Multiplexed, Pieces, Push, Short, Tls, TwoWrites, Up,
        };
        Some(match (server, shape) {
            (Nginx | Node | Python, Ask | Short | Down) => Speaks::Http,
            (Node | Python, Up | TwoWrites | Pieces) => Speaks::Http,
            (Nginx | Node | Python, Tls) => Speaks::Tls,
            (Node | Python, Greeting | Push) => Speaks::Lines,
            (Python, Both | Multiplexed) => Speaks::Lines,
            (Redis, Ask | Short | Multiplexed) => Speaks::Redis,
            (Postgres, Ask | Short) => Speaks::Postgres,
            (Iperf3, Down | Up | Both) => Speaks::Iperf3,
            _ => return None,
        })
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Speaks::Http => "http",
            Speaks::Tls => "tls",
            Speaks::Lines => "lines",
            Speaks::Redis => "redis",
            Speaks::Postgres => "postgres",
            Speaks::Iperf3 => "iperf3",
        }
    }
}

impl Situation {
    /// What is said; `None` where the program does not say it in this shape.
    pub(super) fn speaks(&self) -> Option<Speaks> {
        Speaks::of(self.server, self.shape)
    }

    /// Bulk.
    pub(super) fn is_bulk(&self) -> bool {
        matches!(self.shape, Shape::Down | Shape::Up | Shape::Both)
    }

    /// Takes a CPU by itself: bulk at full rate.
    pub(super) fn is_heavy(&self) -> bool {
        self.is_bulk() && self.rate_mbit.is_none()
    }

    /// A connection serves many requests.
    pub(super) fn keeps(&self) -> bool {
        use Shape::{Ask, Multiplexed, Pieces, TwoWrites};
        let a_process = matches!(self.caller, Caller::Curl | Caller::Psql | Caller::RedisCli);
        let endless = self.caller == Caller::Iperf3 || self.shape == Shape::Both;
        let of_bulk = endless || self.size > SMALL_TRANSFER;
        !a_process
            && (self.is_bulk() && of_bulk
                || matches!(self.shape, Ask | Multiplexed | Pieces | TwoWrites))
    }

    /// Connections are opened across the network time and again.
    pub(super) fn opens(&self) -> bool {
        let pooled = |proxy: &Proxy| *proxy != Proxy::HaproxyTcp;
        !self.keeps()
            && self.shape != Shape::Push
            && !self.proxies[..self.network_behind].iter().any(pooled)
    }

    /// Nothing but routers between the caller and the server.
    pub(super) fn is_end_to_end(&self) -> bool {
        self.proxies.is_empty()
    }
}
