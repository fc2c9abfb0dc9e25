//! The hog: uses one CPU in user mode, all of it or in turns.

use std::time::{Duration, Instant};

use super::args::HogArgs;
use crate::Stop;

/// How often the flag that ends the hog is looked at.
const TICK: Duration = Duration::from_millis(10);

/// Runs until the flag is set or the lifetime is over.
pub(super) fn run(args: &HogArgs, stop: &Stop) {
    std::thread::sleep(ms(args.after_ms));
    let end = Instant::now() + Duration::from_secs_f64(args.lifetime);
    let over = || stop.is_set() || Instant::now() >= end;
    while !over() {
        if args.rest_ms == 0.0 {
            spin(TICK);
            continue;
        }
        spin(ms(args.busy_ms));
        std::thread::sleep(ms(args.rest_ms));
    }
}

/// Uses so much CPU time of the calling thread, however long it takes to get it.
pub(super) fn work(time: Duration) {
    let used = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.max(0) as u64, now.tv_nsec as u32)
    };
    let until = used() + time;
    while used() < until {
        std::hint::spin_loop();
    }
}

fn spin(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}
