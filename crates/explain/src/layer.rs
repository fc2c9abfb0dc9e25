//! Whose trouble it is: the first question for anyone on call.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where the cause of a finding lies, and so who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// In a program of this host: what it does, or what it asks of its sockets.
    Application,
    /// In this host's kernel, its settings, its firewall, or its CPUs.
    ThisHost,
    /// Between the hosts.
    Network,
    /// At the other end.
    Peer,
}

impl Layer {
    /// As the first word of a line.
    pub fn says(self) -> &'static str {
        match self {
            Layer::Application => "APPLICATION",
            Layer::ThisHost => "THIS HOST",
            Layer::Network => "NETWORK",
            Layer::Peer => "PEER",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.says())
    }
}
