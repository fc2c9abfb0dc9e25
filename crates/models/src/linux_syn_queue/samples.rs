//! What a recorder would have sampled: once at the start, then every second.

use recording::tables::{Listener, Socket as Row};
use recording::{SourceName, TcpState, counter, sysctl};
use synth::{Opening, Sink, settings};

use super::flow::{Done, Flow};
use super::mesh::{Mesh, Socket};
use super::params::US;
use super::record::{Recorder, Side, end, listening, netns, task};
use crate::clock::START_NS;

/// The files of connected sockets.
const CONNECTED_INODE: u64 = 100_000;
/// The retransmission timeout at round trips far below it (TCP_RTO_MIN), µs.
const TIMEOUT_US: u32 = 200_000;
/// One ACK for so many segments.
const PER_ACK: u64 = 2;

/// What is computed, by the names of the recorder's sources.
const COMPUTED: &[(SourceName, &str)] = &[
    (SourceName::States, "changes of state of both ends"),
    (SourceName::Retransmits, "SYNs and data retransmitted"),
    (
        SourceName::SynAckRetransmits,
        "none: data of the client come first",
    ),
    (SourceName::ResetsSent, "none"),
    (SourceName::ResetsReceived, "none"),
    (SourceName::ResetsUnmatched, "none: the ports are open"),
    (
        SourceName::Drops,
        "last ACKs of handshakes that met a full accept queue",
    ),
    (
        SourceName::Symbols,
        "which connections were made from a cookie",
    ),
    (SourceName::Sockets, "listeners and connections"),
    (SourceName::Holders, "who holds the listeners"),
    (
        SourceName::Counters,
        "the kernel's TCP counters that the mechanism moves; an ACK for every second segment",
    ),
    (SourceName::Settings, "the tunings"),
];

