//! How much a store may hold.

use std::time::Duration;

/// What a store may hold; what is more goes, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What is older goes.
    pub keep: Duration,
    /// Bytes on disk.
    pub most: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            keep: Duration::from_secs(7 * 24 * 3600),
            most: 4 << 30,
        }
    }
}

/// A recording of a store is no longer than this.
const LONGEST: Duration = Duration::from_secs(1800);
impl Bounds {
    /// A recording that is full is one part in so many of what the store may hold: the oldest takes little with it.
    pub(crate) const PARTS: u64 = 16;

    /// Whether a recording that lasts so long, and has so many bytes, is to be followed by the next.
    pub fn is_full(&self, lasts: Duration, bytes: u64) -> bool {
        lasts >= LONGEST.min(self.keep / Bounds::PARTS as u32) || bytes >= self.most / Bounds::PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_store_has_short_recordings() {
        let week = Bounds::default();
        assert!(!week.is_full(Duration::from_secs(1799), 0));
        assert!(week.is_full(Duration::from_secs(1800), 0));
        assert!(week.is_full(Duration::ZERO, 256 << 20));
        let hour = Bounds {
            keep: Duration::from_secs(3600),
            most: 160 << 20,
        };
        assert!(hour.is_full(Duration::from_secs(225), 0));
        assert!(hour.is_full(Duration::ZERO, 10 << 20));
    }
}
