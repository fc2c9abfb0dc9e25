//! What a situation is composed of: the words that are drawn. Pure.

use serde::{Deserialize, Serialize};

/// Where everybody listens.
pub(super) const PORT: u16 = 8000;

/// A transfer of so many bytes has a connection of its own; a larger one keeps it.
pub(super) const SMALL_TRANSFER: u64 = 1_000_000;

/// The word of a kind, as files and tables have it.
pub(super) fn word<T: Serialize>(kind: &T) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

macro_rules! kinds {
    ($(#[doc = $doc:literal] $name:ident { $(#[doc = $of:literal] $one:ident,)+ })+) => { $(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $(#[doc = $of] $one,)+ }
        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$one),+];
        }
    )+ };
}

kinds! {
    /// What stands between the caller and the server.
    Topology {
        /// A network.
        Direct,
        /// A router beside it.
        Router,
        /// A router that translates both addresses.
        Nat,
        /// A proxy.
        Proxy,
        /// A proxy behind a proxy.
        TwoProxies,
        /// An address that the server holds besides its own.
        Vip,
        /// Two processes listen on one port.
        SharedPort,
        /// The caller's own host, by way of an address that is translated back.
        Hairpin,
    }
    /// Who says what when.
    Shape {
        /// Requests and answers over connections that are kept.
        Ask,
        /// A connection for each request.
        Short,
        /// The server speaks first, on a connection for each request.
        Greeting,
        /// The server speaks when it likes.
        Push,
        /// Bulk to the caller.
        Down,
        /// Bulk to the server.
        Up,
        /// Bulk both ways at once.
        Both,
        /// A request in two writes.
        TwoWrites,
        /// An answer in pieces.
        Pieces,
        /// Several requests under way on one connection.
        Multiplexed,
        /// TLS, and a handshake for each request.
        Tls,
    }
    /// A program that serves.
    Server {
        /// nginx.
        Nginx,
        /// A program in node.
        Node,
        /// A program in Python.
        Python,
        /// redis.
        Redis,
        /// postgres.
        Postgres,
        /// iperf3.
        Iperf3,
    }
    /// A program that passes on.
    Proxy {
        /// haproxy, which passes bytes.
        HaproxyTcp,
        /// haproxy, which passes requests.
        HaproxyHttp,
        /// nginx.
        Nginx,
    }
    /// A program that asks, and whose waits are written down.
    Caller {
        /// A program in Python.
        Python,
        /// A program in node.
        Node,
        /// curl, a process a request.
        Curl,
        /// psql, a process a request.
        Psql,
        /// redis-cli, a process a request.
        RedisCli,
        /// iperf3.
        Iperf3,
    }
    /// A program that asks as well.
    Beside {
        /// wrk.
        Wrk,
        /// ab.
        Ab,
        /// redis-benchmark.
        RedisBenchmark,
        /// pgbench.
        Pgbench,
    }
    /// Which hosts are recorded.
    Side {
        /// The caller's.
        Client,
        /// The router or the proxies.
        Middle,
        /// The server's.
        Server,
        /// All but the network.
        All,
    }
    /// What is harmless and happens where nothing is wrong.
    Harmless {
        /// 300 ports are tried, of which one answers.
        Scan,
        /// A port that nobody listens on is tried twice a second.
        Probes,
        /// The server, or what is before it, reads its settings again.
        Reload,
        /// The network passes smaller packets, and says so.
        SmallerMtu,
    }
    /// Whether what happens is older than the recording.
    Age {
        /// It is.
        Before,
        /// It happens while the recording runs.
        While,
    }
}

/// What a caller puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Patience {
    /// It gives up after so long, s.
    pub gives_up_s: f64,
    /// It tries so often again.
    pub retries: u32,
    /// It has so many addresses to try.
    pub addresses: u32,
    /// It rests so long between two requests, s.
    pub pause_s: f64,
}
