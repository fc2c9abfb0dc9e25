//! What sockets are: samples of connections and listeners, who holds them, the ports they use.

use crate::table::table;
use crate::vocabulary::TcpState;
use crate::{Addr, Text};

table! {
    /// One sample of a socket that is not a listener. The first sample of a namespace holds every socket; later ones leave out connections that neither sent nor received nor have anything in flight, and TIME_WAIT, which the end of a connection in `event` tells. A model's recording holds each TIME_WAIT once, in the first sample that finds it.
    Socket = "socket" {
        /// When it was sampled.
        time_ns: u64, Ns;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// The socket, as in `event`.
        sock: u64, Id;
        /// Inode of the socket's file, as in `holder`.
        inode: Option<u64>, Id, null "no file: orphaned, not yet accepted, TIME_WAIT or a request";
        /// 4 or 6.
        family: u8, Id;
        /// State.
        state: TcpState, Name;
        /// Local address.
        local_addr: Addr, Address;
        /// Local port.
        local_port: u16, Id;
        /// Remote address.
        remote_addr: Addr, Address;
        /// Remote port.
        remote_port: u16, Id;
        /// Everything below `tcp_info` knows; null for TIME_WAIT and for requests.
        congestion: Option<Text>, Name, null "TIME_WAIT or a request (SYN_RECV without a full socket)";
        /// Congestion state: Open, Disorder, CWR, Recovery or Loss.
        ca_state: Option<Text>, Name, null "as for congestion";
        /// SACK agreed on.
        sack: Option<bool>, Flag, null "as for congestion";
        /// Window scaling agreed on.
        window_scaling: Option<bool>, Flag, null "as for congestion";
        /// Timestamps agreed on.
        timestamps: Option<bool>, Flag, null "as for congestion";
        /// ECN agreed on.
        ecn: Option<bool>, Flag, null "as for congestion";
        /// Shift of the peer's window.
        snd_wscale: Option<u8>, Count, null "as for congestion";
        /// Shift of our window.
        rcv_wscale: Option<u8>, Count, null "as for congestion";
        /// Consecutive retransmission timeouts now.
        rto_count: Option<u8>, Count, null "as for congestion";
        /// Keepalive or window probes unanswered.
        probes: Option<u8>, Count, null "as for congestion";
        /// Exponential back-off of the timer.
        backoff: Option<u8>, Count, null "as for congestion";
        /// Retransmission timeout.
        rto_us: Option<u32>, Us, null "as for congestion";
        /// Delayed-ACK timeout.
        ato_us: Option<u32>, Us, null "as for congestion";
        /// Segment size for sending.
        snd_mss: Option<u32>, Bytes, null "as for congestion";
        /// Estimated segment size of the peer.
        rcv_mss: Option<u32>, Bytes, null "as for congestion";
        /// Segment size we advertised.
        advmss: Option<u32>, Bytes, null "as for congestion";
        /// Path MTU.
        pmtu: Option<u32>, Bytes, null "as for congestion";
        /// Segments in flight and not acknowledged.
        unacked: Option<u32>, Segments, null "as for congestion";
        /// Segments selectively acknowledged.
        sacked: Option<u32>, Segments, null "as for congestion";
        /// Segments marked lost.
        lost: Option<u32>, Segments, null "as for congestion";
        /// Retransmitted segments in flight.
        retrans: Option<u32>, Segments, null "as for congestion";
        /// Segments retransmitted since the connection began.
        total_retrans: Option<u32>, Segments, null "as for congestion";
        /// Time since data was last sent.
        last_data_sent_ms: Option<u32>, Ms, null "as for congestion";
        /// Time since data was last received.
        last_data_recv_ms: Option<u32>, Ms, null "as for congestion";
        /// Time since an ACK was last received.
        last_ack_recv_ms: Option<u32>, Ms, null "as for congestion";
        /// Smoothed round-trip time.
        rtt_us: Option<u32>, Us, null "as for congestion";
        /// Its mean deviation.
        rttvar_us: Option<u32>, Us, null "as for congestion";
        /// Least round-trip time within the kernel's window (5 minutes by default).
        min_rtt_us: Option<u32>, Us, null "as for congestion, or none measured yet";
        /// Round-trip time estimated by the receiver.
        rcv_rtt_us: Option<u32>, Us, null "as for congestion";
        /// Receive space estimated for auto-tuning.
        rcv_space: Option<u32>, Bytes, null "as for congestion";
        /// Receiver's slow-start threshold.
        rcv_ssthresh: Option<u32>, Bytes, null "as for congestion";
        /// Slow-start threshold; 2147483647 when never set.
        snd_ssthresh: Option<u32>, Segments, null "as for congestion";
        /// Congestion window.
        cwnd: Option<u32>, Segments, null "as for congestion";
        /// Window the peer advertises, after scaling.
        snd_wnd: Option<u32>, Bytes, null "as for congestion";
        /// Window we advertise, after scaling.
        rcv_wnd: Option<u32>, Bytes, null "as for congestion";
        /// Reordering seen, as a distance.
        reordering: Option<u32>, Segments, null "as for congestion";
        /// Rate at which segments are paced; 18446744073709551615 when not paced.
        pacing_rate: Option<u64>, BytesPerSec, null "as for congestion";
        /// The socket's own ceiling of the pacing rate.
        max_pacing_rate: Option<u64>, BytesPerSec, null "as for congestion";
        /// Segments delivered in the last rate sample.
        rate_delivered: Option<u32>, Segments, null "as for congestion";
        /// Time that this sample took; the delivery rate is rate_delivered × snd_mss ÷ this.
        rate_interval_us: Option<u32>, Us, null "as for congestion";
        /// The rate sample was limited by the application.
        rate_app_limited: Option<bool>, Flag, null "as for congestion";
        /// Bytes sent and acknowledged.
        bytes_acked: Option<u64>, Bytes, null "as for congestion";
        /// Bytes received.
        bytes_received: Option<u64>, Bytes, null "as for congestion";
        /// Bytes sent, retransmissions included.
        bytes_sent: Option<u64>, Bytes, null "as for congestion";
        /// Bytes retransmitted.
        bytes_retrans: Option<u64>, Bytes, null "as for congestion";
        /// Segments sent.
        segs_out: Option<u32>, Segments, null "as for congestion";
        /// Segments received.
        segs_in: Option<u32>, Segments, null "as for congestion";
        /// Segments with data sent.
        data_segs_out: Option<u32>, Segments, null "as for congestion";
        /// Segments with data received.
        data_segs_in: Option<u32>, Segments, null "as for congestion";
        /// Segments delivered, retransmissions included.
        delivered: Option<u32>, Segments, null "as for congestion";
        /// Of those, acknowledged with a congestion mark.
        delivered_ce: Option<u32>, Segments, null "as for congestion";
        /// Duplicate segments that the peer reported (DSACK).
        dsack_dups: Option<u32>, Count, null "as for congestion";
        /// Times that reordering was seen.
        reord_seen: Option<u32>, Count, null "as for congestion";
        /// Segments received out of order.
        rcv_ooopack: Option<u32>, Segments, null "as for congestion";
        /// Bytes written and not sent yet.
        notsent_bytes: Option<u32>, Bytes, null "as for congestion";
        /// Time with data in flight or waiting to be sent.
        busy_us: Option<u64>, Us, null "as for congestion";
        /// Part of it spent waiting for the peer's window.
        rwnd_limited_us: Option<u64>, Us, null "as for congestion";
        /// Part of it spent waiting for send buffer.
        sndbuf_limited_us: Option<u64>, Us, null "as for congestion";
        /// Bytes received and not read by the application.
        recv_queue: Option<u32>, Bytes, null "as for congestion";
        /// Bytes sent or waiting and not acknowledged.
        send_queue: Option<u32>, Bytes, null "as for congestion";
        /// Receive buffer limit (SO_RCVBUF).
        rcvbuf: Option<u32>, Bytes, null "as for congestion";
        /// The application set it (SO_RCVBUF): the kernel does not size it any more.
        rcvbuf_set: Option<bool>, Flag, null "as for congestion; recorded before 0.6 told it";
        /// Send buffer limit (SO_SNDBUF).
        sndbuf: Option<u32>, Bytes, null "as for congestion";
        /// The application set it (SO_SNDBUF): the kernel does not size it any more.
        sndbuf_set: Option<bool>, Flag, null "as for congestion; recorded before 0.6 told it";
        /// Memory charged for received data.
        rmem_alloc: Option<u32>, Bytes, null "as for congestion";
        /// Memory charged for data to send.
        wmem_queued: Option<u32>, Bytes, null "as for congestion";
        /// Packets dropped at this socket.
        drops: Option<u32>, Count, null "as for congestion";
        /// User that owns the socket.
        uid: Option<u32>, Id, null "TIME_WAIT or a request";
        /// cgroup v2 id of the socket.
        cgroup: Option<u64>, Id, null "TIME_WAIT or a request, or the kernel keeps none";
        /// Next sequence number a TIME_WAIT socket expects from its peer.
        tw_rcv_nxt: Option<u32>, Seq, null "not a TIME_WAIT socket";
        /// Initial sequence number of what it sends: `snd_una - bytes_acked`. Both ends of a connection have
        /// the same two, whatever translates their addresses; the end that connected counts its own one less.
        snd_isn: Option<u32>, Seq, null "as for congestion, no handshake yet, or an earlier version";
        /// Initial sequence number of what it receives: `rcv_nxt - bytes_received`.
        rcv_isn: Option<u32>, Seq, null "as for snd_isn";
        /// TCP_NODELAY is set: small segments are sent at once.
        nodelay: Option<bool>, Flag, null "as for congestion, or an earlier version";
        /// TCP_CORK is set: less than a segment is held back until it is taken off, for 200 ms at the most.
        corked: Option<bool>, Flag, null "as for nodelay";
        /// Timeouts after which another flow hash was chosen, and so perhaps another path (ss: rehash).
        timeout_rehash: Option<u16>, Count, null "as for nodelay, or before Linux 5.7";
        /// Retransmission timeouts, SYNs included (ss: total_rto).
        total_rto: Option<u16>, Count, null "as for nodelay, or before Linux 6.7";
        /// Times that it came out of a row of them (ss: total_rto_recoveries).
        total_rto_recoveries: Option<u16>, Count, null "as for total_rto";
        /// Time in such rows, those that have ended (ss: total_rto_time).
        total_rto_time_ms: Option<u32>, Ms, null "as for total_rto";
        /// Segments received with a congestion mark, where Accurate ECN was agreed on (ss: received_ce).
        received_ce: Option<u32>, Segments, null "as for nodelay, or before Linux 6.18";
    }
}

