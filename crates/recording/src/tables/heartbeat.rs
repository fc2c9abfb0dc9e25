//! Messages that came at regular intervals: how many such flows there are, and which were late.

use crate::table::table;
use crate::vocabulary::Transport;
use crate::{Addr, Text};

table! {
    /// A message of a flow that had come at regular intervals and then was late: two in a row are missing, beyond what the flow's own jitter explains. Flows are those that data comes with to a UDP socket or a TCP connection of this host, at most about 100 times a second: heartbeats, health checks over a connection that stays, polls. Whether it was sent late, lost, or waited on this host is not told here: what the CPU did meanwhile is in `cpu`.
    Gap = "gap" {
        /// When it came; of one that has not come, when that was found: at the end of the recording.
        time_ns: u64, Ns;
        /// Network namespace.
        netns: u32, Id;
        /// `tcp` or `udp`.
        protocol: Transport, Name;
        /// Socket, as in `event`.
        sock: u64, Id;
        /// 4 or 6.
        family: u8, Id;
        /// Local address; `0.0.0.0` or `::` of a UDP socket that is bound to all.
        local_addr: Addr, Address;
        /// Local port.
        local_port: u16, Id;
        /// Who sends it.
        remote_addr: Addr, Address;
        /// Its port.
        remote_port: u16, Id;
        /// CPU whose softirq received it; of one that has not come, the one before.
        cpu: u32, Id;
        /// From one message to the next, smoothed as RFC 6298 smooths round trips.
        every_ns: u64, Ns;
        /// Mean deviation from that.
        deviation_ns: u64, Ns;
        /// Time since the message before it.
        gap_ns: u64, Ns;
        /// It has not come.
        pending: bool, Flag;
        /// Process that held the socket.
        pid: Option<u32>, Id, null "not found: the socket was closed, or open files cannot be read";
        /// Command name of the process.
        comm: Option<Text>, Program, null "as for `pid`";
        /// cgroup v2 id of the socket.
        cgroup: Option<u64>, Id, null "the kernel keeps none";
    }
}

table! {
    /// How many flows were found to be regular: what "no gap" is about. A row whenever that has changed, every second at most, and at the end.
    Heartbeat = "heartbeat" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Flows found to be regular since the recording began: eight gaps and two seconds of about the same length, with a mean deviation of at most a quarter of it.
        regular: u64, Count;
    }
}
