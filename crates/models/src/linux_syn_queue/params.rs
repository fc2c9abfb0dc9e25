//! The parameters of the model, and what follows from them.

use crate::Error;
use crate::parameters::params;

params! {
    /// The parameters of linux-syn-queue. Tunings have the kernel's own names, without net.ipv4 and
    /// net.core.
    pub(super) struct Params {
        // The mesh.

        /// Nodes of the cluster: each connects to each other one, and listens for all of them.
        pub(super) nodes: u32 = 4 in 2..=64;

        /// Sockets that a node opens to each other node. The article does not say how many.
        pub(super) sockets: u32 = 3 in 1..=64;

        /// When the first node can begin to connect.
        start: f64 = 100.0 in 0.0..=10_000.0, "ms";

        /// Each node begins at a random moment within this time (even). The article does not say.
        start_spread: f64 = 3.0 in 0.0..=10_000.0, "ms";

        /// A node calls connect() at this interval, without waiting: to one peer after the other,
        /// in the order of the list that all nodes have.
        connect_interval: f64 = 20.0 in 0.0..=1_000_000.0, "us";

        /// From a SYN to the ACK that ends its handshake, on an idle path.
        handshake_rtt: f64 = 100.0 in 0.0..=1_000_000.0, "us";

        /// A handshake takes up to so much longer (even): the time of the connecting host.
        handshake_jitter: f64 = 50.0 in 0.0..=1_000_000.0, "us";

        /// The server's one thread takes a connection off the accept queue in this time.
        accept_time: f64 = 10.0 in 0.0..=10_000_000.0, "us";

        /// The mesh is formed so many times, as in a series of test runs; the shares of runs are of
        /// these.
        pub(super) runs: u32 = 200 in 1..=100_000;

        /// The run that is told second by second and recorded. 0: the first; 1: the first in which
        /// the data of a link go over a socket that lost its options; 2: the first in which no
        /// socket did. The first where there is none.
        pub(super) shown: u64 = 1 in 0..=2;

        // The load, once the mesh is there.

        /// How long is simulated.
        pub(super) duration: u64 = 10 in 1..=3_600, "s";

        /// What is asked of the cluster, and reached when nothing holds it up: each link, which is
        /// a pair of nodes, gets the same share, half of it in each direction. 200 to 300 MB/s are
        /// a tenth of it in the article.
        throughput: f64 = 2_500.0 in 0.0..=100_000.0, "MB/s";

        /// Sockets of a link that its data go over, in equal shares, drawn from those that either
        /// node opened; the others stay idle. An assumption: the article saw three that were busy
        /// on a node.
        pub(super) data_sockets: u32 = 1 in 1..=128;

        /// Bytes of one remote procedure call in its main direction. The article does not say;
        /// taken so large that the others' windows grow as far beyond 65,535 bytes as it reports,
        /// for which 640 kB do.
        message: f64 = 1_024.0 in 1.0..=1_048_576.0, "KiB";

        /// Calls that may wait in one direction of a socket; while they do, no further one is made.
        pub(super) outstanding: u32 = 4 in 1..=1_024;

        /// Round trip under load. That of the slow socket which the article prints.
        loaded_rtt: f64 = 541.0 in 10.0..=1_000_000.0, "us";

        /// A window is sent no faster than this.
        line_rate: f64 = 5_000.0 in 1.0..=1_000_000.0, "MB/s";

        /// Probability that a segment is lost, or is the first of a burst, at random. The sockets
        /// that the article prints had sent 0.003 % and 0.05 % of their segments again, over weeks;
        /// when, it does not say. None is assumed because evenly spread losses of the second size
        /// keep all windows small, and then the article's ratio of windows does not come out.
        pub(super) loss: f64 = 0.0 in 0.0..=0.5;

        /// Segments lost in a row.
        pub(super) loss_burst: u32 = 1 in 1..=1_000;

        // The kernel.

        /// What the server gives to listen(): the limit of both queues.
        backlog: u32 = 5 in 0..=65_535;

        /// Cuts every backlog (net.core).
        pub(super) somaxconn: u32 = 128 in 1..=65_535;

        /// When the request queue is full. 0: at so many requests as the backlog says, as in Linux
        /// until the end of 2024; 1: at one more, as today.
        later_rule: u64 = 0 in 0..=1;

        /// 0: a full request queue drops SYNs; 1: it answers with cookies; 2: always cookies.
        pub(super) tcp_syncookies: u64 = 1 in 0..=2;

        /// Without cookies, the last quarter of so many requests is kept for peers that are known.
        pub(super) tcp_max_syn_backlog: u32 = 1_024 in 1..=1_000_000;

        /// 0: SYNs carry no timestamp, in which alone a cookie keeps SACK and window scaling; 1, 2:
        /// they do.
        pub(super) tcp_timestamps: u64 = 0 in 0..=2;

        /// 1: SACK is offered.
        tcp_sack: u64 = 1 in 0..=1;

        /// 1: window scaling is offered.
        tcp_window_scaling: u64 = 1 in 0..=1;

        /// Largest receive buffer (the third value); half of it is offered as window.
        pub(super) tcp_rmem: u32 = 6_291_456 in 4_096..=1_073_741_824, "bytes";

        /// IPv4 or IPv6: 4 or 6.
        pub(super) family: u8 = 6 in 4..=6;

        /// Of the path. The segment size is 60 less with IPv6, 40 less with IPv4; timestamps take
        /// another 12.
        mtu: u32 = 1_500 in 1_280..=65_535, "bytes";
    }
}

