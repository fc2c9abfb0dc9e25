//! How much of each kind of trouble there was, second by second: where in a long recording it was.

use recording::tables::{Counter, Event, Socket, Thread};
use recording::{TcpState, counter};

use crate::Activity;

/// Seconds kept apart, a day of them; in longer recordings a bin is longer.
const MAX_BINS: u64 = 86_400;
const SECOND: u64 = 1_000_000_000;
/// An application that keeps up leaves less unread, bytes.
const UNREAD: u32 = 16 * 1024;
/// A round trip this many times as long as the shortest, and this much longer, µs, waits in a queue.
const LONG_TIMES: u32 = 3;
const LONG_US: u32 = 100_000;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Trouble {
    /// SYNs and SYN-ACKs retransmitted, connects that failed.
    Connects,
    /// Segments retransmitted.
    Retransmits,
    /// Resets sent and received.
    Resets,
    /// Packets dropped on this host, by listeners among others.
    Drops,
    /// Samples of connections in an accept queue.
    Unaccepted,
    /// Samples with much that the application has not read.
    Unread,
    /// Samples in which the peer's window holds data back.
    PeerWindow,
    /// Samples of long round trips.
    LongRoundTrips,
    /// Time that threads waited for a CPU, ms.
    Runnable,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Trouble; 9] = [
        Trouble::Connects,
        Trouble::Retransmits,
        Trouble::Resets,
        Trouble::Drops,
        Trouble::Unaccepted,
        Trouble::Unread,
        Trouble::PeerWindow,
        Trouble::LongRoundTrips,
        Trouble::Runnable,
    ];
}

/// Each trouble over time, in bins of a second or, in very long recordings, more.
#[derive(Debug, Default)]
pub struct Troubles {
    start_ns: u64,
    bin_ns: u64,
    bins: usize,
    /// Empty as long as there was none.
    of: [Vec<u32>; Trouble::ALL.len()],
}

impl Troubles {
    /// None yet, for a recording between these moments.
    pub(crate) fn new(start_ns: u64, end_ns: u64) -> Troubles {
        let length = end_ns.saturating_sub(start_ns);
        let bin_ns = SECOND.max(length.div_ceil(MAX_BINS));
        Troubles {
            start_ns,
            bin_ns,
            bins: length.div_ceil(bin_ns) as usize,
            of: Default::default(),
        }
    }

    /// How long a bin is, ns.
    pub fn bin_ns(&self) -> u64 {
        self.bin_ns
    }

    /// When a bin begins, ns of CLOCK_MONOTONIC.
    pub fn begins_ns(&self, bin: usize) -> u64 {
        self.start_ns
            .saturating_add((bin as u64).saturating_mul(self.bin_ns))
    }

    /// How many bins the recording has.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// How much of a trouble there was in each bin; empty if there never was any.
    pub fn of(&self, trouble: Trouble) -> &[u32] {
        &self.of[trouble as usize]
    }

    fn add(&mut self, trouble: Trouble, time_ns: u64, n: u64) {
        let Some(since) = time_ns.checked_sub(self.start_ns) else {
            return;
        };
        let bin = (since / self.bin_ns.max(1)) as usize;
        if n == 0 || bin >= self.bins {
            return;
        }
        let of = &mut self.of[trouble as usize];
        if of.is_empty() {
            of.resize(self.bins, 0);
        }
        of[bin] = of[bin].saturating_add(n.try_into().unwrap_or(u32::MAX));
    }

    pub(crate) fn event(&mut self, activity: Option<Activity>, row: &Event) {
        let trouble = match activity {
            Some(Activity::Failed | Activity::SynRetransmitted | Activity::SynAckRetransmitted) => {
                Trouble::Connects
            }
            Some(Activity::Retransmitted) => Trouble::Retransmits,
            Some(Activity::ResetSent | Activity::ResetReceived) => Trouble::Resets,
            Some(Activity::Dropped) => Trouble::Drops,
            _ => return,
        };
        self.add(trouble, row.time_ns, 1);
    }

    pub(crate) fn sample(&mut self, row: &Socket) {
        if row.state != TcpState::Established {
            return;
        }
        let mut one = |trouble, holds: bool| self.add(trouble, row.time_ns, holds.into());
        one(Trouble::Unaccepted, row.inode.is_none());
        one(Trouble::Unread, row.recv_queue.is_some_and(|n| n >= UNREAD));
        let unsent = row.notsent_bytes.unwrap_or(0) > 0;
        let mss = row.snd_mss.unwrap_or(0);
        let flying = u64::from(row.unacked.unwrap_or(0)) * u64::from(mss);
        let full = row
            .snd_wnd
            .is_some_and(|w| u64::from(w) < flying + u64::from(mss));
        one(Trouble::PeerWindow, unsent && full);
        let shortest = row.min_rtt_us.unwrap_or(0);
        let least = shortest.saturating_mul(LONG_TIMES).saturating_add(LONG_US);
        let long = row.rtt_us.is_some_and(|rtt| rtt >= least);
        one(Trouble::LongRoundTrips, flying > 0 && shortest > 0 && long);
    }

    pub(crate) fn counter(&mut self, row: &Counter) {
        let counts = |known: &str| known.split_once('.') == Some((&*row.group, &*row.name));
        if counts(counter::LISTEN_DROPS) {
            let rise = row.delta.unwrap_or(0).max(0);
            self.add(Trouble::Drops, row.time_ns, rise as u64);
        }
    }

    pub(crate) fn thread(&mut self, row: &Thread) {
        let ms = row.runqueue_ns / 1_000_000;
        self.add(Trouble::Runnable, row.time_ns, ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_and_a_week_has_longer_bins() {
        let mut troubles = Troubles::new(5 * SECOND, 15 * SECOND);
        let drops = |row: Event, troubles: &mut Troubles| {
            troubles.event(Some(Activity::Dropped), &row);
        };
        for time_ns in [1, 5, 6, 6, 14, 15, 99] {
            let time_ns = time_ns * SECOND;
            drops(
                Event {
                    time_ns,
                    ..Event::default()
                },
                &mut troubles,
            );
        }
        assert_eq!(troubles.of(Trouble::Drops), [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(troubles.of(Trouble::Resets).is_empty());
        assert_eq!(troubles.begins_ns(1), 6 * SECOND);
        let week = Troubles::new(0, 7 * 86_400 * SECOND);
        assert_eq!((week.bins() as u64, week.bin_ns()), (MAX_BINS, 7 * SECOND));
        assert_eq!(Troubles::new(3, 3).bins(), 0);
    }
}
