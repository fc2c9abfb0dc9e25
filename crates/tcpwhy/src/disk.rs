//! Whether the disk that is recorded to has room for more: something stays free for everybody else.

use std::path::Path;

use rustix::fs::statvfs;

/// One part in so many of a file system stays free, and no more than so much: programs that write there fail without.
const FREE_IN: u64 = 20;
const MOST_FREE: u64 = 64 << 20;

/// A store does not grow where less is free than journald(8) leaves to others by default (KeepFree= of journald.conf(5)).
const SHORT_PERCENT: u64 = 15;
const MOST_SHORT: u64 = 4 << 30;

/// What is to stay free where recordings go.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// A recording that becomes one file beside is there twice for a while.
    twice: bool,
}

impl Disk {
    /// Of a recording that is packed on the same file system, or of one that stays as it is.
    pub fn new(twice: bool) -> Disk {
        Disk { twice }
    }

    /// Why no more may be recorded into `dir`, which has so many bytes of it. Of a file system that does not say how
    /// full it is, nothing.
    pub fn full(self, dir: &Path, written: u64) -> Option<String> {
        let (free, all) = room(dir)?;
        let needed = if self.twice { written } else { 0 };
        (all > 0 && free < stays(all) + needed).then(|| {
            format!(
                "{}: {} MB are free on its disk: the rest is left to others",
                dir.display(),
                free / 1_000_000
            )
        })
    }

    /// Whether a store in `dir` is not to grow.
    pub fn is_short(self, dir: &Path) -> bool {
        room(dir).is_some_and(|(free, all)| free < (all / 100 * SHORT_PERCENT).min(MOST_SHORT))
    }
}

/// What is free on a file system, and what it has in all, bytes.
fn room(dir: &Path) -> Option<(u64, u64)> {
    let is = statvfs(dir).ok()?;
    Some((is.f_bavail * is.f_frsize, is.f_blocks * is.f_frsize))
}

fn stays(all: u64) -> u64 {
    (all / FREE_IN).min(MOST_FREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_stays_free() {
        assert_eq!(stays(20_000_000), 1_000_000);
        assert_eq!(stays(1 << 40), MOST_FREE);
        let here = std::env::temp_dir();
        assert_eq!(Disk::new(false).full(&here, 0), None);
        assert!(Disk::new(true).full(&here, u64::MAX / 2).is_some());
        assert_eq!(Disk::new(true).full(Path::new("/proc"), 0), None);
    }
}
