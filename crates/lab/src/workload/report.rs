//! What a workload measured, as the JSON line it prints at its end.

use std::collections::BTreeMap;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::waits::Waited;

/// Count of failures by reason: `ECONNREFUSED`, `timeout` …
pub type Failures = BTreeMap<String, u64>;

/// What a client measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// Always `client`.
    pub role: String,
    /// Its command name.
    pub name: String,
    /// From the first connection to the last event, s.
    pub seconds: f64,
    /// What became of the connections.
    pub connections: Connections,
    /// What became of the requests; streams have none.
    pub requests: Requests,
    /// From connect(2) to the connection standing, ms.
    pub connect_ms: Option<Spread>,
    /// From the first byte of a request to the last of its response, ms.
    pub request_ms: Option<Spread>,
    /// From connect(2) to the end of the first response, ms: what a user waits for.
    pub answer_ms: Option<Spread>,
    /// Handed to the kernel, bytes.
    pub bytes_sent: u64,
    /// Received, bytes.
    pub bytes_received: u64,
    /// Both directions over the time, Mbit/s.
    pub mbit_per_s: f64,
    /// Per connection, both directions, over the time it had something to do, Mbit/s.
    pub connection_mbit_per_s: Option<Spread>,
    /// What it waited for, in all.
    #[serde(default)]
    pub waited: Waited,
}

/// What became of a client's connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// connect(2) was called.
    pub started: u64,
    /// Stood.
    pub connected: u64,
    /// Could not be made, by reason.
    pub failed: Failures,
    /// Neither stood nor failed when the time was over.
    pub unfinished: u64,
}

/// What became of a client's requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Answered in full.
    pub answered: u64,
    /// Broken off, by reason.
    pub failed: Failures,
    /// Neither answered nor failed when the time was over.
    pub unfinished: u64,
}

/// What a server measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Always `server`.
    pub role: String,
    /// Its command name.
    pub name: String,
    /// Connections accepted.
    pub accepted: u64,
    /// Requests read to their end.
    #[serde(default)]
    pub asked: u64,
    /// Requests answered in full.
    pub answered: u64,
    /// Connections that ended with an error, by reason.
    pub failed: Failures,
    /// Sent, bytes.
    pub bytes_sent: u64,
    /// Received, bytes.
    pub bytes_received: u64,
}

/// What a binder measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinderReport {
    /// Always `binder`.
    pub role: String,
    /// Its command name.
    pub name: String,
    /// Calls of bind(2).
    pub asked: u64,
    /// Of these, got the port.
    pub bound: u64,
    /// Did not get it, by reason.
    pub failed: Failures,
    /// What a call took, µs.
    pub bind_us: Option<Spread>,
}

/// The distribution of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many values.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 90 % are at most this.
    pub p90: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these values, in any order; `None` of none.
    pub fn of(mut values: Vec<f32>) -> Option<Spread> {
        values.sort_unstable_by(f32::total_cmp);
        // Nearest rank: always a value that was measured.
        let at = |share: f64| {
            let rank = (share * values.len() as f64).ceil() as usize;
            round(f64::from(values[rank.clamp(1, values.len()) - 1]))
        };
        (!values.is_empty()).then(|| Spread {
            count: values.len() as u64,
            min: at(0.0),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        })
    }
}

/// Three decimals are more than any of these measurements knows.
pub(super) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Counts one failure.
pub(super) fn count(failures: &mut Failures, reason: impl Into<String>) {
    *failures.entry(reason.into()).or_default() += 1;
}

/// The name of an error as manual pages write it.
pub(super) fn errno_name(errno: Errno) -> String {
    let name = match errno {
        Errno::ADDRINUSE => "EADDRINUSE",
        Errno::ADDRNOTAVAIL => "EADDRNOTAVAIL",
        Errno::CONNABORTED => "ECONNABORTED",
        Errno::CONNREFUSED => "ECONNREFUSED",
        Errno::CONNRESET => "ECONNRESET",
        Errno::HOSTUNREACH => "EHOSTUNREACH",
        Errno::MFILE => "EMFILE",
        Errno::NETUNREACH => "ENETUNREACH",
        Errno::NOBUFS => "ENOBUFS",
        Errno::PIPE => "EPIPE",
        Errno::TIMEDOUT => "ETIMEDOUT",
        other => return format!("errno {}", other.raw_os_error()),
    };
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let spread = Spread::of((1..=100).rev().map(|v| v as f32).collect()).unwrap();
        assert_eq!(
            spread,
            Spread {
                count: 100,
                min: 1.0,
                p50: 50.0,
                p90: 90.0,
                p99: 99.0,
                max: 100.0
            }
        );
        let one = Spread::of(vec![7.0]).unwrap();
        assert_eq!((one.min, one.p50, one.max), (7.0, 7.0, 7.0));
        assert_eq!(Spread::of(vec![]), None);
    }
}
