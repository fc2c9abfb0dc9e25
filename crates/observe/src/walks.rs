//! The CPU time that walks over sockets may use, those of all namespaces together.
//!
//! The kernel has one table for all namespaces, which each walk goes through from end to end: 2.6 ms for
//! 262,144 buckets, and more for what is in them. A namespace without sockets is not walked; when there are
//! more walks than the budget allows, those where something moved go first. The first round and the last are
//! over everything: how long they may take is said elsewhere (`patience`).

use std::time::Duration;

use crate::pace::Allowance;

/// A namespace where nothing moved is walked this often, whatever the others need: it may have begun to
/// listen, or its application to read.
const AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// The budget, round by round.
pub struct Walks {
    /// Time between rounds.
    wanted: Duration,
    /// Walks may use one part in so many of a CPU.
    most: u32,
    /// This round is over everything.
    whole: bool,
    /// What is left of the budget in this round; below zero it is owed.
    left_ns: i64,
    /// What it would take to walk all that have sockets, this round, and how many they are.
    needed: Duration,
    namespaces: u32,
    /// Time between two walks of one namespace, if all take turns.
    every: Duration,
}

impl Walks {
    /// For rounds every `wanted`. Who asks for more than one a second pays for it.
    pub fn new(wanted: Duration, allowance: Allowance) -> Walks {
        let most = u32::try_from(wanted.as_millis() / 10).map_or(100, |most| most.clamp(5, 100));
        let most = allowance.part_in(most);
        Walks {
            wanted,
            most,
            whole: false,
            left_ns: 0,
            needed: Duration::ZERO,
            namespaces: 0,
            every: wanted,
        }
    }

    /// A round begins, so long after the last one. What was not used then is not kept.
    pub fn begin(&mut self, after: Duration, whole: bool) {
        self.whole = whole;
        self.left_ns = self.left_ns.min(0) + nanos(after / self.most);
        self.needed = Duration::ZERO;
        self.namespaces = 0;
    }

    /// Whether a namespace with sockets shall be walked that was walked so long ago, if ever, and in which something
    /// `moved` since or did not.
    pub fn allow(&self, ago: Option<Duration>, moved: bool) -> bool {
        if self.whole {
            return true;
        }
        let scarce = self.every > self.wanted;
        let long_ago = ago.is_none_or(|ago| ago >= AT_LEAST_EVERY);
        self.left_ns > 0 && (moved || !scarce || long_ago)
    }

    /// There is a namespace with sockets; its last walk used so much CPU time.
    pub fn wants(&mut self, cost: Duration) {
        self.needed += cost;
        self.namespaces += 1;
    }

    /// A walk used so much.
    pub fn used(&mut self, cpu: Duration) {
        if !self.whole {
            self.left_ns -= nanos(cpu);
        }
    }

    /// The round has ended. Says so when the walks of a namespace come much later than they did.
    pub fn end(&mut self) -> Option<String> {
        let every = self.wanted.max(self.needed * self.most);
        let slowed = every > self.every * 2;
        self.every = every;
        slowed.then(|| {
            format!(
                "walks over the sockets of {} network namespace{} take {} ms of CPU: all of them once every \
                 {:.0} s, those in which nothing moved less often",
                self.namespaces,
                if self.namespaces == 1 { "" } else { "s" },
                self.needed.as_millis(),
                every.as_secs_f64()
            )
        })
    }
}

fn nanos(time: Duration) -> i64 {
    time.as_nanos().try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const WALK: Duration = Duration::from_micros(2_600);

    /// How often each of `moving` and `still` namespaces is walked in so many rounds, one a second; and what
    /// was said.
    fn walked(moving: usize, still: usize, rounds: u32) -> (Vec<u32>, Vec<String>) {
        let mut walks = Walks::new(SECOND, Allowance::of(None));
        let mut last = vec![(0, 0); moving + still];
        let mut times = vec![0; moving + still];
        let mut said = Vec::new();
        for round in 1..=rounds {
            walks.begin(SECOND, false);
            let mut order: Vec<usize> = (0..moving + still).collect();
            order.sort_by_key(|n| (*n >= moving, last[*n]));
            for (turn, n) in order.into_iter().enumerate() {
                walks.wants(WALK);
                if walks.allow(Some(SECOND * (round - last[n].0)), n < moving) {
                    walks.used(WALK);
                    last[n] = (round, turn);
                    times[n] += 1;
                }
            }
            said.extend(walks.end());
        }
        (times, said)
    }

    #[test]
    fn what_fits_is_walked_every_round() {
        let (times, said) = walked(2, 1, 50);
        assert_eq!(times, [50, 50, 50]);
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn the_budget_holds_over_all_and_what_is_left_out_is_said() {
        let (times, said) = walked(40, 0, 300);
        let cpu = WALK * times.iter().sum::<u32>();
        assert!(cpu <= 3 * SECOND + WALK, "1 % of 300 s: {cpu:?}");
        assert!(cpu >= 2 * SECOND, "and it is used: {cpu:?}");
        assert!(times.iter().all(|n| times[0].abs_diff(*n) <= 1), "in turn");
        assert_eq!(said.len(), 1, "once: {said:?}");
        assert!(said[0].contains("of 40 network namespaces take 104 ms"));
        assert!(said[0].contains("once every 10 s"));
    }

    #[test]
    fn where_something_moves_goes_first_and_no_other_is_forgotten() {
        let (times, _) = walked(3, 100, 300);
        assert!(times[..3].iter().all(|n| *n >= 250), "{:?}", &times[..3]);
        assert!(times[3..].iter().all(|n| (2..=8).contains(n)), "{times:?}");
    }

    #[test]
    fn a_round_over_everything_owes_nothing() {
        let mut walks = Walks::new(SECOND, Allowance::of(None));
        walks.begin(Duration::ZERO, true);
        walks.wants(Duration::ZERO);
        assert!(walks.allow(None, false));
        walks.used(100 * SECOND);
        assert!(walks.allow(None, false), "whatever it costs");
        assert_eq!(walks.end(), None);
        walks.begin(SECOND, false);
        assert!(walks.allow(None, false), "nothing is owed");
        walks.used(SECOND);
        assert!(!walks.allow(None, true), "one that is new has its turn");
    }
}
