//! One TCP connection as one of its ends saw it: attempts, outcome, options, volume.

use recording::{RowRef, Text};

use super::place::{Endpoint, EventRow};
use super::refusals::TIME_WAIT_NS;
use crate::account::Ledger;

/// A connection that moved less than this says nothing about throughput: it fits into four
/// windows of 64 kB, most of it slow start.
pub(crate) const BULK_BYTES: u64 = 256 * 1024;

/// Index of a connection in the story.
pub type ConnId = u32;

/// One end of a connection, or of the attempt to make one.
#[derive(Clone, Debug)]
pub struct Conn {
    /// Network namespace.
    pub netns: u32,
    /// 4 or 6, as in `event`.
    pub family: u8,
    /// Which side of the connection this end is.
    pub side: Side,
    /// What became of it.
    pub outcome: Outcome,
    /// Port 0 while a connecting socket has none.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// connect() was called, or the accepted connection was made, or it was first seen.
    pub start_ns: u64,
    /// When it was established; `None` if it was not, or before the recording.
    pub established_ns: Option<u64>,
    /// When it ended; `None` while it lasts.
    pub ended_ns: Option<u64>,
    /// This end closed first: its port stays in TIME_WAIT.
    pub closed_first: bool,
    /// The other end had closed its side before this one ended.
    pub peer_closed: bool,
    /// Options agreed on; `None` when the establishment was not seen and no sample says.
    pub agreed: Option<Agreed>,
    /// Segment size for sending when it was established, bytes; 0 when that was not seen.
    pub mss: u32,
    /// Made from a SYN cookie; `None` when it cannot be known.
    pub cookie: Option<bool>,
    /// Process that called connect(), or holds an end that is older; `None` for one accepted while recording.
    pub pid: Option<u32>,
    /// Its command name.
    pub comm: Option<Text>,
    /// Its cgroup v2 id, where its connect() was seen.
    pub cgroup: Option<u64>,
    /// SYNs retransmitted.
    pub syn_retries: u32,
    /// SYN-ACKs that an accepted end had retransmitted when it was established: the kernel counts them on the new socket.
    pub answer_retries: u32,
    /// Segments retransmitted after the handshake.
    pub retransmits: u32,
    /// Smoothed round-trip time, µs; 0 when none was measured.
    pub rtt_us: u32,
    /// Congestion window at the end; 0 when not known.
    pub close_cwnd: u32,
    /// Bytes sent and acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes written and not acknowledged when it ended.
    pub bytes_unacked: u32,
    /// A reset answered the SYN.
    pub refused: Option<EventRow>,
    /// The name of the error that ended it; `None` when its program did, or it is not known.
    pub error: Option<Text>,
    /// The first retransmission of its SYN.
    pub first_retry: Option<EventRow>,
    /// The row that says most of it: its establishment, else its start, else its end.
    pub row: Option<EventRow>,
    /// Its end.
    pub close_row: Option<EventRow>,
    /// Its samples.
    pub sampled: Option<u32>,
    /// The other end, when that is on this host too.
    pub peer: Option<ConnId>,
    /// The listener that accepted it, or that it was sent to.
    pub listener: Option<u32>,
}

/// Which side of the connection this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It called connect(), and we saw it.
    Opened,
    /// It was accepted, and we saw it.
    Accepted,
    /// It is older than the recording.
    Older,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handshake is not complete.
    Pending,
    /// Established, and still so when the recording ended.
    Open,
    /// Was established and ended.
    Closed,
    /// Ended without having been established.
    Failed,
}

/// Options agreed on in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// SACK.
    pub sack: bool,
    /// Window scaling.
    pub window_scaling: bool,
    /// Timestamps.
    pub timestamps: bool,
}

impl Agreed {
    /// Neither SACK nor window scaling: nothing that a modern stack offers.
    pub fn bare(self) -> bool {
        !self.sack && !self.window_scaling
    }
}

impl Conn {
    pub(crate) fn new(netns: u32, side: Side, local: Endpoint, remote: Endpoint) -> Conn {
        Conn {
            netns,
            family: 4,
            side,
            outcome: Outcome::Pending,
            local,
            remote,
            start_ns: 0,
            established_ns: None,
            ended_ns: None,
            closed_first: false,
            peer_closed: false,
            agreed: None,
            mss: 0,
            cookie: None,
            pid: None,
            comm: None,
            cgroup: None,
            syn_retries: 0,
            answer_retries: 0,
            retransmits: 0,
            rtt_us: 0,
            close_cwnd: 0,
            bytes_acked: 0,
            bytes_received: 0,
            bytes_unacked: 0,
            refused: None,
            error: None,
            first_retry: None,
            row: None,
            close_row: None,
            sampled: None,
            peer: None,
            listener: None,
        }
    }

