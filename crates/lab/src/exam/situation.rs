//! What a situation is: which faults and how severe, what stands beside them, and how all of it is built and
//! looked at.

use serde::{Deserialize, Serialize};

/// One situation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Situation {
    /// The seed of which it is made.
    pub seed: u64,
    /// The recording begins so long after the load, ms.
    pub older_ms: f64,
    /// The load takes so much longer than its files say, s.
    pub longer_s: f64,
    /// The faults, then what stands beside them.
    pub parts: Vec<Part>,
}

/// One scenario of a situation, in nodes of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The scenario.
    pub scenario: String,
    /// In front of the names of its nodes and processes.
    pub prefix: String,
    /// The seed of what varies in it.
    pub seed: u64,
    /// How severe it is on the ladder of its levers; `None` of what is harmless.
    pub times: Option<f64>,
    /// Which of its nodes are recorded.
    pub side: Side,
    /// It uses IPv6.
    pub ipv6: bool,
    /// Its client is behind a node that translates addresses.
    pub nat: bool,
    /// Sysctls of its nodes that change nothing about it.
    pub sysctls: Vec<(String, i64)>,
}

/// Which nodes of a part are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// All.
    Both,
    /// Those of its clients.
    Client,
    /// Those of its servers.
    Server,
    /// As its file says.
    AsWritten,
}

impl Part {
    /// A fault is planted.
    pub fn is_fault(&self) -> bool {
        self.times.is_some()
    }

    /// What it is, and how it is met: `path-loss (clients' side, IPv6)`.
    pub fn in_words(&self) -> String {
        let side = match self.side {
            Side::Client => Some("clients' side"),
            Side::Server => Some("servers' side"),
            Side::Both | Side::AsWritten => None,
        };
        let ways = [
            side,
            self.ipv6.then_some("IPv6"),
            self.nat.then_some("translated"),
        ];
        let ways: Vec<&str> = ways.into_iter().flatten().collect();
        if ways.is_empty() {
            self.scenario.clone()
        } else {
            format!("{} ({})", self.scenario, ways.join(", "))
        }
    }
}

impl Situation {
    /// Nothing is wrong in it.
    pub fn is_healthy(&self) -> bool {
        !self.parts.iter().any(Part::is_fault)
    }
}
