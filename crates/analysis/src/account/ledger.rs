//! The time of one end: what its samples say between its establishment and its end.

use recording::tables::Socket;

use super::state::{Role, Seen, Spent, State};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Where at least this many bytes moved each way between two samples, they are no request and answer.
const DUPLEX_BYTES: u64 = 1 << 20;
/// This many segments one way for each one the other way are a stream, not requests: a request that fits the first
/// window of its connection has ten.
pub const STREAM_SEGMENTS: u32 = 11;
/// A silence this many times as long as its usual gap ends a stream.
const STREAM_GAPS: u64 = 4;

/// Time by what samples show, before it is known which end asks; every ns between the establishment and
/// the last sample is in one place.
///
/// Between two samples an end counts as in the state of the first: samples come at moments that have
/// nothing to do with what it does. Nearer to the second, `tcp_info` says more: when data last moved
/// either way, and, in counts of their own, how long the peer's window and the send buffer held it back.
#[derive(Clone, Debug)]
pub struct Ledger {
    spent: Spent,
    sent_ns: u64,
    received_ns: u64,
    /// Up to when it is filled in.
    upto_ns: u64,
    last: Seen,
    /// When data last went out, and came in, ns; between two samples, or before the first one where it answered something.
    moved_ns: (Option<u64>, Option<u64>),
    rwnd_us: u64,
    sndbuf_us: u64,
    acked: u64,
    received: u64,
    /// Segments with data, in and out.
    segments: (u32, u32),
    /// Samples of each state; those of the two that need a role count at [`State::Owing`] (received last) and
    /// [`State::Awaiting`] (sent last).
    instants: [u32; State::ALL.len()],
    pub(crate) duplex: bool,
    /// From when on it is filled in.
    since_ns: u64,
    /// The longest that what came since then was not read, since the last of it came, ms.
    pub(crate) unread_ms: u32,
}

impl Ledger {
    /// The first sample of an end, which also counts for the time since it was established, or, for an older one,
    /// since the recording began.
    pub(crate) fn begin(row: &Socket, since_ns: u64, older: bool) -> Ledger {
        let now = Seen::of(row);
        let mut ledger = Ledger {
            spent: Spent::default(),
            sent_ns: 0,
            received_ns: 0,
            upto_ns: since_ns,
            last: now,
            moved_ns: (None, None),
            rwnd_us: 0,
            sndbuf_us: 0,
            acked: row.bytes_acked.unwrap_or(0),
            received: row.bytes_received.unwrap_or(0),
            segments: (0, 0),
            instants: [0; State::ALL.len()],
            duplex: false,
            since_ns,
            unread_ms: 0,
        };
        if older {
            // What was counted before the recording is not its time.
            ledger.rwnd_us = row.rwnd_limited_us.unwrap_or(0);
            ledger.sndbuf_us = row.sndbuf_limited_us.unwrap_or(0);
            ledger.segments = segments(row);
        }
        ledger.sample(row);
        // What went before the first sample may be a greeting, and the answer to a login; later words answer something.
        let answered = |asked: Option<u32>, said: Option<u32>, ms: Option<u32>| {
            let ago = u64::from(ms?) * MS;
            (asked? > 2 && said? > 1).then(|| row.time_ns.saturating_sub(ago))
        };
        let (came, went) = (row.data_segs_in, row.data_segs_out);
        ledger.moved_ns = (
            answered(came, went, row.last_data_sent_ms),
            answered(went, came, row.last_data_recv_ms),
        );
        ledger
    }