table! {
    /// One sample of a listening socket.
    Listener = "listener" {
        /// When it was sampled.
        time_ns: u64, Ns;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// The socket, as in `event`.
        sock: u64, Id;
        /// Inode of the socket's file, as in `holder`.
        inode: Option<u64>, Id, null "the socket has no file";
        /// 4 or 6; an IPv6 listener on `::` may take IPv4 connections too.
        family: u8, Id;
        /// Address listened on.
        local_addr: Addr, Address;
        /// Port listened on.
        local_port: u16, Id;
        /// Connections that wait for accept() (ss: Recv-Q).
        accept_queue: u32, Count;
        /// The longest that one of them was seen to have waited since the sample before, at 20 looks a second, fewer where there are very many listeners; in whole ticks. Before Linux 5.13 as it was sampled alone.
        accept_wait_ms: Option<u32>, Ms, null "recorded before version 0.6";
        /// Limit of that queue: listen()'s backlog after net.core.somaxconn (ss: Send-Q). One more than this may wait.
        backlog: u32, Count;
        /// Connections in SYN_RECV: their handshake is not complete.
        syn_queue: u32, Count;
        /// Those among them whose SYN-ACK was not retransmitted yet.
        syn_queue_young: u32, Count;
        /// Packets dropped at this listener since it was made.
        drops: u32, Count;
        /// The kernel has logged "Possible SYN flooding" for it.
        synflood_warned: bool, Flag;
        /// SO_REUSEPORT is set.
        reuseport: bool, Flag;
        /// User that owns the socket.
        uid: u32, Id;
        /// cgroup v2 id of the socket.
        cgroup: Option<u64>, Id, null "the kernel keeps none";
    }
}

