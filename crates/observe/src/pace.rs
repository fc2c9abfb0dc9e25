//! How often a sampling thread may work: a host with a million sockets is sampled less often rather
//! than slowed down.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How much of a CPU rounds may use, by how much more or less than where nobody says what recording may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance(f64);

impl Allowance {
    /// Of who records with `--max-cpu`, percent of one CPU. Bounds of rounds are as they are for 10 %: all of them
    /// together then take up to two thirds of that.
    pub fn of(max_cpu: Option<f64>) -> Allowance {
        Allowance(max_cpu.map_or(1.0, |percent| percent / 10.0))
    }

    /// What is one part in `most` where nobody says: one part in so many.
    pub fn part_in(self, most: u32) -> u32 {
        (f64::from(most) / self.0).round().clamp(1.0, 1e6) as u32
    }
}

/// The time between the rounds of one thread.
pub struct Pace {
    wanted: Duration,
    /// Rounds may use one part in so many of a CPU.
    most: u32,
    /// Time until the next round.
    pub interval: Duration,
    /// Time that cheap rounds left for a dear one: some do more than others, every fifth reads settings.
    saved: Duration,
    /// The interval that was told last, or was wanted.
    told: Duration,
    began: Duration,
}

/// As many rounds of nothing may a dear one have saved up.
const SAVED_ROUNDS: u32 = 10;

impl Pace {
    /// Rounds every `wanted` as long as they use less than one part in `most` of a CPU, on average, or what
    /// the allowance makes of it.
    pub fn new(wanted: Duration, most: u32, allowance: Allowance) -> Pace {
        Pace {
            wanted,
            most: allowance.part_in(most),
            interval: wanted,
            saved: Duration::ZERO,
            told: wanted,
            began: Duration::ZERO,
        }
    }

    /// A round begins.
    pub fn begin(&mut self) {
        // CPU time, not time: on a host that is busy with other things a round takes long as well.
        self.began = thread_cpu();
    }

    /// A round has ended. Says so when the next ones come much later than the last ones did.
    pub fn end(&mut self) -> Option<String> {
        self.used(thread_cpu().saturating_sub(self.began))
    }

    /// The same of a round that used so much CPU time.
    pub fn used(&mut self, used: Duration) -> Option<String> {
        // What has to pass before that much CPU time is a fair share of it.
        let price = used * self.most;
        self.interval = self.wanted.max(price.saturating_sub(self.saved));
        let saved = (self.saved + self.interval).saturating_sub(price);
        self.saved = saved.min(self.wanted * SAVED_ROUNDS);
        let slowed = self.interval > self.told * 2;
        if slowed {
            self.told = self.interval;
        }
        slowed.then(|| {
            format!(
                "takes {} of CPU: once every {}",
                short(used),
                short(self.interval)
            )
        })
    }
}

/// In a whole number of the largest unit in which it is one at least.
fn short(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.0} s"),
        s if s >= 1e-3 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Allowance = Allowance(1.0);

    #[test]
    fn who_lets_recording_take_more_has_more_samples() {
        let second = Duration::from_secs(1);
        let after = |max_cpu| {
            let mut pace = Pace::new(second, 50, Allowance::of(max_cpu));
            pace.used(second / 5);
            pace.interval
        };
        assert_eq!(after(None), after(Some(10.0)));
        assert_eq!(after(None), 10 * second);
        assert_eq!(after(Some(5.0)), 20 * second);
        assert_eq!(after(Some(100.0)), second);
        assert_eq!(Allowance::of(Some(1e9)).part_in(50), 1);
        assert_eq!(Allowance::of(Some(1e-9)).part_in(50), 1_000_000);
    }

    #[test]
    fn a_dear_round_is_said_once_and_comes_less_often() {
        let wanted = Duration::from_millis(1);
        let mut pace = Pace::new(wanted, 50, USUAL);
        let busy = |pace: &mut Pace| {
            pace.begin();
            while thread_cpu() - pace.began < wanted * 2 {
                std::hint::spin_loop();
            }
            pace.end()
        };
        assert!(busy(&mut pace).unwrap().contains("every"));
        assert!(pace.interval >= wanted * 100);
        pace.told = Duration::from_secs(1); // whatever the host did meanwhile
        assert_eq!(busy(&mut pace), None, "not slower than before");
        pace.begin();
        assert_eq!(pace.end(), None);
        assert!(pace.interval < Duration::from_secs(1));
        pace.used(Duration::from_secs(1));
        assert!(
            pace.interval >= Duration::from_secs(49),
            "of another thread"
        );
    }

    #[test]
    fn cheap_rounds_pay_for_a_dear_one() {
        let wanted = Duration::from_secs(1);
        let mut pace = Pace::new(wanted, 50, USUAL);
        for _ in 0..4 {
            assert_eq!(pace.used(Duration::from_millis(4)), None);
        }
        // They left 0.8 s each.
        assert_eq!(pace.used(Duration::from_millis(80)), None);
        assert_eq!(pace.interval, wanted);
        let says = pace.used(Duration::from_millis(80)).expect("it is slowed");
        assert!(
            says.contains("takes 80 ms of CPU: once every 4 s"),
            "{says}"
        );
    }

    #[test]
    fn what_slows_down_little_by_little_is_said() {
        let mut pace = Pace::new(Duration::from_secs(1), 50, USUAL);
        assert_eq!(pace.used(Duration::from_millis(38)), None);
        assert!(pace.used(Duration::from_millis(70)).is_some());
        assert_eq!(pace.used(Duration::from_millis(130)), None);
        assert!(pace.used(Duration::from_millis(150)).is_some());
    }

    #[test]
    fn a_long_rest_pays_for_no_long_work() {
        let wanted = Duration::from_secs(1);
        let mut pace = Pace::new(wanted, 50, USUAL);
        for _ in 0..1_000 {
            pace.used(Duration::ZERO);
        }
        pace.used(Duration::from_secs(1));
        assert_eq!(pace.interval, Duration::from_secs(40));
    }
}