    /// The next sample.
    pub(crate) fn sample(&mut self, row: &Socket) {
        let (from, to) = (self.upto_ns, row.time_ns.max(self.upto_ns));
        let moved_last = Seen::of(row);
        let streams = match moved_last {
            Seen::Received => Some(State::Receiving),
            Seen::Sent => Some(State::Path),
            Seen::Is(_) => None,
        };
        let streams = streams.filter(|_| self.streams(row, moved_last, to - from));
        let now = streams.map_or(moved_last, Seen::Is);
        let goes_on = streams.is_some();
        if goes_on && self.last == moved_last {
            // So it was no request that ended there.
            self.last = now;
        }
        self.segments = segments(row);
        let silent_ms = row.last_data_recv_ms.unwrap_or(0);
        let came_ns = row.time_ns.saturating_sub(u64::from(silent_ms) * MS);
        if row.recv_queue.is_some_and(|bytes| bytes > 0) && came_ns >= self.since_ns {
            self.unread_ms = self.unread_ms.max(silent_ms);
        }
        let held = self.held_back(row, to - from);
        let moved = |ms: Option<u32>, ever: Option<u32>| {
            let ago = u64::from(ms?) * MS;
            ever.filter(|n| *n > 0)?;
            Some(row.time_ns.saturating_sub(ago).clamp(from, to))
        };
        let sent = moved(row.last_data_sent_ms, row.data_segs_out);
        let received = moved(row.last_data_recv_ms, row.data_segs_in);
        let since = |at: Option<u64>| at.filter(|ns| *ns > from);
        self.moved_ns.0 = since(sent).or(self.moved_ns.0);
        self.moved_ns.1 = since(received).or(self.moved_ns.1);
        let (first, second, between) = match (sent, received) {
            (Some(s), Some(r)) if goes_on => (s.min(r), s.max(r), now),
            (Some(s), Some(r)) if r <= s => (r, s, Seen::Received),
            (Some(s), Some(r)) => (s, r, Seen::Sent),
            (Some(s), None) => (s, s, self.last),
            (None, Some(r)) => (r, r, self.last),
            (None, None) => (to, to, self.last),
        };
        // If nothing moved in between, nothing shows when the state changed: the first sample's holds.
        let still = first <= from && second <= from;
        let now_or_last = if still { self.last } else { now };
        // What held data back did so for most of the time that data took to move.
        let left = to - from - held;
        let part = |ns: u64| scaled(ns, left, to - from);
        let (until, exchange) = (part(first - from), part(second - first));
        self.put(self.last, until);
        self.put(between, exchange);
        self.put(now_or_last, left - until - exchange);
        self.upto_ns = to;
        self.last = now;
        self.count(now);
    }

    /// Whether what moved last is part of a stream: many segments for each that went the other way, and the last so
    /// recent that the next may be on its way.
    fn streams(&self, row: &Socket, moved_last: Seen, over_ns: u64) -> bool {
        let now = segments(row);
        let came = now.0.saturating_sub(self.segments.0);
        let went = now.1.saturating_sub(self.segments.1);
        let (these, others, silent_ms) = match moved_last {
            Seen::Sent => (went, came, row.last_data_sent_ms),
            _ => (came, went, row.last_data_recv_ms),
        };
        if these < STREAM_SEGMENTS.saturating_mul(others.saturating_add(1)) {
            return false;
        }
        let gap_ns = over_ns / u64::from(these);
        let silent_ns = u64::from(silent_ms.unwrap_or(0)) * MS;
        // A tick of the kernel's clock is up to 10 ms, and may be the rest of the silence.
        silent_ns <= gap_ns.saturating_mul(STREAM_GAPS).max(10 * MS)
    }

    /// Time that the kernel itself counted as waiting for window or send buffer, at most `most` ns.
    fn held_back(&mut self, row: &Socket, most: u64) -> u64 {
        let rise = |now: Option<u64>, before: &mut u64| {
            let now = now.unwrap_or(*before);
            let by = now.saturating_sub(*before);
            *before = now;
            by.saturating_mul(US)
        };
        let window = rise(row.rwnd_limited_us, &mut self.rwnd_us).min(most);
        let buffer = rise(row.sndbuf_limited_us, &mut self.sndbuf_us).min(most - window);
        self.spent.add(State::PeerWindow, window);
        self.spent.add(State::SendBuffer, buffer);
        let acked = rise(row.bytes_acked, &mut self.acked) / US;
        let received = rise(row.bytes_received, &mut self.received) / US;
        self.duplex |= acked.min(received) >= DUPLEX_BYTES;
        window + buffer
    }

    fn put(&mut self, seen: Seen, ns: u64) {
        match seen {
            // Counted by the kernel, and added above.
            Seen::Is(State::PeerWindow) => self.spent.add(State::Path, ns),
            Seen::Is(state) => self.spent.add(state, ns),
            Seen::Sent => self.sent_ns = self.sent_ns.saturating_add(ns),
            Seen::Received => self.received_ns = self.received_ns.saturating_add(ns),
        }
    }

