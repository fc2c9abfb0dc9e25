//! The parameters of the model, typed, and what follows from them.

use serde::Deserialize;

use crate::{Error, Values};

/// As in `parameters.toml`, which says what each is and its unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    pub(super) nodes: u32,
    pub(super) sockets: u32,
    start: f64,
    start_spread: f64,
    connect_interval: f64,
    handshake_rtt: f64,
    handshake_jitter: f64,
    accept_time: f64,
    pub(super) runs: u32,
    pub(super) shown: u64,
    pub(super) duration: u64,
    throughput: f64,
    pub(super) data_sockets: u32,
    message: f64,
    pub(super) outstanding: u32,
    loaded_rtt: f64,
    line_rate: f64,
    pub(super) loss: f64,
    pub(super) loss_burst: u32,
    backlog: u32,
    pub(super) somaxconn: u32,
    later_rule: u64,
    pub(super) tcp_syncookies: u64,
    pub(super) tcp_max_syn_backlog: u32,
    pub(super) tcp_timestamps: u64,
    tcp_sack: u64,
    tcp_window_scaling: u64,
    pub(super) tcp_rmem: u32,
    pub(super) family: u8,
    mtu: u32,
}

/// A window without scaling: the header's field has 16 bits.
pub(super) const UNSCALED: u32 = 65_535;
/// The timestamp option takes so much of every segment, padding included, bytes.
const TIMESTAMP_BYTES: u32 = 12;

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000_000_000;

impl Params {
    pub(super) fn of(values: &Values) -> Result<Params, Error> {
        let p: Params = values.typed()?;
        Error::together(
            p.family != 5,
            format!("family={}: allowed is 4 or 6", p.family),
        )?;
        Error::together(
            p.data_sockets <= 2 * p.sockets,
            format!(
                "data_sockets={}: allowed is 1 to {}, the sockets that both nodes of a link open",
                p.data_sockets,
                2 * p.sockets
            ),
        )?;
        let mesh = p.nodes * (p.nodes - 1) * p.sockets;
        Error::together(
            mesh <= MOST_SOCKETS,
            format!(
                "sockets={}: allowed is 1 to {}, as {} nodes have at most {MOST_SOCKETS} in all",
                p.sockets,
                MOST_SOCKETS / (p.nodes * (p.nodes - 1)),
                p.nodes
            ),
        )?;
        Ok(p)
    }

    /// The limit of both queues of a listener.
    pub(super) fn queue_limit(&self) -> u32 {
        self.backlog.min(self.somaxconn)
    }

    /// Requests that a listener holds when it is full.
    pub(super) fn most_requests(&self) -> u32 {
        self.queue_limit() + u32::from(self.later_rule == 1)
    }

    pub(super) fn later_kernel(&self) -> bool {
        self.later_rule == 1
    }

    pub(super) fn sack(&self) -> bool {
        self.tcp_sack == 1
    }

    pub(super) fn window_scaling(&self) -> bool {
        self.tcp_window_scaling == 1
    }

    pub(super) fn timestamps(&self) -> bool {
        self.tcp_timestamps > 0
    }

    /// The segment size that a SYN announces, bytes.
    pub(super) fn announced_mss(&self) -> u32 {
        let headers = if self.family == 6 { 60 } else { 40 };
        self.mtu - headers
    }

    /// Bytes of data in a full segment to a peer that is taken to have announced `mss`.
    pub(super) fn payload(&self, mss: u32) -> u32 {
        match self.timestamps() {
            true => mss - TIMESTAMP_BYTES,
            false => mss,
        }
    }

    /// The window that a receiver offers, bytes.
    pub(super) fn window(&self, scaled: bool) -> u32 {
        let window = self.tcp_rmem / 2;
        match scaled {
            true => window,
            false => window.min(UNSCALED),
        }
    }

    /// The shift of that window: it has to do for the largest buffer.
    pub(super) fn window_shift(&self) -> u8 {
        let fits = |shift: &u8| u64::from(UNSCALED) << shift >= u64::from(self.tcp_rmem);
        (0..14).find(fits).unwrap_or(14)
    }

    /// Pairs of nodes.
    pub(super) fn links(&self) -> u32 {
        self.nodes * (self.nodes - 1) / 2
    }

    /// What is asked of one direction of a data socket, bytes per second.
    pub(super) fn asked(&self) -> f64 {
        self.throughput * 1e6 / f64::from(self.links()) / 2.0 / f64::from(self.data_sockets)
    }

