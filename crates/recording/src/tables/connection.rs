//! What happens to connections: events, control packets, system calls.

use crate::table::table;
use crate::vocabulary::{CallKind, EventKind, RetransmitKind, TcpState};
use crate::{Addr, Text};

table! {
    /// One thing the kernel did to a TCP connection, in the order in which it happened. A connection that opens and ends within a segment, and had nothing retransmitted, is one row, its end, with `connect_ns` and `established_ns`: on a host that opens thousands a second that halves what recording costs.
    Event = "event" {
        /// When it happened.
        time_ns: u64, Ns;
        /// What happened.
        kind: EventKind, Name;
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
        state: Option<TcpState>, Name, null "no socket was involved";
        /// State before the change.
        old_state: Option<TcpState>, Name, null "not a state change";
        /// The kernel's name for the reason of a drop or a reset.
        reason: Option<Text>, Name, null "not a drop or reset, or the kernel gives no reason";
        /// The kernel function that dropped the packet.
        location: Option<Text>, Name, null "not a drop, or its symbol is unknown";
        /// What made the kernel retransmit.
        retransmit_kind: Option<RetransmitKind>, Name, null "not a retransmission, or kernel symbols cannot be read";
        /// Which retransmission of the segment in a row this is; the first is 1.
        attempt: Option<u32>, Count, null "not a retransmission";
        /// What sending the retransmission returned: `0` when it was sent; the name of an error (`EBUSY`: the original still waits in a queue of this host) when it was not; `NET_XMIT_DROP` when a queueing discipline dropped it.
        send_error: Option<Text>, Name, null "not a retransmission, or the kernel does not tell (Linux 6.18 does)";
        /// TCP flags of the packet as in its header (FIN 1, SYN 2, RST 4, PSH 8, ACK 16).
        flags: Option<u8>, Id, null "no packet was at hand";
        /// Sequence number of the packet.
        seq: Option<u32>, Seq, null "no packet was at hand";
        /// Process that called connect() or listen().
        pid: Option<u32>, Id, null "not a connect or listen: the process on the CPU is not the owner";
        /// Its command name.
        comm: Option<Text>, Program, null "as for pid";
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
        /// Bytes that its program had written and the other side had not acknowledged when it ended; a FIN counts as one.
        bytes_unacked: Option<u32>, Bytes, null "not the end of a connection";
        /// The name of the error that ended it (`ECONNREFUSED`, `EHOSTUNREACH`, `ETIMEDOUT`), whoever caused it: a reset, an ICMP message, a timer. Of one that its program closed, what an ICMP message had said before. Of a connect that a route rejects, what connect() returns.
        error: Option<Text>, Name, null "not the end of a connection, or no error was met";
        /// Kernel stack from which a reset was sent, as in `stack`.
        stack: Option<u64>, Id, null "not a reset sent";
        /// When connect() was called; `pid`, `comm` and `cgroup` are then of that moment.
        connect_ns: Option<u64>, Ns, null "the row is not a whole life, or the connection was accepted";
        /// When the connection was established; the options agreed on, `mss` and `cookie` are then of that moment. Nothing was retransmitted until then.
        established_ns: Option<u64>, Ns, null "the row is not a whole life";
    }
}

table! {
    /// One control packet seen on the wire of a namespace: SYN, SYN-ACK, RST or FIN, with the TCP options it carried. A packet that crosses several interfaces appears at each, one on loopback as it leaves and again as it comes in. Packets are seen before a firewall drops what comes in, and after it has dropped what leaves.
    Packet = "packet" {
        /// When it was seen.
        time_ns: u64, Ns;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// Index of the interface within the namespace.
        ifindex: u32, Id;
        /// It was leaving the host (false: coming in).
        outgoing: bool, Flag;
        /// 4 or 6.
        family: u8, Id;
        /// Source address.
        src_addr: Addr, Address;
        /// Source port.
        src_port: u16, Id;
        /// Destination address.
        dst_addr: Addr, Address;
        /// Destination port.
        dst_port: u16, Id;
        /// TCP flags as in the header (FIN 1, SYN 2, RST 4, PSH 8, ACK 16).
        flags: u8, Id;
        /// Sequence number.
        seq: u32, Seq;
        /// Acknowledgment number.
        ack: u32, Seq;
        /// Window as in the header, not scaled.
        window: u16, Count;
        /// Time to live, or hop limit.
        ttl: u8, Count;
        /// Payload. Segments that the host merged, or has yet to split, are one packet here.
        payload: u32, Bytes;
        /// Maximum segment size offered.
        mss: Option<u16>, Bytes, null "the packet has no such option";
        /// Window scaling offered: the shift.
        window_scale: Option<u8>, Count, null "the packet has no such option";
        /// SACK permitted.
        sack_permitted: bool, Flag;
        /// Timestamp value.
        tsval: Option<u32>, Count, null "the packet has no timestamps option";
        /// Timestamp echo reply.
        tsecr: Option<u32>, Count, null "the packet has no timestamps option";
    }
}

