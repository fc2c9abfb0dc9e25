//! Every table of a recording, declared once: row, columns, units, what null means.
//!
//! Raw in, derived out: the tables hold what the kernel said; rates and judgements are computed
//! by readers. Names of states and reasons are the running kernel's own.

use crate::cell::{Addr, Text};
use crate::table::{Table, TableInfo, table};

/// All tables, in the order of the documentation.
pub const ALL: &[TableInfo] = &[
    Event::INFO,
    Socket::INFO,
    Listener::INFO,
    Holder::INFO,
    Process::INFO,
    Counter::INFO,
    Setting::INFO,
    Health::INFO,
];

table! {
    /// One thing the kernel did to a TCP connection, in the order in which it happened.
    Event = "event" {
        /// When it happened.
        time_ns: u64, Ns;
        /// `state` (the socket changed state), `retransmit`, `synack-retransmit`, `reset-sent`, `reset-received` or `drop` (a TCP packet was thrown away).
        kind: Text, Name;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// The socket, the same value in every table until it is closed; not an address.
        sock: Option<u64>, Id, null "no socket was involved";
        /// 4 or 6. An IPv4 connection of an IPv6 socket counts as 6 and has v4-mapped addresses.
        family: u8, Id;
        /// Address of the side that acted; for a drop, the packet's destination.
        local_addr: Addr, Address;
        /// Port of that side; 0 while a connecting socket has none yet.
        local_port: u16, Id;
        /// Address of the other side; for a drop, the packet's source.
        remote_addr: Addr, Address;
        /// Port of the other side; 0 for a listener.
        remote_port: u16, Id;
        /// State of the socket: after the change for `state`, of the receiving socket for `drop`.
        state: Option<Text>, Name, null "no socket was involved";
        /// State before the change.
        old_state: Option<Text>, Name, null "not a state change";
        /// The kernel's name for the reason of a drop or a reset.
        reason: Option<Text>, Name, null "not a drop or reset, or the kernel gives no reason";
        /// The kernel function that dropped the packet or sent the reset.
        location: Option<Text>, Name, null "not a drop or reset sent, or its symbol is unknown";
        /// What sent a retransmission: `rto` (timer), `tlp` (tail loss probe), `fast` (ACKs), `rack` (reordering timer); `other` for none of these.
        retransmit_kind: Option<Text>, Name, null "not a retransmission, or kernel symbols cannot be read";
        /// Which retransmission of the segment in a row this is; the first is 1.
        attempt: Option<u32>, Count, null "not a retransmission";
        /// TCP flags of the packet as in its header (FIN 1, SYN 2, RST 4, PSH 8, ACK 16).
        flags: Option<u8>, Id, null "no packet was at hand";
        /// Sequence number of the packet.
        seq: Option<u32>, Seq, null "no packet was at hand";
        /// Process that called connect() or listen().
        pid: Option<u32>, Id, null "not a connect or listen: the process on the CPU is not the owner";
        /// Its command name.
        comm: Option<Text>, Name, null "as for pid";
        /// Its cgroup v2 id.
        cgroup: Option<u64>, Id, null "as for pid";
        /// Limit given to listen(), after net.core.somaxconn.
        backlog: Option<u32>, Count, null "not a listen";
        /// The connection was made from a SYN cookie.
        cookie: Option<bool>, Flag, null "not the establishment of an accepted connection, or kernel symbols cannot be read";
        /// SACK was agreed on.
        sack: Option<bool>, Flag, null "not the establishment of a connection";
        /// Window scaling was agreed on.
        window_scaling: Option<bool>, Flag, null "not the establishment of a connection";
        /// Timestamps were agreed on.
        timestamps: Option<bool>, Flag, null "not the establishment of a connection";
        /// Segment size for sending.
        mss: Option<u32>, Bytes, null "not the establishment of a connection";
        /// Smoothed round-trip time; 0 when none was measured.
        rtt_us: Option<u32>, Us, null "not the establishment or end of a connection, nor a retransmission";
        /// Congestion window.
        cwnd: Option<u32>, Segments, null "as for rtt_us";
        /// Segments retransmitted so far by this socket.
        retransmits: Option<u32>, Segments, null "as for rtt_us";
        /// Bytes sent and acknowledged over the connection's life.
        bytes_acked: Option<u64>, Bytes, null "not the end of a connection";
        /// Bytes received over the connection's life.
        bytes_received: Option<u64>, Bytes, null "not the end of a connection";
    }
}

table! {
    /// One sample of a socket that is not a listener. The first sample of a namespace holds every socket; later ones leave out connections that neither sent nor received nor have anything in flight, and TIME_WAIT, which the end of a connection in `event` tells.
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
        /// State, the kernel's name.
        state: Text, Name;
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
        /// Send buffer limit (SO_SNDBUF).
        sndbuf: Option<u32>, Bytes, null "as for congestion";
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
        /// Limit of that queue: listen()'s backlog after net.core.somaxconn (ss: Send-Q). One more than this may wait.
        backlog: u32, Count;
        /// Half-open connections: SYN received, handshake not complete.
        syn_queue: u32, Count;
        /// Those among them whose SYN-ACK was not sent again yet.
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
        comm: Text, Name;
        /// Lowest file descriptor at which it holds the socket.
        fd: u32, Id;
    }
}

table! {
    /// One sample of a process that holds a listening socket.
    Process = "process" {
        /// When it was sampled.
        time_ns: u64, Ns;
        /// Process.
        pid: u32, Id;
        /// Its parent.
        ppid: u32, Id;
        /// Command name.
        comm: Text, Name;
        /// Command line, arguments joined by spaces, cut at 512 characters.
        cmdline: Text, Name;
        /// Scheduler state of its main thread: R running, S sleeping, D uninterruptible, T stopped, t traced, Z zombie.
        state: Text, Name;
        /// CPU time in user mode since it started.
        user_ms: u64, Ms;
        /// CPU time in the kernel since it started.
        system_ms: u64, Ms;
        /// Time its main thread waited for a CPU since it started.
        runqueue_ms: Option<u64>, Ms, null "the kernel keeps no schedstat";
        /// File descriptors it may open (RLIMIT_NOFILE, soft).
        fd_limit: Option<u64>, Count, null "unlimited or not readable";
        /// cgroup v2 path.
        cgroup_path: Text, Name;
    }
}

table! {
    /// A network counter of a namespace: all that are not zero in the first sample, then each that changed.
    Counter = "counter" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// Group: Ip, Icmp, Tcp, TcpExt, IpExt, MPTcpExt.
        group: Text, Name;
        /// Name, the kernel's.
        name: Text, Name;
        /// Value since the namespace was made.
        value: i64, Count;
        /// Change since the previous sample.
        delta: Option<i64>, Count, null "the first sample of a namespace that is older than the recording: there is nothing to compare with";
    }
}

table! {
    /// A setting that matters to TCP: all at the start, then each that changed.
    Setting = "setting" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace; 0 for settings of the whole host.
        netns: u32, Id;
        /// Name, as sysctl prints it.
        name: Text, Name;
        /// Value, blanks folded.
        value: Text, Name;
    }
}

table! {
    /// What the recorder says of itself: losses and changes of plan.
    Health = "health" {
        /// When it was noticed.
        time_ns: u64, Ns;
        /// Source concerned.
        source: Text, Name;
        /// `lost` (count records), `partial` (something could not be read), `slowed` (sampled less often).
        what: Text, Name;
        /// How many.
        count: u64, Count;
        /// In plain words.
        detail: Text, Name;
    }
}
