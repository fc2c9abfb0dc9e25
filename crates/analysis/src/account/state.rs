//! What an end of a connection is doing at an instant, and the time that it spent in each state.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use recording::TcpState;
use recording::tables::Socket;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::held_here::is_held;

/// What an end is doing: at every instant the first of these that holds, so that the states partition
/// the time of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// connect() was called, and the handshake is not complete.
    Connecting,
    /// Established, and no process has it yet: it is in the accept queue.
    Unaccepted,
    /// Data has arrived that our application did not read.
    Unread,
    /// Our application has more to send than the send buffer holds.
    SendBuffer,
    /// Data is kept back because the peer's window is full.
    PeerWindow,
    /// Data is lost, or taken to be, and being retransmitted (congestion state Recovery or Loss).
    Repair,
    /// Data waits to be sent, and neither the peer's window nor our send buffer holds it back.
    Path,
    /// More of what the peer sends is on its way: it has not finished.
    Receiving,
    /// The last that moved was a request: our application owes the answer.
    Owing,
    /// The last that moved was our request: the peer owes the answer.
    Awaiting,
    /// One side has closed.
    Closing,
    /// None of these: nothing to send, read or answer.
    Idle,
    /// No sample says: a connection shorter than the time between two of them.
    Unsampled,
}

impl State {
    /// All, in the order in which they are tried.
    pub const ALL: [State; 13] = [
        State::Connecting,
        State::Unaccepted,
        State::Unread,
        State::SendBuffer,
        State::PeerWindow,
        State::Repair,
        State::Path,
        State::Receiving,
        State::Owing,
        State::Awaiting,
        State::Closing,
        State::Idle,
        State::Unsampled,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Connecting => "connecting",
            State::Unaccepted => "unaccepted",
            State::Unread => "unread",
            State::SendBuffer => "send_buffer",
            State::PeerWindow => "peer_window",
            State::Repair => "repair",
            State::Path => "path",
            State::Receiving => "receiving",
            State::Owing => "owing",
            State::Awaiting => "awaiting",
            State::Closing => "closing",
            State::Idle => "idle",
            State::Unsampled => "unsampled",
        }
    }

    /// The same in a sentence.
    pub fn says(self) -> &'static str {
        match self {
            State::Connecting => "connecting",
            State::Unaccepted => "in the accept queue",
            State::Unread => "unread by our application",
            State::SendBuffer => "our send buffer full",
            State::PeerWindow => "peer's window full",
            State::Repair => "repairing losses",
            State::Path => "sending",
            State::Receiving => "receiving",
            State::Owing => "waiting for our application",
            State::Awaiting => "waiting for the peer",
            State::Closing => "closing",
            State::Idle => "idle",
            State::Unsampled => "not sampled",
        }
    }

    /// Data is under way, or kept from being so.
    pub fn is_sending(self) -> bool {
        matches!(
            self,
            State::SendBuffer | State::PeerWindow | State::Repair | State::Path
        )
    }

    /// Nothing waits in it for TCP, the network or an application.
    pub fn is_quiet(self) -> bool {
        matches!(self, State::Idle | State::Closing | State::Unsampled)
    }
}

/// Which end of an exchange one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A listener made it: it answers.
    Server,
    /// It called connect(), or nothing listens on its port: it asks.
    Client,
    /// Listeners were not recorded, and it is older than the recording: idle, owing and awaiting
    /// cannot be told apart, and count as idle.
    Unknown,
}

/// What one sample shows, before it is known which end asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A state that needs no role.
    Is(State),
    /// What moved last was sent.
    Sent,
    /// What moved last was received.
    Received,
}

impl Seen {
    /// The first state that holds of a sample with `tcp_info`.
    pub(crate) fn of(row: &Socket) -> Seen {
        if row.state == TcpState::SynSent {
            return Seen::Is(State::Connecting);
        }
        if row.state != TcpState::Established {
            return Seen::Is(State::Closing);
        }
        if row.inode.is_none() {
            return Seen::Is(State::Unaccepted);
        }
        if row.recv_queue.is_some_and(|n| n > 0) {
            return Seen::Is(State::Unread);
        }
        let unsent = row.notsent_bytes.unwrap_or(0);
        let unacked = row.unacked.unwrap_or(0);
        let repairs = matches!(row.ca_state.as_deref(), Some("Recovery" | "Loss"));
        if repairs && (unacked > 0 || unsent > 0) || is_held(row) {
            return Seen::Is(State::Repair);
        }
        if unsent > 0 {
            let mss = row.snd_mss.unwrap_or(0);
            let flying = u64::from(unacked) * u64::from(mss);
            let full = u64::from(row.snd_wnd.unwrap_or(u32::MAX)) < flying + u64::from(mss);
            return Seen::Is(if full { State::PeerWindow } else { State::Path });
        }
        Seen::last(row)
    }

