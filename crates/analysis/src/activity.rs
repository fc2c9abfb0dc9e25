//! What a row of `event` says of a connection: opened, accepted, failed and retransmitted mean the same wherever they
//! are counted.

use recording::tables::Event;
use recording::{EventKind, TcpState};

/// What happened to an end of a connection on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// connect() was called: the socket went to SYN_SENT.
    Opened,
    /// connect() succeeded: SYN_SENT to ESTABLISHED.
    Connected,
    /// connect() failed, or was given up: SYN_SENT to CLOSE.
    Failed,
    /// A handshake completed at a listener: SYN_RECV to ESTABLISHED.
    Accepted,
    /// An end that had been established is closed.
    Closed,
    /// A SYN was retransmitted.
    SynRetransmitted,
    /// A SYN-ACK was retransmitted.
    SynAckRetransmitted,
    /// A segment of an established connection was retransmitted.
    Retransmitted,
    /// A reset was sent.
    ResetSent,
    /// A reset was received.
    ResetReceived,
    /// A packet was thrown away.
    Dropped,
}

impl Activity {
    /// How many there are.
    pub const COUNT: usize = 11;

    /// What one step says (see [`Event::steps`]); `None` for changes of state in between, of
    /// listeners and requests, and for what this version does not know.
    pub fn of(step: &Event) -> Option<Activity> {
        let state = step.state.as_ref();
        Some(match step.kind {
            EventKind::State => return Activity::change(step.old_state.as_ref(), state?),
            EventKind::Retransmit if state == Some(&TcpState::SynSent) => {
                Activity::SynRetransmitted
            }
            EventKind::Retransmit => Activity::Retransmitted,
            EventKind::SynAckRetransmit => Activity::SynAckRetransmitted,
            EventKind::ResetSent => Activity::ResetSent,
            EventKind::ResetReceived => Activity::ResetReceived,
            EventKind::Drop => Activity::Dropped,
            EventKind::NoRoute | EventKind::Unknown(_) => return None,
        })
    }

    fn change(old: Option<&TcpState>, new: &TcpState) -> Option<Activity> {
        use TcpState::{Close, Established, Listen, SynSent};
        match (old, new) {
            (_, SynSent) => Some(Activity::Opened),
            (Some(SynSent), Established) => Some(Activity::Connected),
            (Some(old), Established) if old.is_half_open() => Some(Activity::Accepted),
            (Some(SynSent), Close) => Some(Activity::Failed),
            // A listener, a request that came to nothing, a socket that never was anything.
            (Some(Listen | Close), Close) => None,
            (Some(old), Close) if old.is_half_open() => None,
            (_, Close) => Some(Activity::Closed),
            _ => None,
        }
    }

    /// Whether it is a sign of trouble.
    pub fn is_trouble(self) -> bool {
        use Activity::{Accepted, Closed, Connected, Opened};
        !matches!(self, Opened | Connected | Accepted | Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(old: TcpState, new: TcpState) -> Option<Activity> {
        Activity::of(&Event {
            kind: EventKind::State,
            old_state: Some(old),
            state: Some(new),
            ..Event::default()
        })
    }

    #[test]
    fn a_handshake_seen_from_both_ends() {
        use TcpState::{Close, Established, LastAck, Listen, NewSynRecv, SynRecv, SynSent};
        assert_eq!(change(Close, SynSent), Some(Activity::Opened));
        assert_eq!(change(SynSent, Established), Some(Activity::Connected));
        assert_eq!(change(SynSent, Close), Some(Activity::Failed));
        assert_eq!(change(SynRecv, Established), Some(Activity::Accepted));
        assert_eq!(change(NewSynRecv, Established), Some(Activity::Accepted));
        assert_eq!(change(LastAck, Close), Some(Activity::Closed));
        for (old, new) in [(Close, Listen), (Listen, Close), (SynRecv, Close)] {
            assert_eq!(change(old, new), None);
        }
    }

    #[test]
    fn a_connection_in_one_row_counts_as_its_steps() {
        let whole = Event {
            time_ns: 9,
            kind: EventKind::State,
            old_state: Some(TcpState::LastAck),
            state: Some(TcpState::Close),
            connect_ns: Some(1),
            established_ns: Some(2),
            ..Event::default()
        };
        let activities: Vec<_> = whole.steps().filter_map(|s| Activity::of(&s)).collect();
        let steps = [Activity::Opened, Activity::Connected, Activity::Closed];
        assert_eq!(activities, steps);
    }
}