    pub(super) fn message_bytes(&self) -> u64 {
        (self.message * 1_024.0).round() as u64
    }

    /// Time between two messages of one direction of a data socket, ns; `None` when there are none.
    pub(super) fn message_every_ns(&self) -> Option<u64> {
        let every = self.message_bytes() as f64 / self.asked() * S as f64;
        (every < NEVER_NS).then_some((every as u64).max(1))
    }

    pub(super) fn start_ns(&self) -> u64 {
        ns(self.start, MS)
    }

    pub(super) fn spread_ns(&self) -> u64 {
        ns(self.start_spread, MS)
    }

    pub(super) fn connect_interval_ns(&self) -> u64 {
        ns(self.connect_interval, US)
    }

    pub(super) fn handshake_ns(&self) -> u64 {
        ns(self.handshake_rtt, US)
    }

    pub(super) fn jitter_ns(&self) -> u64 {
        ns(self.handshake_jitter, US)
    }

    pub(super) fn accept_ns(&self) -> u64 {
        ns(self.accept_time, US)
    }

    pub(super) fn rtt_ns(&self) -> u64 {
        ns(self.loaded_rtt, US)
    }

    /// How long a window of so many bytes is on its way until all of it is acknowledged, ns.
    pub(super) fn round_ns(&self, bytes: u64) -> u64 {
        let sending = bytes as f64 * 1e3 / self.line_rate;
        self.rtt_ns().max(sending as u64)
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.duration * S
    }
}

/// What comes less often than once a year does not come, ns.
const NEVER_NS: f64 = 3e16;
/// More sockets than this are no mesh that anybody has.
const MOST_SOCKETS: u32 = 20_000;

fn ns(value: f64, unit: u64) -> u64 {
    (value * unit as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::MODEL;
    use super::super::testing::{params, try_params};
    use super::*;

    #[test]
    fn windows_and_segments_are_those_of_the_article() {
        let p = params(&[]);
        // Its slow socket has segments of 1,440 bytes, the others wscale:7,7.
        assert_eq!((p.announced_mss(), p.window_shift()), (1_440, 7));
        assert_eq!((p.window(true), p.window(false)), (3_145_728, 65_535));
        let p = params(&["family=4", "tcp_timestamps=1", "tcp_rmem=40000"]);
        assert_eq!(p.payload(p.announced_mss()), 1_448);
        assert_eq!((p.window(false), p.window_shift()), (20_000, 0));
        assert_eq!(params(&["tcp_rmem=1073741824"]).window_shift(), 14);
    }

    #[test]
    fn the_load_is_spread_over_the_links() {
        let p = params(&[]);
        assert_eq!(p.links(), 6);
        assert!((p.asked() - 208.33e6).abs() < 1e4, "{}", p.asked());
        assert_eq!(p.message_every_ns(), Some(5_033_164));
        assert_eq!(params(&["throughput=0"]).message_every_ns(), None);
    }

    #[test]
    fn somaxconn_cuts_the_backlog() {
        let p = params(&["backlog=4096"]);
        assert_eq!((p.queue_limit(), p.most_requests()), (128, 128));
        let p = params(&["later_rule=1"]);
        assert_eq!((p.queue_limit(), p.most_requests()), (5, 6));
    }

    #[test]
    fn values_that_do_not_go_together_are_one_line() {
        for (set, says) in [
            (&["family=5"][..], "family=5: allowed is 4 or 6"),
            (&["data_sockets=7"], "data_sockets=7: allowed is 1 to 6"),
            (&["nodes=64", "sockets=9"], "sockets=9: allowed is 1 to 4"),
            (&["backlog=-1"], "backlog=-1: allowed is 0 to 65535, whole"),
            (&["nodes=1"], "nodes=1: allowed is 2 to 64, whole"),
            (&["loss=0.6"], "loss=0.6: allowed is 0 to 0.5"),
            (
                &["loaded_rtt=0"],
                "loaded_rtt=0: allowed is 10 to 1000000 us",
            ),
            (&["listen=5"], "linux-syn-queue has no parameter `listen`"),
        ] {
            let error = try_params(set).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }

    #[test]
    fn presets_are_sound() {
        let parameters = MODEL.parameters().unwrap();
        for preset in &parameters.presets {
            Params::of(&parameters.preset(&preset.name).unwrap()).unwrap();
        }
    }
}
