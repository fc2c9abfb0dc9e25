//! Requests and their answers: what exchanges went over connections, and what their time went with.

use crate::table::table;
use crate::vocabulary::{Role, Timed};
use crate::{Addr, Text};

table! {
    /// The exchanges of one listener or destination that ended within a second: a request and its answer, from the movement of the connection's sequence numbers. Of a server it begins with the first byte of the request and ends with the last write of the answer; of a client it begins with the first write and ends when the last of the answer is read. The parts sum to the time of all of them. Seconds without any have no row.
    Request = "request" {
        /// End of the second.
        time_ns: u64, Ns;
        /// Network namespace.
        netns: u32, Id;
        /// `server` (a listener has this port) or `client`.
        role: Role, Name;
        /// Local address of a server; where a client connects to.
        addr: Addr, Address;
        /// Port of the server.
        port: u16, Id;
        /// Exchanges that ended. On a busy host one in so many is counted, drawn by lot, of new connections as of exchanges, and stands for as many; of followed connections those that are late (100 ms) all are.
        exchanges: u64, Count;
        /// Of those, such that a message began before the answer to the one before had ended: pipelining, multiplexing.
        overlapped: u64, Count;
        /// Messages after a pause of a second with nothing in flight, which nobody asked for: subscriptions.
        pushed: u64, Count;
        /// Connections that closed before the answer.
        unanswered: u64, Count;
        /// Of those: the end that asked closed or reset it after a wait of 100 ms and more, and so gave up on the request.
        given_up: Option<u64>, Count, null "recorded before 0.6 told it";
        /// How long these had waited.
        given_up_ns: Option<u64>, Ns, null "as for `given_up`";
        /// Exchanges that were a second old, or more, and not answered, when the second ended; of connections that a process has open.
        open: Option<u64>, Count, null "not looked at in this second";
        /// Segments of ours that were retransmitted while the other side's next word was awaited.
        retransmits: u64, Count;
        /// Data waited for accept() and the first read after it.
        accept_ns: u64, Ns;
        /// Data waited to be read.
        unread_ns: u64, Ns;
        /// More of the message was on its way.
        receive_ns: u64, Ns;
        /// All was read, and our application worked: a server on the answer, a client on more of the request.
        think_ns: u64, Ns;
        /// A client awaited the answer, from when the last of its request had left: network and peer.
        await_ns: u64, Ns;
        /// Between two writes of a message, with full segments not yet sent: windows and buffers held them back. Of a client, also from its last write until that left, where it is two jiffies and more: Nagle's algorithm, a window or pacing.
        send_ns: u64, Ns;
        /// From a write until what was sent was retransmitted.
        repair_ns: u64, Ns;
        /// The same of a client whose request had come all the same: its acknowledgement was lost, or the answer. A server's answer that had come took no longer for it.
        unheard_ns: u64, Ns;
        /// Of `think_ns`: one thread read the request and answered it, and read no other meanwhile.
        think_alone_ns: u64, Ns;
        /// Of `think_alone_ns`: the thread ran.
        think_cpu_ns: u64, Ns;
        /// Of `think_alone_ns`: the thread waited for a CPU. What is left it slept: locks, disks, other connections.
        think_runqueue_ns: u64, Ns;
        /// Exchanges that each one drawn by lot stands for, at the most; 1: all were counted.
        one_in: u32, Count;
    }
}

table! {
    /// How many exchanges of a `request` row took how long, in steps of a thirty-second of a power of two: what percentiles are made of.
    RequestTime = "request_time" {
        /// As in `request`.
        time_ns: u64, Ns;
        /// As in `request`.
        netns: u32, Id;
        /// As in `request`.
        role: Role, Name;
        /// As in `request`.
        addr: Addr, Address;
        /// As in `request`.
        port: u16, Id;
        /// What took so long: `response` (the whole exchange) or `think`.
        what: Timed, Name;
        /// It took this long or longer. The first step begins at 0.
        at_least_ns: u64, Ns;
        /// Less than this; the last step has no end.
        below_ns: Option<u64>, Ns, null "no end";
        /// Exchanges.
        count: u64, Count;
    }
}

