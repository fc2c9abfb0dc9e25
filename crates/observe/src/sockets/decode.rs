//! From the iterator's records to rows of the `socket` and `listener` tables.

use recording::tables::{Listener, Socket};
use recording::{Addr, TcpState, Text};

use crate::kernel::Names;
use crate::wire::{text, tw_bits, tw_listener, tw_socket, tw_socket_tells};

/// Turns records into rows.
pub struct Decoder {
    names: Names,
    /// Length of a jiffy, µs.
    tick_us: u64,
    last_congestion: ([i8; 16], Text),
}

/// TCP_NAGLE_OFF and TCP_NAGLE_CORK of the kernel's `nonagle`.
const NAGLE_OFF: u8 = 1;
const NAGLE_CORK: u8 = 2;

/// "None measured yet" in the kernel's minimum filter.
const NO_MIN_RTT: u32 = u32::MAX;

impl Decoder {
    /// A decoder for the running kernel; `hz` are its ticks per second.
    pub fn new(names: Names, hz: u32) -> Decoder {
        Decoder {
            names,
            tick_us: 1_000_000 / u64::from(hz.max(1)),
            last_congestion: ([0; 16], Text::default()),
        }
    }

    /// A listener's row.
    pub fn listener(&self, l: &tw_listener) -> Listener {
        Listener {
            time_ns: l.time_ns,
            netns: l.netns,
            sock: l.sock,
            inode: nonzero(l.inode),
            family: l.family,
            local_addr: Addr(l.local_addr),
            local_port: l.local_port,
            accept_queue: l.accept_queue,
            accept_wait_ms: Some(self.ticks_us32(l.accept_wait) / 1000),
            backlog: l.backlog,
            syn_queue: l.syn_queue,
            syn_queue_young: l.syn_queue_young,
            drops: l.drops,
            synflood_warned: l.synflood_warned != 0,
            reuseport: l.reuseport != 0,
            uid: l.uid,
            cgroup: nonzero(l.cgroup),
        }
    }

    /// Any other socket's row.
    pub fn socket(&mut self, s: &tw_socket) -> Socket {
        let state = self.names.state(s.state);
        let full = s.full != 0;
        let mut row = Socket {
            time_ns: s.time_ns,
            netns: s.netns,
            sock: s.sock,
            inode: nonzero(s.inode),
            family: s.family,
            local_addr: Addr(s.local_addr),
            local_port: s.local_port,
            remote_addr: Addr(s.remote_addr),
            remote_port: s.remote_port,
            tw_rcv_nxt: (state == TcpState::TimeWait).then_some(s.tw_rcv_nxt),
            state,
            ..Socket::default()
        };
        if full {
            self.tcp_info(s, &mut row);
        }
        row
    }