impl Recorder<'_> {
    /// What is known before the nodes connect.
    pub(super) fn begin(&mut self) {
        let kernel = if self.p.later_kernel() {
            "6.18"
        } else {
            "4.14"
        };
        let nodes = 0..self.p.nodes;
        let namespaces = nodes.map(|node| (netns(node), format!("node{}", node + 1)));
        self.tables
            .describe((kernel, self.p.nodes), namespaces, COMPUTED);
        for node in 0..self.p.nodes {
            self.settings(node);
            let inode = listening(self.p, node).inode;
            self.tables.add(task(node).holds(START_NS, inode, 3));
        }
        self.listener_samples(0);
        self.counters(0);
    }

    fn settings(&mut self, node: u32) {
        let p = self.p;
        let all = [
            (sysctl::SOMAXCONN, p.somaxconn.to_string()),
            (sysctl::TCP_SYNCOOKIES, p.tcp_syncookies.to_string()),
            (
                sysctl::TCP_MAX_SYN_BACKLOG,
                p.tcp_max_syn_backlog.to_string(),
            ),
            (sysctl::TCP_TIMESTAMPS, p.tcp_timestamps.to_string()),
            (sysctl::TCP_SACK, u32::from(p.sack()).to_string()),
            (
                sysctl::TCP_WINDOW_SCALING,
                u32::from(p.window_scaling()).to_string(),
            ),
            // The first two are the kernel's.
            (sysctl::TCP_RMEM, format!("4096 87380 {}", p.tcp_rmem)),
        ];
        self.tables.extend(settings(START_NS, netns(node), all));
    }

    /// A sample of everything.
    pub(super) fn sample(&mut self, mesh: &Mesh, flows: &[Flow], now_ns: u64) {
        self.listener_samples(now_ns);
        self.sampled.resize(mesh.sockets.len(), [false; 2]);
        self.before.resize(flows.len(), Done::default());
        for (nth, socket) in mesh.sockets.iter().enumerate() {
            let of = |opener| {
                let mut flows = flows.iter();
                flows.find(|f| f.socket == nth && f.from_opener == opener)
            };
            for (side, out, back, since) in [
                (Side::Opener, of(true), of(false), socket.opened_ns),
                (Side::Listener, of(false), of(true), socket.established_ns),
            ] {
                // Idle connections are sampled once.
                let nth_side = usize::from(side == Side::Listener);
                let told = std::mem::replace(&mut self.sampled[nth][nth_side], true);
                let there = since.is_some_and(|at_ns| at_ns <= now_ns);
                if !there {
                    self.sampled[nth][nth_side] = false;
                } else if !told || out.is_some() {
                    let row = self.socket(nth, socket, side, out.zip(back), now_ns);
                    self.tables.add(row);
                }
            }
        }
        self.segments(mesh, flows);
        self.counters(now_ns);
    }

    fn listener_samples(&mut self, now_ns: u64) {
        for node in 0..self.p.nodes {
            let seen = &self.listeners[node as usize];
            self.tables.add(Listener {
                accept_queue: seen.queues.waiting,
                syn_queue: seen.queues.requests,
                syn_queue_young: seen.queues.requests,
                drops: seen.drops,
                synflood_warned: seen.warned,
                ..listening(self.p, node).sample(START_NS + now_ns)
            });
        }
    }

    /// One end: what it sends, and what comes back; neither when it is idle.
    fn socket(
        &self,
        nth: usize,
        socket: &Socket,
        side: Side,
        flows: Option<(&Flow, &Flow)>,
        now_ns: u64,
    ) -> Row {
        let p = self.p;
        let end = end(p, nth, socket, side);
        let mss = match side {
            Side::Opener => p.announced_mss(),
            Side::Listener => socket.agreed.client_mss,
        };
        let scaled = socket.agreed.window_scaling;
        let shift = if scaled { p.window_shift() } else { 0 };
        let handshake_us = (socket.handshake_ns / US) as u32;
        let row = Row {
            inode: Some(CONNECTED_INODE + end.sock),
            congestion: Some("cubic".into()),
            ca_state: Some("Open".into()),
            sack: Some(socket.agreed.sack),
            window_scaling: Some(scaled),
            timestamps: Some(p.timestamps()),
            snd_wscale: Some(shift),
            rcv_wscale: Some(shift),
            rto_us: Some(TIMEOUT_US),
            snd_mss: Some(p.payload(mss)),
            advmss: Some(p.announced_mss()),
            rtt_us: Some(handshake_us),
            min_rtt_us: Some(handshake_us),
            cwnd: Some(Opening::WINDOW),
            snd_wnd: Some(p.window(scaled)),
            rcv_wnd: Some(p.window(scaled)),
            bytes_acked: Some(0),
            bytes_received: Some(0),
            busy_us: Some(0),
            rwnd_limited_us: Some(0),
            recv_queue: Some(0),
            ..end.sample(START_NS + now_ns, TcpState::Established)
        };
        match flows {
            Some((out, back)) => self.sending(row, out, back, now_ns),
            None => row,
        }
    }

    fn sending(&self, row: Row, out: &Flow, back: &Flow, now_ns: u64) -> Row {
        let (busy_ns, limited_ns) = out.busy_ns(now_ns);
        let (segments, took_ns) = out.done.last_round;
        let arrived = |flow: &Flow| flow.done.segments - flow.done.resent;
        let acks = |segments: u64| segments / PER_ACK;
        let waiting = out.waiting();
        Row {
            ca_state: Some(out.state().into()),
            unacked: Some(out.flying_segments() as u32),
            total_retrans: Some(out.done.resent as u32),
            rtt_us: Some((self.p.rtt_ns() / US) as u32),
            snd_ssthresh: Some(out.window.threshold()),
            cwnd: Some(out.window.segments() as u32),
            rate_delivered: Some(segments as u32),
            rate_interval_us: Some((took_ns / US) as u32),
            bytes_acked: Some(out.done.acked),
            bytes_received: Some(back.done.acked),
            bytes_sent: Some(out.done.bytes),
            bytes_retrans: Some(out.done.resent * u64::from(out.payload)),
            segs_out: Some((out.done.segments + acks(arrived(back))) as u32),
            segs_in: Some((arrived(back) + acks(arrived(out))) as u32),
            data_segs_out: Some(out.done.segments as u32),
            data_segs_in: Some(arrived(back) as u32),
            delivered: Some(out.done.acked.div_ceil(u64::from(out.payload)) as u32),
            notsent_bytes: Some((waiting - out.flying()) as u32),
            busy_us: Some(busy_ns / US),
            rwnd_limited_us: Some(limited_ns / US),
            send_queue: Some(waiting as u32),
            ..row
        }
    }

    /// Counts the segments of the data.
    fn segments(&mut self, mesh: &Mesh, flows: &[Flow]) {
        for (nth, flow) in flows.iter().enumerate() {
            let socket = &mesh.sockets[flow.socket];
            let (from, to) = if flow.from_opener {
                (socket.opener, socket.listener)
            } else {
                (socket.listener, socket.opener)
            };
            let before = std::mem::replace(&mut self.before[nth], flow.done.clone());
            let done = &flow.done;
            let sent = done.segments - before.segments;
            let again = done.resent - before.resent;
            let fast = done.fast - before.fast;
            // What was lost is what was retransmitted.
            let arrived = sent - again;
            for (node, name, by) in [
                (from, counter::OUT_SEGS, sent),
                (to, counter::IN_SEGS, arrived),
                (to, counter::OUT_SEGS, arrived / PER_ACK),
                (from, counter::IN_SEGS, arrived / PER_ACK),
                (from, counter::RETRANS_SEGS, again),
                (
                    from,
                    if flow.sack {
                        counter::TCP_SACK_RECOVERY
                    } else {
                        counter::TCP_RENO_RECOVERY
                    },
                    fast,
                ),
                (from, counter::TCP_TIMEOUTS, done.timeouts - before.timeouts),
                (from, counter::TCP_LOSS_PROBES, done.probes - before.probes),
            ] {
                self.counters.count(netns(node), name, by);
            }
        }
    }

    /// The counters that rose; of segments that came in, every sample.
    fn counters(&mut self, now_ns: u64) {
        for node in 0..self.p.nodes {
            self.counters.count(netns(node), counter::IN_SEGS, 0);
        }
        self.tables.extend(self.counters.sample(START_NS + now_ns));
    }
}
