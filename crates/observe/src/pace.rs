//! How often a sampling thread may work: a host with a million sockets is sampled less often rather
//! than slowed down.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time between the rounds of one thread.
pub struct Pace {
    wanted: Duration,
    /// A round may use one part in so many of a CPU.
    pub most: u32,
    /// Time until the next round.
    pub interval: Duration,
    began: Duration,
}

impl Pace {
    /// Rounds every `wanted` as long as they use less than one part in `most` of a CPU.
    pub fn new(wanted: Duration, most: u32) -> Pace {
        Pace {
            wanted,
            most,
            interval: wanted,
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
        let needed = self.wanted.max(used * self.most);
        let slowed = needed > self.interval * 2;
        self.interval = needed;
        slowed.then(|| {
            format!(
                "takes {} ms of CPU: once every {:.0} s",
                used.as_millis(),
                needed.as_secs_f64()
            )
        })
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

    #[test]
    fn a_dear_round_is_said_once_and_comes_less_often() {
        let wanted = Duration::from_millis(1);
        let mut pace = Pace::new(wanted, 50);
        let busy = |pace: &mut Pace| {
            pace.begin();
            while thread_cpu() - pace.began < wanted * 2 {
                std::hint::spin_loop();
            }
            pace.end()
        };
        assert!(busy(&mut pace).unwrap().contains("every"));
        assert!(pace.interval >= wanted * 100);
        pace.interval = Duration::from_secs(1); // whatever the host did meanwhile
        assert_eq!(busy(&mut pace), None, "not slower than before");
        pace.begin();
        assert_eq!(pace.end(), None);
        assert!(pace.interval < Duration::from_secs(1));
        pace.used(Duration::from_secs(1));
        assert!(
            pace.interval >= Duration::from_secs(50),
            "of another thread"
        );
    }
}
