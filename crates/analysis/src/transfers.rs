//! What samples and retransmissions say of how data moved over each connection.

use ahash::AHashMap;
use recording::tables::{Event, Socket};
use recording::{RetransmitKind, RowRef, Text};

use super::conn::{BULK_BYTES, Conn, ConnId};
use super::fold::Moved;
use super::held_here::HeldHere;
use super::resends::{KEPT_RTTS, Resends, Rtts};
use super::shut::Shut;
use super::slots::Slots;
use super::stalls::{Passed, Progress, STALL, Stall, Way, Ways};
use crate::bounded::{BoundedMap, Interest};

/// Connections followed; at most 1 kB each. Beyond that, those that moved least are in the counters only.
const MAX_TRANSFERS: usize = 1 << 16;
/// Rows kept per kind; the rest is counted.
const KEPT_ROWS: usize = 3;
/// A transfer that fills a link has more segments than this in flight.
const MIN_FLIGHT: f64 = 4.0;
/// A rate over less busy time than this is that of a few round trips, µs.
const PEAK_US: u64 = 100_000;
/// No connection was busy for longer than 12 days of a recording: a larger value is made up, µs.
const LONGEST_US: u64 = 1 << 40;
/// A ceiling of the pacing rate from this on is none: all bits set, of a field that was 32 bits wide once.
const LEAST_UNPACED: u64 = u32::MAX as u64;
/// What is received comes in segments of at least this many bytes, as far as is known: the default MSS (RFC 9293,
/// 3.7.1).
const LEAST_MSS: u32 = 536;
/// A millisecond, and the longest tick of the kernel's clock, ns.
const MS: u64 = 1_000_000;
const TICK_NS: u64 = 10 * MS;

/// All transfers.
#[derive(Debug, Default)]
pub struct Transfers {
    of_conn: BoundedMap<ConnId, Box<Transfer>, MAX_TRANSFERS>,
    /// Segments retransmitted after the handshake, per namespace.
    resends: AHashMap<u32, u64>,
    ways: Ways,
    slots: Slots,
}

/// How data moved over one end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    /// The counts at the first sample, zero where the connection is younger than the recording.
    base: Counts,
    last: Counts,
    /// From the base to the last sample, ns.
    pub span_ns: u64,
    base_ns: u64,
    /// Congestion control.
    pub congestion: Text,
    /// Segment size for sending, bytes.
    pub mss: u32,
    /// Least round-trip time, µs.
    pub min_rtt_us: u32,
    /// The retransmission timeout without its backoff, µs.
    pub rto_us: u32,
    /// Samples.
    pub samples: u32,
    /// Samples with segments in flight, and the sum of those segments.
    pub flying: u32,
    in_flight: u64,
    /// Of these, samples in which a whole segment waited to be sent, or the congestion window was full: then the
    /// application is not the limit.
    pub pressed: u32,
    /// The most in one sample.
    pub most_unacked: u32,
    /// Smoothed round trips in samples with segments in flight, or with some delivered since the one before, µs.
    pub rtts: Rtts,
    /// The same with their mean deviation added, µs.
    pub late_rtts: Rtts,
    /// Of the samples with segments in flight, those in which the send buffer was half full or more, all of it in
    /// flight, and both windows had room for more.
    pub all_sent: u32,
    /// Of these, those in which it was nearly full.
    pub brimful: u32,
    /// In its last sample neither TCP_NODELAY nor TCP_CORK was set.
    pub nagle: bool,
    /// Samples in which less than a segment was unsent, although the windows had room for it,
    /// something was in flight, and neither TCP_NODELAY nor TCP_CORK was set: Nagle's algorithm held it.
    pub held: u32,
    /// Samples in which less than a segment was unsent with nothing in flight and room in both windows: its program asked
    /// the kernel to wait for more (TCP_CORK, MSG_MORE).
    pub kept_back: u32,
    /// Of these, those in which TCP_CORK was set.
    pub corked: u32,
    /// Rows of some of them.
    pub kept_back_rows: Vec<RowRef>,
    /// Samples in which the application had left something to read, and the most it left, bytes.
    pub unread: u32,
    /// Bytes received and not read at the base, and in the last sample.
    left: (u32, u32),
    /// Bytes received and not read, per sample.
    pub unread_bytes: Vec<u32>,
    /// Samples in which the window offered to the peer had no room for two segments.
    pub closed: u32,
    /// Limit of the receive buffer, bytes.
    pub rcvbuf: u32,
    /// Whether the application set that.
    pub rcvbuf_set: Option<bool>,
    /// What its kernel knows of how it is read.
    pub taken: Taken,
    /// Limit of the send buffer, bytes.
    pub sndbuf: u32,
    /// Whether the application set that.
    pub sndbuf_set: Option<bool>,
    /// Memory charged for what was in it, summed over the samples with segments in flight, bytes.
    queued: u64,
    /// The best rate between two samples while there was something to send, bytes per second.
    pub peak: f64,
    /// Rows of samples that show what the counts above tell.
    pub rows: Vec<RowRef>,
    /// Segments retransmitted, by what sent them.
    pub resends: Resends,
    /// A segment retransmitted on the timer, time after time.
    pub stall: Stall,
    /// Its own kernel fails to send what it has, up to its last sample.
    pub held_here: Option<HeldHere>,
    /// The longest time that the peer's window was closed to what waited to be sent.
    pub shut: Option<Shut>,
    /// The same for the latest samples.
    shutting: Option<Shut>,
}