    fn count(&mut self, seen: Seen) {
        let at = match seen {
            Seen::Is(state) => state,
            Seen::Sent => State::Awaiting,
            Seen::Received => State::Owing,
        };
        let n = &mut self.instants[at as usize];
        *n = n.saturating_add(1);
    }

    /// Time by state up to the end of the connection or of the recording.
    pub(crate) fn spent(&self, role: Role, until_ns: u64) -> Spent {
        let mut spent = self.spent;
        spent.add(Seen::Sent.state(role), self.sent_ns);
        spent.add(Seen::Received.state(role), self.received_ns);
        let rest = until_ns.saturating_sub(self.upto_ns);
        spent.add(self.last.state(role), rest);
        spent
    }

    /// When the server's data last moved, as far as it was no greeting, ns: it answers, whatever was asked since.
    pub(crate) fn answered_ns(&self, role: Role) -> Option<u64> {
        match role {
            Role::Server => self.moved_ns.0,
            Role::Client => self.moved_ns.1,
            Role::Unknown => None,
        }
    }

    /// What the last sample shows.
    pub(crate) fn last(&self, role: Role) -> State {
        self.last.state(role)
    }

    /// Samples by state.
    pub(crate) fn instants(&self, role: Role) -> Spent {
        let mut all = Spent::default();
        for state in State::ALL {
            let n = u64::from(self.instants[state as usize]);
            let state = match state {
                State::Owing => Seen::Received.state(role),
                State::Awaiting => Seen::Sent.state(role),
                other => other,
            };
            all.add(state, n);
        }
        all
    }
}

/// Segments with data, in and out.
fn segments(row: &Socket) -> (u32, u32) {
    (
        row.data_segs_in.unwrap_or(0),
        row.data_segs_out.unwrap_or(0),
    )
}