table! {
    /// One system call on a TCP socket that took at least as long as the threshold or failed; every listen(); and waits for many sockets (`epoll_wait`, `poll`, `select`), whatever they wait for.
    /// A call that would have to wait (EAGAIN), goes on by itself (EINPROGRESS) or was interrupted (EINTR, ERESTART…) has not failed: it is here only if it took long. A call has a row once it returns: one that lasts beyond the end of the recording has none, nor has one that began before. Calls of 32-bit programs, and those made through io_uring, are not seen. Before Linux 6.6 the time that close() lingers comes after what can be seen.
    Call = "call" {
        /// When it returned.
        time_ns: u64, Ns;
        /// Process.
        pid: u32, Id;
        /// Thread.
        tid: u32, Id;
        /// Command name of the thread.
        comm: Text, Program;
        /// cgroup v2 id of the thread.
        cgroup: u64, Id;
        /// Network namespace of the socket; of the thread when there is no socket.
        netns: u32, Id;
        /// The family of calls, by its best-known name.
        call: CallKind, Name;
        /// How long it took.
        duration_ns: u64, Ns;
        /// The name of its error (`EADDRNOTAVAIL`, `EINPROGRESS`). `ERESTARTSYS` and the like stay within the kernel: the call begins again, or the program gets EINTR.
        error: Option<Text>, Name, null "it succeeded";
        /// What it returned: bytes, a file descriptor, a number of events.
        result: Option<i64>, Count, null "it failed";
        /// File descriptor it was called on.
        fd: Option<i32>, Id, null "the call takes none";
        /// The socket it was called on, as in `event`; of accept() the listener.
        sock: Option<u64>, Id, null "a wait for many sockets";
        /// 4 or 6, as in `event`; 0 when no address is known.
        family: u8, Id;
        /// Local address; unspecified when not known. Of a bind() that failed, the address asked for.
        local_addr: Addr, Address;
        /// Local port; 0 when not known.
        local_port: u16, Id;
        /// Remote address; unspecified when not known. Of accept(), that of the accepted connection.
        remote_addr: Addr, Address;
        /// Remote port; 0 when not known.
        remote_port: u16, Id;
        /// The backlog asked for, before net.core.somaxconn.
        backlog: Option<i32>, Count, null "not a listen()";
        /// Of the duration of connect(): from the choice of the route to the first SYN, i.e. the search for a free local port; with EADDRNOTAVAIL, until the search was given up. (A bind() to port 0 searches as long as it lasts.)
        port_search_ns: Option<u64>, Ns, null "not a connect(), or it came to no search, or no SYN was seen to leave, as when the next hop's address is never found";
    }
}

impl Event {
    /// Takes a whole life apart into the state changes it was made of, in order; any other row is
    /// its only step.
    pub fn steps(self) -> impl Iterator<Item = Event> {
        let Some(established_ns) = self.established_ns else {
            return [None, None, Some(self)].into_iter().flatten();
        };
        let opened = self.connect_ns.is_some();
        let at = |time_ns, old: TcpState, state: TcpState| Event {
            time_ns,
            kind: self.kind.clone(),
            netns: self.netns,
            sock: self.sock,
            family: self.family,
            local_addr: self.local_addr,
            local_port: self.local_port,
            remote_addr: self.remote_addr,
            remote_port: self.remote_port,
            old_state: Some(old),
            state: Some(state),
            ..Event::default()
        };
        let connect = self.connect_ns.map(|time_ns| Event {
            pid: self.pid,
            comm: self.comm.clone(),
            cgroup: self.cgroup,
            ..at(time_ns, TcpState::Close, TcpState::SynSent)
        });
        let from = if opened {
            TcpState::SynSent
        } else {
            TcpState::SynRecv
        };
        let established = Event {
            cookie: self.cookie,
            sack: self.sack,
            window_scaling: self.window_scaling,
            timestamps: self.timestamps,
            mss: self.mss,
            retransmits: Some(0),
            ..at(established_ns, from, TcpState::Established)
        };
        let end = Event {
            pid: None,
            comm: None,
            cgroup: None,
            cookie: None,
            sack: None,
            window_scaling: None,
            timestamps: None,
            mss: None,
            connect_ns: None,
            established_ns: None,
            ..self
        };
        [connect, Some(established), Some(end)]
            .into_iter()
            .flatten()
    }
}