/// Transfers that hang come first, then those that moved most, either way, whether they lost much or little: a loss
/// rate must not depend on what was folded.
impl Interest for Transfer {
    fn interest(&self) -> u64 {
        let came = self.received() / u64::from(self.mss.max(LEAST_MSS));
        let moved = self.segments().saturating_add(came).min(u32::MAX.into());
        u64::from(self.stall.timeouts >= STALL) << 32 | moved
    }
    fn counted(&self) -> u64 {
        self.resends.count().saturating_add(self.samples.into())
    }
}

/// Cumulative counts of a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    acked: u64,
    received: u64,
    segments: u64,
    segments_in: u64,
    delivered: u64,
    dsacks: u64,
    reordered: u64,
    busy_us: u64,
    rwnd_us: u64,
    sndbuf_us: u64,
}

impl Transfers {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.of_conn.folded() + self.ways.folded()
    }

    pub(super) fn new(start_ns: u64, end_ns: u64) -> Transfers {
        Transfers {
            slots: Slots::new(start_ns, end_ns),
            ..Transfers::default()
        }
    }

    pub(super) fn sample(&mut self, id: ConnId, conn: &Conn, at: RowRef, row: &Socket) {
        let younger = conn.established_ns;
        let transfer = self.entry(id);
        if transfer.samples == 0 && younger.is_none() {
            transfer.stall.first_sample(row);
        }
        let progress = transfer.sample(at, row, younger);
        transfer.stall.sample(at, row);
        if let Some(progress) = progress {
            let way = (conn.netns, conn.local.addr, conn.remote.addr);
            self.ways.progress(way, row.time_ns, progress);
        }
    }

    /// A connection was established.
    pub(super) fn established(&mut self, row: &Event) {
        self.ways.established(row);
    }

    /// A segment was retransmitted, after the handshake; `id` when its connection is known.
    pub(super) fn resent(&mut self, id: Option<ConnId>, at: RowRef, row: &Event) {
        *self.resends.entry(row.netns).or_default() += 1;
        let slot = self.slots.bit(row.time_ns);
        let passed = self.passed((row.netns, row.local_addr, row.remote_addr));
        let Some(id) = id else { return };
        let transfer = self.entry(id);
        let moved = match transfer.samples {
            0 => 0,
            _ => transfer.last.acked.max(transfer.last.received),
        };
        if row.retransmit_kind == Some(RetransmitKind::Rto) {
            transfer.stall.timeout(at, row, passed, moved);
        }
        let spoken = moved > 0;
        let resends = &mut transfer.resends;
        let first = row.attempt.is_none_or(|nth| nth <= 1) && row.seq != resends.waited_seq;
        if spoken
            && first
            && matches!(
                row.retransmit_kind,
                Some(RetransmitKind::Rto | RetransmitKind::Tlp)
            )
        {
            resends.waited += 1;
            resends.waited_seq = row.seq;
        }
        match row.retransmit_kind {
            Some(RetransmitKind::Fast | RetransmitKind::Rack) => resends.fast += 1,
            Some(RetransmitKind::Tlp) => resends.probes += 1,
            Some(RetransmitKind::Rto) => resends.timeouts += 1,
            _ => resends.other += 1,
        }
        resends.slots |= slot;
        resends.rtts.add(row.rtt_us.unwrap_or(0));
        keep(&mut resends.rows, at);
    }

    fn entry(&mut self, id: ConnId) -> &mut Transfer {
        self.of_conn.slot(id, Box::default)
    }

    /// Connection ids have changed; what moved over connections that are gone is counted with them.
    pub(super) fn moved(&mut self, moved: &Moved) {
        let of_conn = std::mem::take(&mut self.of_conn);
        self.of_conn = of_conn.rekeyed(|id| moved.to(id));
    }

    /// How data moved over a connection; `None` when it was never sampled nor disturbed.
    pub fn of(&self, id: ConnId) -> Option<&Transfer> {
        self.of_conn.get(&id).map(Box::as_ref)
    }

    /// What is known to have passed from one address to another.
    pub fn passed(&self, way: Way) -> Option<Passed> {
        self.ways.get(way)
    }

    /// Segments that a namespace retransmitted after handshakes.
    pub fn resent_in(&self, netns: u32) -> u64 {
        self.resends.get(&netns).copied().unwrap_or(0)
    }
}