    /// What moved last, by how long ago each direction moved. If both moved in the same tick of the kernel's clock,
    /// the exchange counts as over, unless something says otherwise ([`Seen::unanswered`]).
    fn last(row: &Socket) -> Seen {
        let ever = |segments: Option<u32>| segments.is_some_and(|n| n > 0);
        match (ever(row.data_segs_out), ever(row.data_segs_in)) {
            (false, false) => return Seen::Is(State::Idle),
            (true, false) => return Seen::Sent,
            (false, true) => return Seen::Received,
            (true, true) => {}
        }
        let (Some(sent), Some(received)) = (row.last_data_sent_ms, row.last_data_recv_ms) else {
            return Seen::Is(State::Idle);
        };
        match sent.cmp(&received) {
            Ordering::Less => Seen::Sent,
            Ordering::Greater => Seen::Received,
            Ordering::Equal => Seen::unanswered(row, sent),
        }
    }

    /// Both directions moved in one tick. The peer acknowledged what we sent later than that, or not yet: an answer would
    /// have carried the acknowledgement. Or the last acknowledgement came in that tick, with data, and of several words of
    /// a segment each, one more went one way: a request that followed an answer at once. A single answer proves no such
    /// step: its request may have been two writes.
    fn unanswered(row: &Socket, moved_ms: u32) -> Seen {
        let acked_later = row.last_ack_recv_ms.is_some_and(|acked| acked < moved_ms);
        if row.unacked.is_some_and(|n| n > 0) || acked_later {
            return Seen::Sent;
        }
        let (came, went) = (
            row.data_segs_in.unwrap_or(0),
            row.data_segs_out.unwrap_or(0),
        );
        let with_data = row.last_ack_recv_ms == Some(moved_ms);
        let in_step = with_data && came.min(went) > 1;
        match i64::from(came) - i64::from(went) {
            1 if in_step => Seen::Received,
            -1 if in_step => Seen::Sent,
            _ => Seen::Is(State::Idle),
        }
    }

    /// The state, for an end of this role.
    pub(crate) fn state(self, role: Role) -> State {
        match (self, role) {
            (Seen::Is(state), _) => state,
            (Seen::Received, Role::Server) => State::Owing,
            (Seen::Sent, Role::Client) => State::Awaiting,
            (Seen::Received | Seen::Sent, _) => State::Idle,
        }
    }
}

/// Time by state, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent([u64; State::ALL.len()]);

impl Spent {
    /// Time in one state, ns.
    pub fn of(&self, state: State) -> u64 {
        self.0[state as usize]
    }

    /// Time in all of them, ns.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Time spent waiting for something, ns.
    pub fn waiting(&self) -> u64 {
        self.sum(|s| !s.is_quiet())
    }

    /// Time in which data was under way, or kept from being so, ns.
    pub fn sending(&self) -> u64 {
        self.sum(State::is_sending)
    }

    /// Time that was not idle, or may not have been, as unsampled time counts, ns.
    pub fn awake(&self) -> u64 {
        self.sum(|s| !matches!(s, State::Idle | State::Closing))
    }

    fn sum(&self, of: impl Fn(State) -> bool) -> u64 {
        let states = State::ALL.into_iter().filter(|s| of(*s));
        states.fold(0, |sum, s| sum.saturating_add(self.of(s)))
    }

    /// Adds time in a state.
    pub fn add(&mut self, state: State, ns: u64) {
        let spent = &mut self.0[state as usize];
        *spent = spent.saturating_add(ns);
    }

    /// Adds what another end spent.
    pub fn absorb(&mut self, other: &Spent) {
        for state in State::ALL {
            self.add(state, other.of(state));
        }
    }

    /// Shares unsampled time out among the states in proportion to `like`; if `like` has none, all of it stays where
    /// it is.
    pub(crate) fn share_out(&mut self, like: &Spent) {
        let whole = like.total();
        if whole == 0 {
            return;
        }
        let unsampled = self.of(State::Unsampled);
        let mut left = unsampled;
        for state in State::ALL {
            let part = u128::from(unsampled) * u128::from(like.of(state)) / u128::from(whole);
            let part = u64::try_from(part).unwrap_or(left).min(left);
            self.add(state, part);
            left -= part;
        }
        self.0[State::Unsampled as usize] = left;
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Spent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Spent".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let states = State::ALL.into_iter().map(|state| {
            let says = format!("Time {}, s.", state.says());
            let of = schemars::json_schema!({ "type": "number", "description": says });
            (state.name(), of)
        });
        let states: BTreeMap<&str, schemars::Schema> = states.collect();
        schemars::json_schema!({ "type": "object", "properties": states })
    }
}

/// Seconds by state.
impl Serialize for Spent {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(State::ALL.len()))?;
        for state in State::ALL {
            let seconds = crate::words::rounded(self.of(state) as f64 / 1e9);
            map.serialize_entry(state.name(), &seconds)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Spent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Spent, D::Error> {
        let seconds = BTreeMap::<String, f64>::deserialize(from)?;
        let mut spent = Spent::default();
        for state in State::ALL {
            let seconds = seconds.get(state.name()).copied().unwrap_or(0.0);
            spent.add(state, (seconds.max(0.0) * 1e9) as u64);
        }
        Ok(spent)
    }
}

