//! Segments that hang: retransmitted on the timer, time after time, while other things pass.

use recording::tables::{Event, Socket};
use recording::{Addr, RowRef};

use crate::bounded::{BoundedMap, Interest};

/// Pairs of addresses tracked for what passed between them; a host talks to fewer.
const MAX_WAYS: usize = 1 << 16;
/// This many timeouts of one segment in a row are a stall: at a loss of one packet in twenty that happens to one
/// segment in 160,000.
pub const STALL: u64 = 3;
/// What our own SYN adds to the bytes acknowledged.
const SYN: u64 = 1;
/// If segments average this share of the largest, some of them were full: a message that takes more than one segment
/// fills them to more than half.
const FULL: f64 = 0.5;

/// One direction between two addresses: the namespace of the sender, its address, the other's.
pub type Way = (u32, Addr, Addr);

/// What is known to have passed, by direction.
#[derive(Debug, Default)]
pub(super) struct Ways(BoundedMap<Way, Passed, MAX_WAYS>);

/// What is known to have passed in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Something passed after this moment, ns.
    since_ns: u64,
    /// The largest segments that passed at their full size, bytes, and when they last did, ns.
    full: Option<(u32, u64)>,
    /// The largest mean of the segments that one connection got acknowledged between two samples,
    /// bytes: one of them was as large as that.
    pub mean: u32,
    /// How often something passed.
    times: u64,
}

/// Ranked by when something last passed: that is what a segment that hangs now is compared with.
impl Interest for Passed {
    fn interest(&self) -> u64 {
        self.since_ns
    }
    fn counted(&self) -> u64 {
        self.times
    }
}

/// What a sample shows to have been acknowledged since the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// When that was.
    pub(super) since_ns: u64,
    pub(super) bytes: u64,
    pub(super) segments: u64,
    pub(super) mss: u32,
}

impl Ways {
    /// How often something passed in a direction beyond the bound.
    pub(super) fn folded(&self) -> u64 {
        self.0.folded()
    }

    fn of(&mut self, way: Way) -> &mut Passed {
        let passed = self.0.slot(way, Passed::default);
        passed.times += 1;
        passed
    }

    /// A handshake was completed: a packet of either end was answered.
    pub(super) fn established(&mut self, row: &Event) {
        let way = (row.netns, row.local_addr, row.remote_addr);
        let passed = self.of(way);
        passed.since_ns = passed.since_ns.max(row.time_ns);
    }

    /// A connection has got something acknowledged.
    pub(super) fn progress(&mut self, way: Way, time_ns: u64, progress: Progress) {
        let passed = self.of(way);
        passed.since_ns = passed.since_ns.max(progress.since_ns);
        if progress.segments == 0 {
            return;
        }
        let mean = progress.bytes / progress.segments;
        let mean = u32::try_from(mean).unwrap_or(u32::MAX).min(progress.mss);
        passed.mean = passed.mean.max(mean);
        let full = progress.segments >= 2 && f64::from(mean) >= FULL * f64::from(progress.mss);
        if full && passed.full.is_none_or(|(mss, _)| mss <= progress.mss) {
            passed.full = Some((progress.mss, time_ns));
        }
    }

    pub(super) fn get(&self, way: Way) -> Option<Passed> {
        self.0.get(&way).copied()
    }
}

impl Passed {
    /// Whether something is known to have passed after a moment.
    pub fn since(&self, time_ns: u64) -> bool {
        self.since_ns > time_ns
    }

    /// Whether full segments of at least this size passed after a moment.
    pub fn full_since(&self, mss: u32, time_ns: u64) -> bool {
        self.full
            .is_some_and(|(passed, last_ns)| passed >= mss && last_ns >= time_ns)
    }
}

/// Timeouts in a row, all of one segment.
#[derive(Clone, Debug, Default)]
pub struct Stall {
    seq: u32,
    /// No other segment was retransmitted on the timer since.
    open: bool,
    /// The first, or the first sample of one that hung already.
    pub first_ns: u64,
    /// The last, or the last sample of one that hung already.
    pub last_ns: u64,
    /// The one before the last, after which nothing had come by the last: this one failed for sure.
    pub failed_ns: u64,
    /// Something had been acknowledged or received before it.
    pub spoken: bool,
    /// How many were seen.
    pub timeouts: u64,
    /// How many the first sample had counted, for a connection that already hung when the recording began and has had
    /// nothing acknowledged since.
    pub before: u64,
    /// Bytes acknowledged then.
    acked: u64,
    /// Timeouts that came after something else had passed in the same direction since the first one.
    pub beside: u64,
    /// The first and the last.
    pub rows: [Option<RowRef>; 2],
    /// The latest sample meanwhile.
    pub seen: Option<Stuck>,
}