/// Keeps the first rows of a kind.
pub(super) fn keep(rows: &mut Vec<RowRef>, at: RowRef) {
    if rows.len() < KEPT_ROWS {
        rows.push(at);
    }
}

/// What a receiver's kernel knows of how its application reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// The widest window that it offered, bytes.
    pub widest_wnd: u32,
    /// The most that its application took within a round trip, bytes.
    pub space: u32,
    /// Its estimate of the round trip in the last sample that had one, µs.
    pub rtt_us: u32,
    /// Limit of the receive buffer in the first sample, bytes: the kernel lets it grow as it is filled.
    pub first_rcvbuf: u32,
}

impl Taken {
    fn see(&mut self, row: &Socket) {
        self.widest_wnd = self.widest_wnd.max(row.rcv_wnd.unwrap_or(0));
        self.space = self.space.max(row.rcv_space.unwrap_or(0));
        self.rtt_us = row.rcv_rtt_us.filter(|us| *us > 0).unwrap_or(self.rtt_us);
        if self.first_rcvbuf == 0 {
            self.first_rcvbuf = row.rcvbuf.unwrap_or(0);
        }
    }
}

/// When the last data that was acknowledged had left, to the tick, ns; 0 when that is not known.
fn sent_ns(row: &Socket) -> u64 {
    let ago = row.last_data_sent_ms.filter(|_| row.unacked == Some(0));
    ago.map_or(0, |ms| {
        let ago_ns = u64::from(ms).saturating_mul(MS).saturating_add(TICK_NS);
        row.time_ns.saturating_sub(ago_ns)
    })
}

