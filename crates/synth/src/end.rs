//! One end of a connection, and the rows that tell of it.

use recording::tables::{Event, Socket};
use recording::{Addr, EventKind, RetransmitKind, TcpState};

use crate::Task;

/// An address with its port.
pub type Endpoint = (Addr, u16);

/// One end of a connection. All times are on the recording's clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its namespace.
    pub netns: u32,
    /// Its socket.
    pub sock: u64,
    /// 4 or 6.
    pub family: u8,
    /// Its own address and port.
    pub local: Endpoint,
    /// Those of the other end.
    pub remote: Endpoint,
}

/// What an end has when it is established.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// SACK was agreed on.
    pub sack: bool,
    /// Window scaling was agreed on.
    pub window_scaling: bool,
    /// Timestamps were agreed on.
    pub timestamps: bool,
    /// Segment size for sending, bytes.
    pub mss: u32,
    /// Round trip of the handshake, µs; 0 when it was not measured.
    pub rtt_us: u32,
    /// SYNs retransmitted.
    pub retransmits: u32,
}

impl Opening {
    /// The initial window of RFC 6928, segments.
    pub const WINDOW: u32 = 10;
}

impl End {
    /// The other end of the connection.
    pub fn peer(&self, netns: u32, sock: u64) -> End {
        End {
            netns,
            sock,
            local: self.remote,
            remote: self.local,
            ..*self
        }
    }

    /// The same end before the kernel chose its port.
    pub fn unbound(self) -> End {
        End {
            local: (self.local.0, 0),
            ..self
        }
    }

    /// Something happens to it.
    pub fn event(&self, time_ns: u64, kind: EventKind) -> Event {
        Event {
            time_ns,
            kind,
            netns: self.netns,
            sock: Some(self.sock),
            family: self.family,
            local_addr: self.local.0,
            local_port: self.local.1,
            remote_addr: self.remote.0,
            remote_port: self.remote.1,
            ..Event::default()
        }
    }

    /// Something happens to a packet that belongs to no socket of this end.
    pub fn stray(&self, time_ns: u64, kind: EventKind, flags: u8) -> Event {
        Event {
            sock: None,
            flags: Some(flags),
            ..self.event(time_ns, kind)
        }
    }

    /// Its state changes.
    pub fn change(&self, time_ns: u64, from: TcpState, to: TcpState) -> Event {
        Event {
            old_state: Some(from),
            state: Some(to),
            ..self.event(time_ns, EventKind::State)
        }
    }

    /// A task calls connect(). Linux tells the change of state before it has chosen a port
    /// ([`unbound`](End::unbound)).
    pub fn connect(&self, time_ns: u64, by: Task) -> Event {
        Event {
            pid: Some(by.pid),
            comm: Some(by.comm.into()),
            ..self.change(time_ns, TcpState::Close, TcpState::SynSent)
        }
    }

    /// Its handshake is over.
    pub fn established(&self, time_ns: u64, from: TcpState, with: Opening) -> Event {
        Event {
            sack: Some(with.sack),
            window_scaling: Some(with.window_scaling),
            timestamps: Some(with.timestamps),
            mss: Some(with.mss),
            rtt_us: Some(with.rtt_us),
            cwnd: Some(Opening::WINDOW),
            retransmits: Some(with.retransmits),
            ..self.change(time_ns, from, TcpState::Established)
        }
    }

    /// It retransmits a segment, for the `attempt`-th time in a row.
    pub fn retransmit(
        &self,
        time_ns: u64,
        state: TcpState,
        kind: RetransmitKind,
        attempt: u32,
    ) -> Event {
        Event {
            state: Some(state),
            retransmit_kind: Some(kind),
            attempt: Some(attempt),
            ..self.event(time_ns, EventKind::Retransmit)
        }
    }

    /// A sample of it.
    pub fn sample(&self, time_ns: u64, state: TcpState) -> Socket {
        Socket {
            time_ns,
            netns: self.netns,
            sock: self.sock,
            family: self.family,
            state,
            local_addr: self.local.0,
            local_port: self.local.1,
            remote_addr: self.remote.0,
            remote_port: self.remote.1,
            ..Socket::default()
        }
    }
}