    /// How long connect() took, ns; `None` when its start or its success was not seen. If it was under way when the
    /// recording began, how long from then on.
    pub fn connect_ns(&self) -> Option<u64> {
        match self.side {
            Side::Opened => Some(self.established_ns?.saturating_sub(self.start_ns)),
            Side::Older if self.syn_retries > 0 => {
                Some(self.established_ns?.saturating_sub(self.start_ns))
            }
            _ => None,
        }
    }

    /// Until when its local port is taken: when this end closed first, 60 s longer, in TIME_WAIT.
    /// `None` when it had not ended when the recording did.
    pub fn port_held_until_ns(&self) -> Option<u64> {
        let after = if self.closed_first { TIME_WAIT_NS } else { 0 };
        Some(self.ended_ns?.saturating_add(after))
    }

    /// Its connect() was seen, or is under way since before the recording.
    pub fn connects(&self) -> bool {
        match self.side {
            Side::Opened => true,
            Side::Accepted => false,
            Side::Older => {
                self.syn_retries > 0 || matches!(self.outcome, Outcome::Pending | Outcome::Failed)
            }
        }
    }

    /// It is the end that asks: it called connect(), or is older and no listener here takes its port.
    pub fn asks(&self) -> bool {
        match self.side {
            Side::Opened => true,
            Side::Accepted => false,
            Side::Older => self.connects() || self.listener.is_none(),
        }
    }

    /// connect() was called and never succeeded.
    pub fn failed(&self) -> bool {
        self.outcome == Outcome::Failed
    }

    /// The error with which its connect() failed though no reset answered: an ICMP message brought it, or this host
    /// itself could not send. A connect() that nothing answered has none.
    pub fn unreachable(&self) -> Option<&str> {
        let error = self.error.as_deref().filter(|e| *e != "ETIMEDOUT");
        error.filter(|_| self.failed() && self.refused.is_none())
    }

    /// How long after its SYN had left its program gave it up, ns, if that was before any answer or retransmission.
    pub fn abandoned_after_ns(&self) -> Option<u64> {
        let answered = self.refused.is_some() || self.error.is_some();
        // Without a port it sent none.
        let waited = self.failed() && !answered && self.syn_retries == 0 && self.local.port != 0;
        let ended = self
            .ended_ns
            .filter(|_| waited && self.side == Side::Opened)?;
        Some(ended.saturating_sub(self.start_ns))
    }

    /// The row that shows it best.
    pub fn row(&self) -> Option<RowRef> {
        self.row.or(self.close_row).map(RowRef::from)
    }
}

/// What the samples of one connection say: the first, the last and the largest.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Its first sample.
    pub first: Sample,
    /// Its last sample.
    pub last: Sample,
    /// The largest congestion window of all samples, segments.
    pub cwnd_max: u32,
    /// Largest window the peer advertised, bytes.
    pub snd_wnd_max: u32,
    /// Its initial sequence numbers; `None` if the recording does not have them.
    pub(crate) isns: Option<Isns>,
    /// Where its time went; `None` while it was only connecting.
    pub(crate) ledger: Option<Ledger>,
}

/// The initial sequence numbers of an end. The SYN of the end that connected is among what was acknowledged
/// to it, so that it counts its own number one less than the other end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Isns {
    /// The number of what it sends.
    pub sent: u32,
    /// The number of what it receives.
    pub received: u32,
}

impl Isns {
    /// What the other end may have: the same two, or one less for the SYN of either.
    pub fn mirrors(self) -> [Isns; 4] {
        [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(other_connected, connected)| Isns {
            sent: self.received.wrapping_sub(other_connected),
            received: self.sent.wrapping_add(connected),
        })
    }

    /// Whether both can be ends of one connection.
    pub fn mirror(self, other: Isns) -> bool {
        self.mirrors().contains(&other)
    }
}

/// One sample of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub row: RowRef,
    pub time_ns: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub busy_us: u64,
    pub rwnd_limited_us: u64,
    pub rtt_us: u32,
    /// When the last ACK had come.
    pub heard_ns: Option<u64>,
    /// When data had last gone either way; a FIN does not count.
    pub spoke_ns: Option<u64>,
    /// The other end had closed its side.
    pub peer_closed: bool,
    /// Its own program had closed it.
    pub closed: bool,
    /// It waited for accept().
    pub unaccepted: bool,
    /// All that was sent had been acknowledged.
    pub all_acked: bool,
}