impl Transfer {
    /// Takes a sample; gives what it shows to have been acknowledged since the one before.
    fn sample(
        &mut self,
        at: RowRef,
        row: &Socket,
        established_ns: Option<u64>,
    ) -> Option<Progress> {
        let counts = Counts {
            acked: row.bytes_acked.unwrap_or(0),
            received: row.bytes_received.unwrap_or(0),
            segments: row.data_segs_out.unwrap_or(0).into(),
            segments_in: row.data_segs_in.unwrap_or(0).into(),
            delivered: row.delivered.unwrap_or(0).into(),
            dsacks: row.dsack_dups.unwrap_or(0).into(),
            reordered: row.reord_seen.unwrap_or(0).into(),
            busy_us: row.busy_us.unwrap_or(0),
            rwnd_us: row.rwnd_limited_us.unwrap_or(0),
            sndbuf_us: row.sndbuf_limited_us.unwrap_or(0),
        };
        if self.samples == 0 {
            // A connection that we saw open has counted from zero since then.
            self.base = established_ns.map_or(counts, |_| Counts::default());
            self.base_ns = established_ns.unwrap_or(row.time_ns);
            self.left.0 = established_ns.map_or(row.recv_queue.unwrap_or(0), |_| 0);
            self.congestion = row.congestion.clone().unwrap_or_default();
        }
        let acked = counts.acked.saturating_sub(self.last.acked);
        let busy_us = counts.busy_us.saturating_sub(self.last.busy_us);
        let known = self.samples > 0 || established_ns.is_some();
        if known && acked >= BULK_BYTES && busy_us >= PEAK_US {
            let rate = super::stats::ratio(acked as f64 * 1e6, busy_us as f64);
            self.peak = self.peak.max(rate.unwrap_or(0.0));
        }
        let progress = (known && acked > 0).then(|| Progress {
            since_ns: sent_ns(row).max(self.base_ns.saturating_add(self.span_ns)),
            bytes: acked,
            // The handshake counts as the first.
            segments: counts.delivered.saturating_sub(self.last.delivered.max(1)),
            mss: row.snd_mss.unwrap_or(0),
        });
        self.shutting = Shut::after(self.shutting, at, row);
        if let Some(now) = self.shutting
            && self
                .shut
                .is_none_or(|longest| now.lasts_ns() >= longest.lasts_ns())
        {
            self.shut = Some(now);
        }
        self.resends.waited_sampled = self.resends.waited;
        let measured = known && counts.delivered > self.last.delivered;
        self.samples = self.samples.saturating_add(1);
        self.last = counts;
        self.span_ns = row.time_ns.saturating_sub(self.base_ns);
        self.mss = row.snd_mss.unwrap_or(self.mss);
        self.rcvbuf = row.rcvbuf.unwrap_or(self.rcvbuf);
        self.rcvbuf_set = row.rcvbuf_set.or(self.rcvbuf_set);
        self.taken.see(row);
        self.sndbuf = row.sndbuf.unwrap_or(self.sndbuf);
        self.sndbuf_set = row.sndbuf_set.or(self.sndbuf_set);
        if let Some(min) = row.min_rtt_us.filter(|us| *us > 0) {
            self.min_rtt_us = match self.min_rtt_us {
                0 => min,
                known => known.min(min),
            };
        }
        match row.backoff.unwrap_or(0) {
            0 => self.rto_us = row.rto_us.unwrap_or(self.rto_us),
            // It doubles each time.
            n if self.rto_us == 0 => self.rto_us = row.rto_us.unwrap_or(0) >> n.min(31),
            _ => {}
        }
        let unacked = row.unacked.unwrap_or(0);
        self.most_unacked = self.most_unacked.max(unacked);
        if unacked > 0 {
            self.flying += 1;
            self.in_flight += u64::from(unacked);
            self.queued += u64::from(row.wmem_queued.unwrap_or(0));
        }
        // A connection whose requests are in step with the samples has nothing in flight in any of them.
        if unacked > 0 || measured {
            let rtt = row.rtt_us.unwrap_or(0);
            self.rtts.add(rtt);
            let late = rtt.saturating_add(row.rttvar_us.unwrap_or(0));
            self.late_rtts.add(late);
        }
        let unsent = row.notsent_bytes.unwrap_or(0);
        let cwnd = row.cwnd.unwrap_or(u32::MAX);
        if unacked > 0 && (unacked >= cwnd || unsent >= self.mss.max(1)) {
            self.pressed += 1;
        }
        let room = row.cwnd.unwrap_or(0) > unacked
            && u64::from(row.snd_wnd.unwrap_or(0))
                > u64::from(unacked) * u64::from(self.mss) + u64::from(unsent);
        let charged = u64::from(row.wmem_queued.unwrap_or(0));
        let limit = u64::from(row.sndbuf.unwrap_or(u32::MAX));
        if unacked > 0 && unsent < self.mss && room && charged * 2 >= limit {
            self.all_sent += 1;
            self.brimful += u32::from(charged * 10 >= limit * 9);
        }
        self.nagle = row.nodelay != Some(true) && row.corked != Some(true);
        if self.nagle && unacked > 0 && unsent > 0 && unsent < self.mss && room {
            self.held += 1;
            keep(&mut self.rows, at);
        }
        // A paced sender waits for its time.
        let paced = row.max_pacing_rate.is_some_and(|rate| rate < LEAST_UNPACED);
        self.held_here = HeldHere::after(self.held_here, at, row);
        let kept = unacked == 0 && unsent > 0 && unsent < self.mss && room && !paced;
        if kept && self.held_here.is_none() {
            self.kept_back += 1;
            self.corked += u32::from(row.corked == Some(true));
            keep(&mut self.kept_back_rows, at);
        }
        let unread = row.recv_queue.unwrap_or(0);
        self.left.1 = unread;
        if unread > 0 {
            self.unread += 1;
            if self.unread_bytes.len() < KEPT_RTTS {
                self.unread_bytes.push(unread);
            }
            keep(&mut self.rows, at);
        }
        let two = row.rcv_mss.unwrap_or(0).saturating_mul(2);
        if row.rcv_wnd.is_some_and(|wnd| wnd < two) {
            self.closed += 1;
        }
        if self.rows.is_empty() || unacked > 0 {
            keep(&mut self.rows, at);
        }
        progress
    }

