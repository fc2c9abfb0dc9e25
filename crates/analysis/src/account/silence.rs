//! When a service answered nothing although requests were open.

use recording::tables::Request;

/// A time in which no exchange ended, and some were under way throughout: whole seconds, so that it lasted longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Its beginning, ns since boot.
    pub from_ns: u64,
    /// Its end, ns since boot.
    pub to_ns: u64,
    /// The most exchanges that were under way when a second of it ended.
    pub open: u64,
    /// How many more were open than when its first second ended: asked meanwhile, and not answered either.
    pub asked: u64,
    /// How long all of them waited in it, ns.
    pub waited_ns: u64,
}

impl Silence {
    /// How long, ns.
    pub fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// The longest of a service, as its seconds come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silences {
    /// When the last second ended in which something was answered, or nothing asked.
    heard_ns: Option<u64>,
    pub(super) now: Option<Silence>,
    pub(super) longest: Option<Silence>,
}

impl Silences {
    /// Another second.
    pub(super) fn add(&mut self, row: &Request) {
        let open = match row.open {
            Some(open) if row.exchanges == 0 => open,
            None if row.exchanges == 0 => return,
            _ => 0,
        };
        if open == 0 {
            (self.heard_ns, self.now) = (Some(row.time_ns), None);
            return;
        }
        let from_ns = self.heard_ns.unwrap_or(row.time_ns);
        let now = self.now.get_or_insert(Silence {
            from_ns,
            to_ns: from_ns,
            open,
            asked: 0,
            waited_ns: 0,
        });
        let ns = row.time_ns.saturating_sub(now.to_ns);
        now.waited_ns = now.waited_ns.saturating_add(open.saturating_mul(ns));
        now.to_ns = row.time_ns.max(now.to_ns);
        now.asked = now.asked.saturating_add(open.saturating_sub(now.open));
        now.open = now.open.max(open);
        let longer = |longest: &Silence| longest.ns() < now.ns();
        if self.longest.as_ref().is_none_or(longer) {
            self.longest = Some(*now);
        }
    }

    /// Adds the seconds that follow; a silence that goes on from one to the other counts as two.
    pub(super) fn follow(&mut self, later: &Silences) {
        let longest = [self.longest, later.longest].into_iter().flatten();
        *self = Silences {
            longest: longest.max_by_key(Silence::ns),
            ..*later
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(seconds: &[(u64, Option<u64>)]) -> Option<(u64, u64)> {
        let mut all = Silences::default();
        for (at, (exchanges, open)) in (1..).zip(seconds) {
            all.add(&Request {
                time_ns: at * 1_000_000_000,
                exchanges: *exchanges,
                open: *open,
                ..Request::default()
            });
        }
        all.longest.map(|s| (s.ns() / 1_000_000_000, s.open))
    }

    #[test]
    fn seconds_without_an_answer_are_silent_where_somebody_waits() {
        let (busy, quiet) = ((80_000, Some(0)), (0, Some(0)));
        let waits = |n| (0, Some(n));
        assert_eq!(longest(&[busy, busy]), None);
        assert_eq!(longest(&[busy, quiet, quiet, busy]), None);
        let stalled = [busy, waits(20), waits(25), (40, Some(3)), busy];
        assert_eq!(longest(&stalled), Some((2, 25)));
        assert_eq!(
            longest(&[busy, waits(3), busy, waits(2), waits(2)]),
            Some((2, 2))
        );
        // What was open was not recorded.
        assert_eq!(
            longest(&[busy, waits(3), (0, None), waits(3)]),
            Some((3, 3))
        );
        // How long before is not known.
        assert_eq!(longest(&[waits(3)]), Some((0, 3)));
    }

    #[test]
    fn who_asks_in_the_silence_waits_as_well() {
        let mut all = Silences::default();
        for (at, (exchanges, open)) in (1..).zip([(50, 0), (0, 4), (0, 9), (0, 8), (0, 15)]) {
            all.add(&Request {
                time_ns: at * 1_000_000_000,
                exchanges,
                open: Some(open),
                ..Request::default()
            });
        }
        let longest = all.longest.unwrap();
        assert_eq!((longest.open, longest.asked), (15, 11));
        assert_eq!(longest.waited_ns, (4 + 9 + 8 + 15) * 1_000_000_000);
    }
}
