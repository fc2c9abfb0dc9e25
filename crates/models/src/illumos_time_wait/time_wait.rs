//! TIME_WAIT at the server, and what a SYN meets there (tcp_time_wait_processing).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::params::Params;

/// A client's end: the index of its address, and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub(super) address: u32,
    pub(super) port: u16,
}

impl End {
    /// Both in one number.
    pub(super) fn key(self) -> u64 {
        u64::from(self.address) << 16 | u64::from(self.port)
    }
}

/// One connection in TIME_WAIT.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The next sequence number expected from the client.
    expected: u32,
    /// The next that the server would send.
    sent_next: u32,
    expires_ns: u64,
}

/// What becomes of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// No TIME_WAIT is in its way.
    Nothing,
    /// It is newer: the TIME_WAIT ends, a connection begins. What the old one would have sent next.
    Older(u32),
    /// It is taken for an old duplicate: an ACK answers it, the TIME_WAIT stays.
    Newer,
    /// It lies within the window: a reset answers it, the TIME_WAIT stays.
    Window,
}

/// All TIME_WAITs of the server.
#[derive(Debug, Default)]
pub(super) struct TimeWaits {
    entries: HashMap<u64, Entry, BuildHasherDefault<Mix>>,
    /// In order of expiry, as each stays equally long. One that ended early is passed over.
    expiries: VecDeque<(u64, u64)>,
}

impl TimeWaits {
    /// A connection closed, the server first.
    pub(super) fn enter(&mut self, end: End, expected: u32, sent_next: u32, expires_ns: u64) {
        let entry = Entry {
            expected,
            sent_next,
            expires_ns,
        };
        self.entries.insert(end.key(), entry);
        self.expiries.push_back((expires_ns, end.key()));
    }

    /// A SYN comes in. The rule compares sequence numbers alone: timestamps of one host always
    /// rise, and never save a SYN here.
    pub(super) fn meet(&mut self, p: &Params, now_ns: u64, end: End, seq: u32) -> Met {
        let Some(entry) = self.entries.get(&end.key()).copied() else {
            return Met::Nothing;
        };
        if entry.expires_ns <= now_ns {
            self.entries.remove(&end.key());
            return Met::Nothing;
        }
        let gap = seq.wrapping_sub(entry.expected) as i32;
        if gap < 0 {
            Met::Newer
        } else if gap.unsigned_abs() <= p.window() {
            Met::Window
        } else {
            self.entries.remove(&end.key());
            Met::Older(entry.sent_next)
        }
    }

    /// A reset with the sequence number that is expected ends the TIME_WAIT.
    pub(super) fn reset(&mut self, end: End) {
        self.entries.remove(&end.key());
    }

    /// How many there are now.
    pub(super) fn count(&mut self, now_ns: u64) -> usize {
        while let Some((expires_ns, key)) = self.expiries.front().copied() {
            if expires_ns > now_ns {
                break;
            }
            self.expiries.pop_front();
            // It may have ended, and the same ports be in TIME_WAIT again.
            if self
                .entries
                .get(&key)
                .is_some_and(|e| e.expires_ns <= now_ns)
            {
                self.entries.remove(&key);
            }
        }
        self.entries.len()
    }

    /// How many there were at the last count, by the index of the client's address.
    pub(super) fn by_address(&self) -> BTreeMap<u32, u32> {
        let mut all = BTreeMap::new();
        for key in self.entries.keys() {
            *all.entry((key >> 16) as u32).or_default() += 1;
        }
        all
    }
}

/// Spreads the keys, which are small numbers. Not for keys that someone chose to collide.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, key: u64) {
        // The map takes the bucket from the low bits and a tag from the high ones.
        let mixed = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    const END: End = End {
        address: 0,
        port: 40_000,
    };

    fn met(seq: u32, now_ns: u64) -> (Met, usize) {
        let mut all = TimeWaits::default();
        all.enter(END, 1_000, 77, 60);
        let met = all.meet(&Params::with(&[]), now_ns, END, seq);
        (met, all.count(0))
    }

    #[test]
    fn the_distance_decides() {
        let half = 1 << 31;
        assert_eq!(met(999, 0), (Met::Newer, 1));
        assert_eq!(met(1_000 + half, 0), (Met::Newer, 1));
        assert_eq!(met(1_000, 0), (Met::Window, 1));
        assert_eq!(met(1_000 + 131_072, 0), (Met::Window, 1));
        assert_eq!(met(1_001 + 131_072, 0), (Met::Older(77), 0));
        assert_eq!(met(999 + half, 0), (Met::Older(77), 0));
    }

    #[test]
    fn one_that_expired_is_in_nobodys_way() {
        assert_eq!(met(999, 59).0, Met::Newer);
        assert_eq!(met(999, 60), (Met::Nothing, 0));
    }

    #[test]
    fn a_reset_ends_it_and_the_count_follows() {
        let mut all = TimeWaits::default();
        all.enter(END, 1, 1, 60);
        all.reset(END);
        assert_eq!(all.count(0), 0);
        // The same ports again: the earlier expiry must not take the later entry.
        all.enter(END, 1, 1, 90);
        assert_eq!((all.count(60), all.count(90)), (1, 0));
        assert!(all.expiries.is_empty());
    }
}