    /// Bytes acknowledged by the peer.
    pub fn acked(&self) -> u64 {
        self.last.acked.saturating_sub(self.base.acked)
    }

    /// Bytes received.
    pub fn received(&self) -> u64 {
        self.last.received.saturating_sub(self.base.received)
    }

    /// Bytes that its application read: the receive buffer took the others.
    pub fn read(&self) -> u64 {
        let came = self.received().saturating_add(self.left.0.into());
        came.saturating_sub(self.left.1.into())
    }

    /// Segments with data that were sent, those retransmitted included.
    pub fn segments(&self) -> u64 {
        self.last.segments.saturating_sub(self.base.segments)
    }

    /// Segments with data that came.
    pub fn segments_in(&self) -> u64 {
        self.last.segments_in.saturating_sub(self.base.segments_in)
    }

    /// Segments that the peer said it had got twice.
    pub fn twice(&self) -> u64 {
        self.last.dsacks.saturating_sub(self.base.dsacks)
    }

    /// Times that segments were seen to overtake each other.
    pub fn reordered(&self) -> u64 {
        self.last.reordered.saturating_sub(self.base.reordered)
    }

    /// Time with something to send, µs.
    pub fn busy_us(&self) -> u64 {
        let us = self.last.busy_us.saturating_sub(self.base.busy_us);
        us.min(LONGEST_US)
    }

    /// Of that, time spent waiting for the peer's window, µs.
    pub fn rwnd_us(&self) -> u64 {
        let us = self.last.rwnd_us.saturating_sub(self.base.rwnd_us);
        us.min(LONGEST_US)
    }

    /// Of that, time in which all that the send buffer holds was in flight and the application waited for room, µs.
    /// The kernel begins to count when it sends while the application waits: if all writes were sent at once, it
    /// counts nothing.
    pub fn sndbuf_us(&self) -> u64 {
        let us = self.last.sndbuf_us.saturating_sub(self.base.sndbuf_us);
        us.min(LONGEST_US)
    }

    /// Whether it had more to send than it could, more often than not; any other transfer goes at its application's
    /// pace. Time spent waiting for the peer's window or for the send buffer shows it, and so do samples with
    /// something in flight. A transfer that had nothing in flight in any sample counts if it was busy for half the
    /// time.
    pub fn had_bulk(&self) -> bool {
        let (busy_us, held_us) = (
            self.busy_us(),
            self.rwnd_us().saturating_add(self.sndbuf_us()),
        );
        let waited = busy_us > 0 && held_us >= busy_us.div_ceil(2);
        waited
            || match self.flying {
                0 => busy_us.saturating_mul(2_000) >= self.span_ns,
                flying => self.pressed >= flying.div_ceil(2),
            }
    }