/// A sample of a connection that hangs.
#[derive(Clone, Copy, Debug)]
pub struct Stuck {
    /// The sample.
    pub row: RowRef,
    /// Sent and not acknowledged: bytes and segments.
    pub bytes: u32,
    /// Segments in flight.
    pub segments: u32,
    /// Segments among these that arrived after the one that hangs.
    pub sacked: u32,
    /// Segment size, bytes.
    pub mss: u32,
    /// The kernel's MTU for the path, bytes.
    pub pmtu: u32,
    /// Bytes acknowledged or received until then, the larger; the SYN counts as one.
    pub moved: u64,
    /// Window that the peer offers, bytes.
    pub window: u32,
    /// Timeouts in a row, as the socket counts them.
    pub counted: u64,
    /// Timeouts in a row seen until then, with those before the recording.
    pub timeouts: u64,
    /// How long after the last of these it was, ns.
    pub after_ns: u64,
}

impl Stall {
    /// Takes a timeout: another one of the same segment, or the first of a new one. Of several stalls the first is
    /// kept. `moved` is how many bytes had passed on the connection.
    pub(super) fn timeout(&mut self, at: RowRef, row: &Event, passed: Option<Passed>, moved: u64) {
        let Some(seq) = row.seq else { return };
        if self.timeouts == 0 && self.before > 0 {
            self.seq = seq;
            self.rows[0] = Some(at);
        } else if self.timeouts == 0 || seq != self.seq {
            if self.timeouts >= STALL {
                self.open = false;
                return;
            }
            *self = Stall {
                seq,
                first_ns: row.time_ns,
                spoken: moved > SYN,
                rows: [Some(at), None],
                ..Stall::default()
            };
        } else {
            self.rows[1] = Some(at);
        }
        self.open = true;
        self.timeouts += 1;
        self.failed_ns = self.last_ns;
        self.last_ns = row.time_ns;
        if passed.is_some_and(|p| p.since_ns > self.first_ns) {
            self.beside += 1;
        }
    }

    /// How many: those seen, and those before the recording.
    pub fn in_a_row(&self) -> u64 {
        self.before.saturating_add(self.timeouts)
    }

    /// The first sample of a connection that is older than the recording.
    pub(super) fn first_sample(&mut self, row: &Socket) {
        let counted = u64::from(row.rto_count.unwrap_or(0));
        if self.timeouts == 0 && counted >= STALL && row.unacked.unwrap_or(0) > 0 {
            *self = Stall {
                open: true,
                first_ns: row.time_ns,
                before: counted,
                acked: row.bytes_acked.unwrap_or(0),
                ..Stall::default()
            };
        }
    }

    pub(super) fn sample(&mut self, at: RowRef, row: &Socket) {
        if self.before > 0 {
            if row.bytes_acked.is_some_and(|acked| acked != self.acked) {
                *self = Stall::default();
                return;
            }
            self.last_ns = self.last_ns.max(row.time_ns);
        }
        let counted = row.rto_count.unwrap_or(0);
        let segments = row.unacked.unwrap_or(0);
        if !self.open || counted == 0 || segments == 0 {
            return;
        }
        let moved = row.bytes_acked.max(row.bytes_received).unwrap_or(0);
        self.spoken |= moved > SYN;
        let queued = row.send_queue.unwrap_or(0);
        self.seen = Some(Stuck {
            row: at,
            bytes: queued.saturating_sub(row.notsent_bytes.unwrap_or(0)),
            segments,
            sacked: row.sacked.unwrap_or(0),
            mss: row.snd_mss.unwrap_or(0),
            pmtu: row.pmtu.unwrap_or(0),
            moved,
            window: row.snd_wnd.unwrap_or(0),
            counted: counted.into(),
            timeouts: self.in_a_row(),
            after_ns: row.time_ns.saturating_sub(self.last_ns),
        });
    }
}

impl Stuck {
    /// Whether full segments hang: more than one segment's worth is in flight, in pieces that are more than half full
    /// on average, as every segment of a write but the last is full.
    pub fn is_full(&self) -> bool {
        let most = u64::from(self.segments) * u64::from(self.mss);
        self.mss > 0 && self.bytes >= self.mss && u64::from(self.bytes) * 2 >= most
    }
}