/// `ns` × `part` ÷ `whole`.
fn scaled(ns: u64, part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        _ => (u128::from(ns) * u128::from(part) / u128::from(whole)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use recording::{TcpState, Text};

    const S: u64 = 1_000_000_000;

    fn sampled(time_ns: u64, sent_ms: u32, received_ms: u32) -> Socket {
        Socket {
            time_ns,
            state: TcpState::Established,
            inode: Some(7),
            congestion: Some(Text::from("cubic")),
            data_segs_out: Some(1),
            data_segs_in: Some(1),
            last_data_sent_ms: Some(sent_ms),
            last_data_recv_ms: Some(received_ms),
            ..Socket::default()
        }
    }

    #[test]
    fn a_slow_answer_counts_as_owed_by_the_server_and_as_awaited_by_the_client() {
        // Asked at 1 s, not yet answered at 3 s.
        let mut server = Ledger::begin(&sampled(S / 2, 100, 100), 0, true);
        server.sample(&sampled(3 * S, 2_600, 2_000));
        let spent = server.spent(Role::Server, 4 * S);
        assert_eq!((spent.of(State::Owing), spent.of(State::Idle)), (3 * S, S));
        let mut client = Ledger::begin(&sampled(S / 2, 100, 100), 0, true);
        client.sample(&sampled(3 * S, 2_000, 2_600));
        let spent = client.spent(Role::Client, 4 * S);
        assert_eq!((spent.of(State::Awaiting), spent.total()), (3 * S, 4 * S));
    }

    #[test]
    fn an_answer_that_was_given_counts_though_no_sample_fell_into_it() {
        let mut server = Ledger::begin(&sampled(S, 500, 500), 0, true);
        // Asked 300 ms ago, answered 100 ms ago.
        server.sample(&sampled(2 * S, 100, 300));
        let spent = server.spent(Role::Server, 2 * S);
        assert_eq!(spent.of(State::Owing), S / 5);
        assert_eq!(spent.total(), 2 * S);
    }

    #[test]
    fn an_answer_that_a_request_follows_at_once_was_given() {
        let at = |time_ns, words, sent_ms, received_ms| Socket {
            data_segs_in: Some(words + 1),
            data_segs_out: Some(words),
            last_ack_recv_ms: Some(received_ms),
            unacked: Some(0),
            ..sampled(time_ns, sent_ms, received_ms)
        };
        // What went before the first sample may be a greeting.
        let mut server = Ledger::begin(&at(S, 1, 500, 400), 0, true);
        assert_eq!(server.answered_ns(Role::Server), None);
        server.sample(&at(2 * S, 1, 1_500, 1_400));
        assert_eq!(server.answered_ns(Role::Server), None);
        // A long poll ends, and the next begins in the same tick.
        server.sample(&at(3 * S, 2, 300, 300));
        server.sample(&at(9 * S, 2, 6_300, 6_300));
        assert_eq!(server.last(Role::Server), State::Owing);
        assert_eq!(server.answered_ns(Role::Server), Some(3 * S - 300 * MS));
        // It had answered before the recording began.
        let server = Ledger::begin(&at(20 * S, 2, 9_000, 8_999), 15 * S, true);
        assert_eq!(server.answered_ns(Role::Server), Some(11 * S));
    }

    #[test]
    fn time_that_the_kernel_counted_is_taken_as_it_is() {
        let mut end = Ledger::begin(&sampled(S, 0, 900), 0, true);
        let mut row = sampled(2 * S, 0, 1_900);
        (row.rwnd_limited_us, row.sndbuf_limited_us) = (Some(600_000), Some(100_000));
        row.notsent_bytes = Some(10_000);
        end.sample(&row);
        let spent = end.spent(Role::Client, 2 * S);
        assert_eq!(spent.of(State::PeerWindow), 600 * MS);
        assert_eq!(spent.of(State::SendBuffer), 100 * MS);
        assert_eq!(spent.total(), 2 * S);
    }

    #[test]
    fn an_upload_that_goes_on_owes_no_answer() {
        let at = |time_ns, segments, silent_ms| Socket {
            data_segs_in: Some(segments),
            data_segs_out: Some(0),
            ..sampled(time_ns, 0, silent_ms)
        };
        let mut server = Ledger::begin(&at(S, 10, 0), 0, true);
        server.sample(&at(2 * S, 1_010, 2));
        let spent = server.spent(Role::Server, 3 * S);
        assert_eq!(
            (spent.of(State::Owing), spent.of(State::Receiving)),
            (S, 2 * S)
        );
        // It ended 2 s ago.
        server.sample(&at(5 * S, 2_010, 2_000));
        let spent = server.spent(Role::Server, 5 * S);
        assert_eq!(
            (spent.of(State::Owing), spent.of(State::Receiving)),
            (3 * S, 2 * S)
        );
    }

    #[test]
    fn nobody_owes_an_answer_to_an_upload_that_goes_on() {
        let at = |time_ns, segments, silent_ms| Socket {
            data_segs_in: Some(1),
            data_segs_out: Some(segments),
            ..sampled(time_ns, silent_ms, 5_000)
        };
        let spent = |segments: u32| {
            let mut client = Ledger::begin(&at(S, 10, 0), 0, true);
            client.sample(&at(2 * S, 10 + segments, 2));
            let spent = client.spent(Role::Client, 3 * S);
            (spent.of(State::Path), spent.of(State::Awaiting))
        };
        assert_eq!(spent(1_000), (2 * S, 0));
        // A request of ten segments.
        assert_eq!(spent(10).0, 0);
    }

    proptest! {
        #[test]
        fn states_partition_the_time(
            rows in prop::collection::vec(any::<(u32, u32, u32, u64, u64, u8)>(), 1..20),
            since in 0..u64::from(u32::MAX),
            older: bool,
        ) {
            let row = |(time, sent, received, rwnd, sndbuf, kind): &(u32, u32, u32, u64, u64, u8)| {
                let mut row = sampled((*time).into(), *sent, *received);
                (row.rwnd_limited_us, row.sndbuf_limited_us) = (Some(*rwnd), Some(*sndbuf));
                row.recv_queue = Some((kind & 1).into());
                row.notsent_bytes = Some((kind & 2).into());
                row.data_segs_in = Some((kind & 4).into());
                row.data_segs_out = (kind & 8 > 0).then_some(1);
                row
            };
            let mut ledger = Ledger::begin(&row(&rows[0]), since, older);
            rows[1..].iter().for_each(|r| ledger.sample(&row(r)));
            let latest = rows.iter().map(|r| u64::from(r.0)).max().unwrap_or(0);
            let until = latest.max(since);
            for role in [Role::Server, Role::Client, Role::Unknown] {
                prop_assert_eq!(ledger.spent(role, until).total(), until - since);
                prop_assert_eq!(ledger.instants(role).total(), rows.len() as u64);
            }
        }
    }
}
