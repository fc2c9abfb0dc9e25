//! Whose time the requests of each service took.

use serde::Serialize;
#[cfg(test)]
use ts_rs::TS;

/// Whose time the requests of each listener and destination took.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/services.ts"))]
pub struct Services {
    /// What time went with, in the order of the bars.
    pub parts: Vec<Part>,
    /// How long each part of the recording is in `ServiceTime::over_time`, s.
    pub width_s: f64,
    /// Those first whose exchanges took most time.
    pub services: Vec<ServiceTime>,
}

/// What time went with.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/services.ts"))]
pub struct Part {
    /// In a word or two.
    pub name: String,
    /// Whose it is.
    pub whose: Whose,
}

/// Whose time it was.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(TS), ts(export_to = "page/services.ts"))]
pub enum Whose {
    /// Our application's.
    Application,
    /// TCP's on this host.
    Tcp,
    /// The network's.
    Network,
    /// One of these two's: no round trip tells them apart.
    NetworkOrPeer,
    /// The other end's.
    Peer,
}

/// The requests of a listener or destination.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/services.ts"))]
pub struct ServiceTime {
    /// This host answers; else it asks.
    pub serves: bool,
    /// Where it listens, or connects to.
    pub at: String,
    /// Namespace's name.
    pub netns: String,
    /// The program that listens, or asks; may be empty.
    pub owner: String,
    /// Requests that were answered.
    pub exchanges: f64,
    /// The same per second.
    pub per_s: f64,
    /// Not answered for a second or longer when the recording ended.
    pub open: f64,
    /// Whose connections closed before the answer.
    pub unanswered: f64,
    /// Requests and answers cannot be told to belong together.
    pub multiplexed: bool,
    /// Half took no longer, ms; null when multiplexed.
    pub p50_ms: Option<f64>,
    /// 90 in 100 took no longer, ms; null when multiplexed.
    pub p90_ms: Option<f64>,
    /// 99 in 100 took no longer, ms; null when multiplexed.
    pub p99_ms: Option<f64>,
    /// Time of all together by part, s.
    pub spent_s: Vec<f64>,
    /// The same for each part of the recording; none where nothing was answered.
    pub over_time: Vec<Vec<f64>>,
}
