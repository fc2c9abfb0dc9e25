//! The names in event rows, each compared once per row and never again.

/// State of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Established,
    SynSent,
    SynRecv,
    Close,
    Listen,
    TimeWait,
    /// FIN_WAIT1 … CLOSING: being closed.
    Closing,
    /// A name this version does not know.
    Unknown,
}

/// Whether the socket that left this state for CLOSE had closed first: a TIME_WAIT socket follows.
pub(crate) fn closed_first(old_state: Option<&str>) -> bool {
    matches!(old_state, Some("FIN_WAIT2" | "CLOSING"))
}

/// Whether the other end of the socket that left this state for CLOSE had closed its side.
pub(crate) fn peer_closed(old_state: Option<&str>) -> bool {
    matches!(old_state, Some("CLOSE_WAIT" | "LAST_ACK" | "CLOSING"))
}

impl State {
    pub(crate) fn of(name: &str) -> State {
        match name {
            "ESTABLISHED" => State::Established,
            "SYN_SENT" => State::SynSent,
            "SYN_RECV" | "NEW_SYN_RECV" => State::SynRecv,
            "CLOSE" => State::Close,
            "LISTEN" => State::Listen,
            "TIME_WAIT" => State::TimeWait,
            "FIN_WAIT1" | "FIN_WAIT2" | "CLOSE_WAIT" | "LAST_ACK" | "CLOSING" => State::Closing,
            _ => State::Unknown,
        }
    }
}

/// Kind of an event row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    State,
    Retransmit,
    SynAckRetransmit,
    ResetSent,
    ResetReceived,
    Drop,
    /// A kind this version does not know: counted, not used.
    Unknown,
}

impl Kind {
    pub(crate) fn of(name: &str) -> Kind {
        match name {
            "state" => Kind::State,
            "retransmit" => Kind::Retransmit,
            "synack-retransmit" => Kind::SynAckRetransmit,
            "reset-sent" => Kind::ResetSent,
            "reset-received" => Kind::ResetReceived,
            "drop" => Kind::Drop,
            _ => Kind::Unknown,
        }
    }
}

/// TCP header flag SYN.
pub(crate) const SYN: u8 = 2;
/// TCP header flag ACK.
pub(crate) const ACK: u8 = 16;

/// Whether the flags are those of a packet that opens a connection.
pub(crate) fn opens(flags: Option<u8>) -> bool {
    flags.is_some_and(|f| f & (SYN | ACK) == SYN)
}
