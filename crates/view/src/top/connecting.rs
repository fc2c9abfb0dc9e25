//! Connects under way: now, and at the ends of seconds that are past.

use std::collections::VecDeque;

use ahash::AHashMap;

/// Connects that may be under way, and ended ones that are remembered.
const MOST: usize = 1 << 16;

/// Connects that have begun, kept as long as they can be asked for.
#[derive(Debug, Default)]
pub(super) struct Connecting {
    /// When those under way began, by socket.
    began: AHashMap<u64, u64>,
    /// When those that lasted from one frame into another began and ended.
    long: VecDeque<(u64, u64)>,
}

impl Connecting {
    pub(super) fn begin(&mut self, sock: u64, now_ns: u64) {
        if self.began.len() < MOST {
            self.began.insert(sock, now_ns);
        }
    }

    /// One has ended, well or not; when it began, if that was seen.
    pub(super) fn end(&mut self, sock: u64) -> Option<u64> {
        self.began.remove(&sock)
    }

    /// Remembers one that lasted from one frame into another.
    pub(super) fn lasted(&mut self, began_ns: u64, ended_ns: u64) {
        self.long.push_back((began_ns, ended_ns));
        if self.long.len() > MOST {
            self.long.pop_front();
        }
    }

    /// Forgets what ended before this, and what began before it and has not ended: its end was lost.
    pub(super) fn forget_before(&mut self, first_ns: u64) {
        while self.long.front().is_some_and(|l| l.1 < first_ns) {
            self.long.pop_front();
        }
        self.began.retain(|_, began| *began >= first_ns);
    }

    /// How long each connect under way at a time had been so, ns.
    pub(super) fn pending(&self, at_ns: u64) -> impl Iterator<Item = u64> {
        let ended = self.long.iter().filter(move |(_, ended)| *ended >= at_ns);
        let began = ended.map(|(began, _)| began).chain(self.began.values());
        began.filter_map(move |began| at_ns.checked_sub(*began).filter(|ns| *ns > 0))
    }
}