#[cfg(test)]
mod tests {
    use recording::Text;

    use super::*;

    fn established() -> Socket {
        Socket {
            state: TcpState::Established,
            inode: Some(7),
            congestion: Some(Text::from("cubic")),
            data_segs_out: Some(3),
            data_segs_in: Some(3),
            last_data_sent_ms: Some(900),
            last_data_recv_ms: Some(40),
            snd_mss: Some(1448),
            snd_wnd: Some(65_535),
            ..Socket::default()
        }
    }

    fn state(change: impl FnOnce(&mut Socket), role: Role) -> State {
        let mut row = established();
        change(&mut row);
        Seen::of(&row).state(role)
    }

    #[test]
    fn what_moved_last_says_who_owes() {
        assert_eq!(state(|_| {}, Role::Server), State::Owing);
        assert_eq!(state(|_| {}, Role::Client), State::Idle);
        assert_eq!(state(|_| {}, Role::Unknown), State::Idle);
        let sent = |row: &mut Socket| row.last_data_sent_ms = Some(0);
        assert_eq!(state(sent, Role::Client), State::Awaiting);
        assert_eq!(state(sent, Role::Server), State::Idle);
        let same = |row: &mut Socket| row.last_data_sent_ms = Some(40);
        assert_eq!(state(same, Role::Server), State::Idle);
        assert_eq!(state(same, Role::Client), State::Idle);
        let unanswered =
            |row: &mut Socket| (row.last_data_sent_ms, row.unacked) = (Some(40), Some(1));
        assert_eq!(state(unanswered, Role::Client), State::Awaiting);
        let acked =
            |row: &mut Socket| (row.last_data_sent_ms, row.last_ack_recv_ms) = (Some(40), Some(0));
        assert_eq!(state(acked, Role::Client), State::Awaiting);
        // A request on the heels of an answer, which it acknowledges: three came, two went.
        let followed = |row: &mut Socket| {
            (row.last_data_sent_ms, row.last_ack_recv_ms) = (Some(40), Some(40));
            row.data_segs_out = Some(2);
        };
        assert_eq!(state(followed, Role::Server), State::Owing);
        assert_eq!(state(followed, Role::Client), State::Idle);
        // A request of two writes, and its answer.
        let first = |row: &mut Socket| {
            followed(row);
            (row.data_segs_in, row.data_segs_out) = (Some(2), Some(1));
        };
        assert_eq!(state(first, Role::Server), State::Idle);
        // A bare acknowledgement came later: of an answer.
        let over = |row: &mut Socket| {
            followed(row);
            row.last_ack_recv_ms = Some(0);
        };
        assert_eq!(state(over, Role::Server), State::Idle);
        let asked = |row: &mut Socket| row.data_segs_out = Some(0);
        assert_eq!(state(asked, Role::Server), State::Owing);
        let none = |row: &mut Socket| (row.data_segs_out, row.data_segs_in) = (None, None);
        assert_eq!(state(none, Role::Server), State::Idle);
    }

    #[test]
    fn the_first_state_that_holds_is_told() {
        let server = |change: fn(&mut Socket)| state(change, Role::Server);
        assert_eq!(server(|s| s.inode = None), State::Unaccepted);
        assert_eq!(server(|s| s.recv_queue = Some(1)), State::Unread);
        assert_eq!(server(|s| s.notsent_bytes = Some(1)), State::Path);
        let full = |s: &mut Socket| (s.notsent_bytes, s.snd_wnd) = (Some(9), Some(100));
        assert_eq!(state(full, Role::Server), State::PeerWindow);
        let lost = |s: &mut Socket| (s.unacked, s.ca_state) = (Some(1), Some(Text::from("Loss")));
        assert_eq!(state(lost, Role::Server), State::Repair);
        let held =
            |s: &mut Socket| (s.notsent_bytes, s.snd_wnd, s.probes) = (Some(9), Some(100), Some(1));
        assert_eq!(state(held, Role::Server), State::Repair);
        assert_eq!(server(|s| s.state = TcpState::CloseWait), State::Closing);
        assert_eq!(server(|s| s.state = TcpState::SynSent), State::Connecting);
    }

    #[test]
    fn what_is_shared_out_loses_nothing() {
        let (mut spent, mut like) = (Spent::default(), Spent::default());
        spent.add(State::Unsampled, 1_000_000_007);
        spent.add(State::Connecting, 5);
        like.add(State::Owing, 2);
        like.add(State::Idle, 1);
        let before = spent.total();
        spent.share_out(&like);
        assert_eq!(spent.total(), before);
        assert_eq!(spent.of(State::Owing), 666_666_671);
        assert!(spent.of(State::Unsampled) < 3);
        spent.share_out(&Spent::default());
        assert_eq!(spent.total(), before);
    }
}