/// A window without scaling: the header's field has 16 bits.
pub(super) const UNSCALED: u32 = 65_535;
/// The timestamp option takes so much of every segment, padding included, bytes.
const TIMESTAMP_BYTES: u32 = 12;

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000_000_000;

impl Params {
    /// Whether the values go together; the error says which do not.
    pub(super) fn together(&self) -> Result<(), Error> {
        Error::together(
            self.family != 5,
            format!("family={}: allowed is 4 or 6", self.family),
        )?;
        Error::together(
            self.data_sockets <= 2 * self.sockets,
            format!(
                "data_sockets={}: allowed is 1 to {}, the sockets that both nodes of a link open",
                self.data_sockets,
                2 * self.sockets
            ),
        )?;
        let mesh = self.nodes * (self.nodes - 1) * self.sockets;
        Error::together(
            mesh <= MOST_SOCKETS,
            format!(
                "sockets={}: allowed is 1 to {}, as {} nodes have at most {MOST_SOCKETS} in all",
                self.sockets,
                MOST_SOCKETS / (self.nodes * (self.nodes - 1)),
                self.nodes
            ),
        )?;
        Ok(())
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
        if self.timestamps() {
            mss - TIMESTAMP_BYTES
        } else {
            mss
        }
    }

    /// The window that a receiver offers, bytes.
    pub(super) fn window(&self, scaled: bool) -> u32 {
        let window = self.tcp_rmem / 2;
        if scaled { window } else { window.min(UNSCALED) }
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
    use super::*;
    use crate::simulation::Simulation;
    use crate::testing::Set;

    #[test]
    fn windows_and_segments_are_those_of_the_article() {
        let p = Params::with(&[]);
        // Its slow socket has segments of 1,440 bytes, the others wscale:7,7.
        assert_eq!((p.announced_mss(), p.window_shift()), (1_440, 7));
        assert_eq!((p.window(true), p.window(false)), (3_145_728, 65_535));
        let p = Params::with(&["family=4", "tcp_timestamps=1", "tcp_rmem=40000"]);
        assert_eq!(p.payload(p.announced_mss()), 1_448);
        assert_eq!((p.window(false), p.window_shift()), (20_000, 0));
        assert_eq!(Params::with(&["tcp_rmem=1073741824"]).window_shift(), 14);
    }

    #[test]
    fn the_load_is_spread_over_the_links() {
        let p = Params::with(&[]);
        assert_eq!(p.links(), 6);
        assert!((p.asked() - 208.33e6).abs() < 1e4, "{}", p.asked());
        assert_eq!(p.message_every_ns(), Some(5_033_164));
        assert_eq!(Params::with(&["throughput=0"]).message_every_ns(), None);
    }

    #[test]
    fn somaxconn_cuts_the_backlog() {
        let p = Params::with(&["backlog=4096"]);
        assert_eq!((p.queue_limit(), p.most_requests()), (128, 128));
        let p = Params::with(&["later_rule=1"]);
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
            let error = Params::refused(set);
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