    /// Whether it is a transfer that keeps more than a few segments in flight: if its path has a queue, it fills it.
    pub fn fills_path(&self) -> bool {
        let mss = f64::from(self.mss.max(1));
        self.acked() >= BULK_BYTES && self.flying >= 2 && self.in_flight_bytes() >= MIN_FLIGHT * mss
    }

    /// Bytes in flight in the samples that had some, on average.
    pub fn in_flight_bytes(&self) -> f64 {
        let segments = self.in_flight as f64 / f64::from(self.flying.max(1));
        segments * f64::from(self.mss)
    }

    /// Memory charged for the send buffer in the samples that had segments in flight, on average, bytes.
    pub fn queued_bytes(&self) -> f64 {
        self.queued as f64 / f64::from(self.flying.max(1))
    }

    /// Bytes acknowledged per second of the time with something to send.
    pub fn busy_rate(&self) -> f64 {
        super::stats::ratio(self.acked() as f64 * 1e6, self.busy_us() as f64).unwrap_or(0.0)
    }

    /// Bytes acknowledged per second, over the whole span.
    pub fn rate(&self) -> f64 {
        super::stats::ratio(self.acked() as f64 * 1e9, self.span_ns as f64).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection whose requests are in step with the samples has nothing in flight in any of them, but its round
    /// trip is measured again and again.
    #[test]
    fn round_trips_are_known_between_requests_too() {
        let mut transfer = Transfer::default();
        let at = RowRef {
            table: "socket",
            segment: 0,
            row: 0,
        };
        let mut sample = |delivered, rtt_us| {
            let row = Socket {
                unacked: Some(0),
                delivered: Some(delivered),
                rtt_us: Some(rtt_us),
                ..Socket::default()
            };
            transfer.sample(at, &row, None);
        };
        // A round trip measured before the recording may be old, and so may one that nothing has renewed.
        for (delivered, rtt_us) in [(5, 20_000), (9, 75_000), (9, 76_000), (12, 74_000)] {
            sample(delivered, rtt_us);
        }
        assert_eq!(transfer.rtts.all(), [75_000, 74_000]);
        assert_eq!(transfer.flying, 0);
    }

    #[test]
    fn what_the_application_holds_had_no_bulk() {
        let held = |unacked, unsent, busy_ms: u64, waited_ms: u64| {
            let mut transfer = Transfer::default();
            let at = RowRef {
                table: "socket",
                segment: 0,
                row: 0,
            };
            let row = Socket {
                time_ns: 1_000_000_000,
                snd_mss: Some(1_448),
                cwnd: Some(10),
                unacked: Some(unacked),
                notsent_bytes: Some(unsent),
                busy_us: Some(busy_ms * 1_000),
                rwnd_limited_us: Some(waited_ms * 500),
                sndbuf_limited_us: Some(waited_ms * 500),
                ..Socket::default()
            };
            transfer.sample(at, &row, Some(0));
            transfer.had_bulk()
        };
        let of = |unacked, unsent, busy_ms| held(unacked, unsent, busy_ms, 0);
        // The congestion window is full, or segments wait for the peer's.
        assert!(of(10, 0, 1_000) && of(2, 1_448, 1_000));
        // The application writes only as much as can be sent.
        assert!(!of(2, 0, 1_000) && !of(9, 700, 1_000));
        // Nor is it the application while the peer's window or the send buffer is full.
        assert!(held(2, 0, 1_000, 500) && !held(2, 0, 1_000, 498));
        assert!(held(0, 0, 100, 50) && !held(0, 0, 0, 0));
        // Between two transfers nothing is in flight.
        assert!(of(0, 0, 500) && !of(0, 0, 499));
    }
}