    fn tcp_info(&mut self, s: &tw_socket, row: &mut Socket) {
        let option = |bit: tw_bits| Some(u32::from(s.options) & bit.0 != 0);
        row.congestion = Some(self.congestion(&s.congestion));
        row.ca_state = Some(self.names.ca_state(s.ca_state));
        row.sack = option(tw_bits::TW_SACK);
        row.window_scaling = option(tw_bits::TW_WSCALE);
        row.timestamps = option(tw_bits::TW_TIMESTAMPS);
        row.ecn = Some(s.ecn != 0);
        row.nodelay = Some(s.nonagle & NAGLE_OFF != 0);
        row.corked = Some(s.nonagle & NAGLE_CORK != 0);
        let tells = |what: tw_socket_tells| u32::from(s.tells) & what.0 != 0;
        row.timeout_rehash = tells(tw_socket_tells::TW_TELLS_REHASH).then_some(s.timeout_rehash);
        let rto = tells(tw_socket_tells::TW_TELLS_RTO);
        row.total_rto = rto.then_some(s.total_rto);
        row.total_rto_recoveries = rto.then_some(s.total_rto_recoveries);
        row.total_rto_time_ms = rto.then_some(s.total_rto_time);
        row.received_ce = tells(tw_socket_tells::TW_TELLS_ACCECN).then_some(s.received_ce);
        row.snd_wscale = Some(s.snd_wscale);
        row.rcv_wscale = Some(s.rcv_wscale);
        row.rto_count = Some(s.rto_count);
        row.probes = Some(s.probes);
        row.backoff = Some(s.backoff);
        row.rto_us = Some(self.ticks_us32(s.rto));
        row.ato_us = Some(self.ticks_us32(s.ato));
        row.snd_mss = Some(s.snd_mss);
        row.rcv_mss = Some(s.rcv_mss);
        row.advmss = Some(s.advmss);
        row.pmtu = Some(s.pmtu);
        row.unacked = Some(s.unacked);
        row.sacked = Some(s.sacked);
        row.lost = Some(s.lost);
        row.retrans = Some(s.retrans);
        row.total_retrans = Some(s.total_retrans);
        row.last_data_sent_ms = Some(self.ticks_us32(s.since_data_sent) / 1000);
        row.last_data_recv_ms = Some(self.ticks_us32(s.since_data_recv) / 1000);
        row.last_ack_recv_ms = Some(self.ticks_us32(s.since_ack_recv) / 1000);
        row.rtt_us = Some(s.rtt_us);
        row.rttvar_us = Some(s.rttvar_us);
        row.min_rtt_us = (s.min_rtt_us != NO_MIN_RTT).then_some(s.min_rtt_us);
        row.rcv_rtt_us = Some(s.rcv_rtt_us);
        row.rcv_space = Some(s.rcv_space);
        row.rcv_ssthresh = Some(s.rcv_ssthresh);
        row.snd_ssthresh = Some(s.snd_ssthresh);
        row.cwnd = Some(s.cwnd);
        row.snd_wnd = Some(s.snd_wnd);
        row.rcv_wnd = Some(s.rcv_wnd);
        row.reordering = Some(s.reordering);
        row.pacing_rate = Some(s.pacing_rate);
        row.max_pacing_rate = Some(s.max_pacing_rate);
        row.rate_delivered = Some(s.rate_delivered);
        row.rate_interval_us = Some(s.rate_interval_us);
        row.rate_app_limited = Some(s.app_limited != 0);
        row.bytes_acked = Some(s.bytes_acked);
        row.bytes_received = Some(s.bytes_received);
        row.bytes_sent = Some(s.bytes_sent);
        row.bytes_retrans = Some(s.bytes_retrans);
        row.segs_out = Some(s.segs_out);
        row.segs_in = Some(s.segs_in);
        row.data_segs_out = Some(s.data_segs_out);
        row.data_segs_in = Some(s.data_segs_in);
        row.delivered = Some(s.delivered);
        row.delivered_ce = Some(s.delivered_ce);
        row.dsack_dups = Some(s.dsack_dups);
        row.reord_seen = Some(s.reord_seen);
        row.rcv_ooopack = Some(s.rcv_ooopack);
        row.notsent_bytes = Some(s.notsent_bytes);
        row.busy_us = Some(u64::from(s.busy) * self.tick_us);
        row.rwnd_limited_us = Some(u64::from(s.rwnd_limited) * self.tick_us);
        row.sndbuf_limited_us = Some(u64::from(s.sndbuf_limited) * self.tick_us);
        row.recv_queue = Some(s.recv_queue);
        row.send_queue = Some(s.send_queue);
        // Before the handshake has ended there is only one of them.
        if !matches!(row.state, TcpState::SynSent | TcpState::SynRecv) {
            row.snd_isn = Some(s.snd_isn);
            row.rcv_isn = Some(s.rcv_isn);
        }
        row.rcvbuf = Some(s.rcvbuf);
        row.sndbuf = Some(s.sndbuf);
        row.rcvbuf_set = Some(s.rcvbuf_set != 0);
        row.sndbuf_set = Some(s.sndbuf_set != 0);
        row.rmem_alloc = Some(s.rmem_alloc);
        row.wmem_queued = Some(s.wmem_queued);
        row.drops = Some(s.drops);
        row.uid = Some(s.uid);
        row.cgroup = nonzero(s.cgroup);
    }

    fn ticks_us32(&self, ticks: u32) -> u32 {
        u32::try_from(u64::from(ticks) * self.tick_us).unwrap_or(u32::MAX)
    }

    /// Most sockets use the same algorithm: remember the last name.
    fn congestion(&mut self, name: &[i8; 16]) -> Text {
        if self.last_congestion.0 != *name {
            self.last_congestion = (*name, text(name).into());
        }
        self.last_congestion.1.clone()
    }
}

fn nonzero(id: u64) -> Option<u64> {
    (id != 0).then_some(id)
}