table! {
    /// A process was seen to hold a socket open. One row per process and socket, when first seen.
    Holder = "holder" {
        /// When it was seen.
        time_ns: u64, Ns;
        /// Inode of the socket's file.
        inode: u64, Id;
        /// Process.
        pid: u32, Id;
        /// Its command name.
        comm: Text, Program;
        /// Lowest file descriptor at which it holds the socket.
        fd: u32, Id;
    }
}

table! {
    /// How many local ports connections to one destination hold, against the range they are chosen from. Only destinations that hold at least 16, or half of a narrower range, or whose listener here holds as many in TIME_WAIT for the client. Counted are sockets whose local port lies in the range and has no listener: those of a server are none that connect() chose. A port that bind() holds without a connection is not seen here, though connect() passes it over, too. The rows of a round carry the same time.
    PortUse = "port_use" {
        /// When it was counted.
        time_ns: u64, Ns;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// 4 or 6; 4 also for an IPv4 connection of an IPv6 socket, which takes its port from the same range.
        family: u8, Id;
        /// Source address.
        local_addr: Addr, Address;
        /// Destination address.
        remote_addr: Addr, Address;
        /// Destination port.
        remote_port: u16, Id;
        /// Local ports of the range in use by sockets to this destination, in whatever state.
        ports_used: u32, Count;
        /// Of those, in TIME_WAIT at this side.
        time_wait: u32, Count;
        /// Of those, ESTABLISHED.
        established: u32, Count;
        /// TIME_WAIT sockets that the destination, a listener of this namespace, holds for connections from the source address, whoever is its client: in use at that side, though not among ports_used. Of more than 4,096 clients, those with the most.
        server_time_wait: Option<u32>, Count, null "an earlier version";
        /// Lowest port of net.ipv4.ip_local_port_range of the namespace; a client elsewhere may have another.
        range_low: u16, Id;
        /// Highest port of the range.
        range_high: u16, Id;
        /// Ports of the range set aside by net.ipv4.ip_local_reserved_ports.
        reserved: u32, Count;
    }
}