table! {
    /// The slowest exchanges of each second and `request` row; at the end, and where one was left open, the oldest that is not answered.
    Exchange = "exchange" {
        /// When it ended, or was given up; of another open one, when it was looked at.
        time_ns: u64, Ns;
        /// When its first byte came, or was written.
        began_ns: u64, Ns;
        /// Network namespace.
        netns: u32, Id;
        /// `server` or `client`.
        role: Role, Name;
        /// Socket, as in `event`.
        sock: u64, Id;
        /// 4 or 6.
        family: u8, Id;
        /// Local address.
        local_addr: Addr, Address;
        /// Local port.
        local_port: u16, Id;
        /// Remote address.
        remote_addr: Addr, Address;
        /// Remote port.
        remote_port: u16, Id;
        /// Process whose thread read the request; of a client, wrote it.
        pid: Option<u32>, Id, null "nobody has read it, or the kernel read on its own";
        /// The thread.
        tid: Option<u32>, Id, null "nobody has read it, or the kernel read on its own";
        /// Command name of the thread.
        comm: Option<Text>, Program, null "as for `tid`, or the thread has ended";
        /// It is not answered.
        open: bool, Flag;
        /// Nor will it be: the end that asked closed or reset the connection at `time_ns`. Of each `request` row one is told.
        given_up: Option<bool>, Flag, null "recorded before 0.6 told it";
        /// A message began before the answer to the one before had ended.
        overlapped: bool, Flag;
        /// As in `request`.
        retransmits: u32, Count;
        /// As in `request`.
        accept_ns: u64, Ns;
        /// As in `request`.
        unread_ns: u64, Ns;
        /// As in `request`.
        receive_ns: u64, Ns;
        /// As in `request`.
        think_ns: u64, Ns;
        /// As in `request`.
        await_ns: u64, Ns;
        /// As in `request`.
        send_ns: u64, Ns;
        /// As in `request`.
        repair_ns: u64, Ns;
        /// As in `request`.
        unheard_ns: u64, Ns;
        /// As in `request`.
        think_alone_ns: u64, Ns;
        /// As in `request`.
        think_cpu_ns: u64, Ns;
        /// As in `request`.
        think_runqueue_ns: u64, Ns;
        /// The longest time in which the application read nothing of what waited for it, within `accept_ns` and `unread_ns`: a reader that keeps reading a transfer never stalls, though data always waits.
        unread_longest_ns: Option<u64>, Ns, null "recorded before 0.6 told it";
    }
}

/// The parts of the time of exchanges, each a column of `request` and of `exchange`.
macro_rules! parts {
    ($( $part:ident = $column:ident ),+ $(,)?) => {
        /// What time of an exchange went with. What each is, its column in `request` says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RequestPart { $( #[doc = concat!("`", stringify!($column), "`")] $part, )+ }

        impl RequestPart {
            /// All of them: they sum to the time of the exchange.
            pub const ALL: [RequestPart; [$( stringify!($part) ),+].len()] =
                [$( RequestPart::$part ),+];
        }

        parts!(@row Request: $( $part = $column ),+);
        parts!(@row Exchange: $( $part = $column ),+);
    };
    (@row $row:ident: $( $part:ident = $column:ident ),+) => {
        impl $row {
            /// The column of a part, ns.
            pub fn part_ns(&self, part: RequestPart) -> u64 {
                match part { $( RequestPart::$part => self.$column, )+ }
            }

            /// The column of a part, ns, to change it.
            pub fn part_ns_mut(&mut self, part: RequestPart) -> &mut u64 {
                match part { $( RequestPart::$part => &mut self.$column, )+ }
            }
        }
    };
}

parts! {
    Accept = accept_ns,
    Unread = unread_ns,
    Receive = receive_ns,
    Think = think_ns,
    Await = await_ns,
    Send = send_ns,
    Repair = repair_ns,
    Unheard = unheard_ns,
}
