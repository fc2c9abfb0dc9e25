//! Ctrl-C and SIGTERM as a flag that waits look at, so that destructors run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Error;

/// How often a wait looks at what it waits for.
const POLL: Duration = Duration::from_millis(5);

/// Whether the user wants the lab to end. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that SIGINT, SIGTERM and SIGHUP set, in place of ending the process.
    pub fn on_signals() -> Result<Stop, Error> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, stop.0.clone())
                .map_err(Error::io("catching signals"))?;
        }
        Ok(stop)
    }

    /// Asks for the end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until `ready` gives something; fails when the user stops it or `budget` is spent.
    pub fn wait<T>(
        &self,
        what: &str,
        budget: Duration,
        mut ready: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + budget;
        loop {
            if self.is_set() {
                return Err(Error::Interrupted);
            }
            // The budget is looked at before the last try: a machine that slept through it all
            // still gets one.
            let last = Instant::now() >= deadline;
            if let Some(value) = ready()? {
                return Ok(value);
            }
            if last {
                return Err(Error::Timeout {
                    what: what.to_string(),
                    seconds: budget.as_secs(),
                });
            }
            std::thread::sleep(POLL);
        }
    }
}
