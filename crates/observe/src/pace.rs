//! How often a sampling thread may work: a host with a million sockets is sampled less often rather
//! than slowed down.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A round may use one part in so many of a CPU.
const MOST_OF_THE_TIME: u32 = 50;

/// The time between the rounds of one thread.
pub struct Pace {
    wanted: Duration,
    /// Time until the next round.
    pub interval: Duration,
    began: Duration,
}

impl Pace {
    /// Rounds every `wanted` as long as they are cheap.
    pub fn new(wanted: Duration) -> Pace {
        Pace {
            wanted,
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
        let used = thread_cpu().saturating_sub(self.began);
        let needed = self.wanted.max(used * MOST_OF_THE_TIME);
        let slowed = needed > self.interval * 2;
        self.interval = needed;
        slowed.then(|| {
            format!(
                "a round of samples uses {} ms of CPU: sampling every {:.0} s",
                used.as_millis(),
                needed.as_secs_f64()
            )
        })
    }
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_round_is_said_once_and_comes_less_often() {
        let wanted = Duration::from_millis(1);
        let mut pace = Pace::new(wanted);
        let busy = |pace: &mut Pace| {
            pace.begin();
            while thread_cpu() - pace.began < wanted * 2 {
                std::hint::spin_loop();
            }
            pace.end()
        };
        assert!(busy(&mut pace).unwrap().contains("every"));
        assert!(pace.interval >= wanted * 2 * MOST_OF_THE_TIME);
        pace.interval = Duration::from_secs(1); // whatever the host did meanwhile
        assert_eq!(busy(&mut pace), None, "not slower than before");
        pace.begin();
        assert_eq!(pace.end(), None);
        assert!(pace.interval < Duration::from_secs(1));
    }
}
