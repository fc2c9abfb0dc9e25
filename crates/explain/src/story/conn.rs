//! One TCP connection as one of its ends saw it: attempts, outcome, options, volume.

use recording::{RowRef, Text};

use super::place::{Endpoint, EventRow};
use super::refusals::TIME_WAIT_NS;

/// Index of a connection in the story.
pub(crate) type ConnId = u32;

/// One end of a connection, or of the attempt to make one.
#[derive(Clone, Debug)]
pub(crate) struct Conn {
    pub(crate) netns: u32,
    pub(crate) family: u8,
    pub(crate) side: Side,
    pub(crate) outcome: Outcome,
    /// Port 0 while a connecting socket has none.
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    /// connect() was called, or the accepted connection was made, or it was first seen.
    pub(crate) start_ns: u64,
    pub(crate) established_ns: Option<u64>,
    pub(crate) ended_ns: Option<u64>,
    /// This end closed first: its port stays in TIME_WAIT.
    pub(crate) closed_first: bool,
    /// The other end had closed its side before this one ended.
    pub(crate) peer_closed: bool,
    /// Options agreed on; `None` when the establishment was not seen and no sample says.
    pub(crate) agreed: Option<Agreed>,
    /// Segment size for sending when it was established, bytes; 0 when that was not seen.
    pub(crate) mss: u32,
    /// Made from a SYN cookie; `None` when it cannot be known.
    pub(crate) cookie: Option<bool>,
    pub(crate) pid: Option<u32>,
    pub(crate) comm: Option<Text>,
    /// SYNs sent again.
    pub(crate) syn_retries: u32,
    /// Segments sent again after the handshake.
    pub(crate) retransmits: u32,
    pub(crate) rtt_us: u32,
    /// Congestion window at the end; 0 when not known.
    pub(crate) close_cwnd: u32,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    /// A reset answered the SYN.
    pub(crate) refused: Option<EventRow>,
    pub(crate) first_retry: Option<EventRow>,
    /// The row that says most of it: its establishment, else its start, else its end.
    pub(crate) row: Option<EventRow>,
    pub(crate) close_row: Option<EventRow>,
    /// Its samples.
    pub(crate) sampled: Option<u32>,
    /// The other end, when that is on this host too.
    pub(crate) peer: Option<ConnId>,
    /// The listener that accepted it, or that it was sent to.
    pub(crate) listener: Option<u32>,
}

/// Which side of the connection this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It called connect(), and we saw it.
    Opened,
    /// It was accepted, and we saw it.
    Accepted,
    /// It is older than the recording.
    Older,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
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
pub(crate) struct Agreed {
    pub(crate) sack: bool,
    pub(crate) window_scaling: bool,
    pub(crate) timestamps: bool,
}

impl Agreed {
    /// Neither SACK nor window scaling: nothing that a modern stack offers.
    pub(crate) fn bare(self) -> bool {
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
            syn_retries: 0,
            retransmits: 0,
            rtt_us: 0,
            close_cwnd: 0,
            bytes_acked: 0,
            bytes_received: 0,
            refused: None,
            first_retry: None,
            row: None,
            close_row: None,
            sampled: None,
            peer: None,
            listener: None,
        }
    }

    /// How long connect() took, ns; `None` when its start or its success was not seen.
    pub(crate) fn connect_ns(&self) -> Option<u64> {
        match self.side {
            Side::Opened => Some(self.established_ns?.saturating_sub(self.start_ns)),
            _ => None,
        }
    }

    /// Until when its local port is taken: when this end closed first, 60 s longer, in TIME_WAIT.
    /// `None` when it had not ended when the recording did.
    pub(crate) fn port_held_until_ns(&self) -> Option<u64> {
        let after = match self.closed_first {
            true => TIME_WAIT_NS,
            false => 0,
        };
        Some(self.ended_ns?.saturating_add(after))
    }

    /// connect() was called and never succeeded.
    pub(crate) fn failed(&self) -> bool {
        self.outcome == Outcome::Failed
    }

    /// The row that shows it best.
    pub(crate) fn row(&self) -> Option<RowRef> {
        self.row.or(self.close_row).map(RowRef::from)
    }
}

/// What the samples of one connection say: the first, the last and the largest.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    pub(crate) first: Sample,
    pub(crate) last: Sample,
    pub(crate) cwnd_max: u32,
    /// Largest window the peer advertised, bytes.
    pub(crate) snd_wnd_max: u32,
}

/// One sample of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) row: RowRef,
    pub(crate) time_ns: u64,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) busy_us: u64,
    pub(crate) rwnd_limited_us: u64,
    pub(crate) rtt_us: u32,
    /// When the last ACK had come.
    pub(crate) heard_ns: Option<u64>,
}
