//! A source whose records come through a ring buffer, and the loop of the thread that drains it.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use libbpf_rs::MapCore;

use crate::error::Error;
use crate::health::HealthLog;
use crate::ring::{DRAIN_EVERY, LOOK_FOR_LOSSES_EVERY, drain, ring};
use crate::worker::{Control, Report};

/// A source that is attached.
pub trait RingSource {
    /// Its ring.
    fn ring(&self) -> &dyn MapCore;

    /// How often the ring is drained.
    fn drain_every(&self) -> Duration {
        DRAIN_EVERY
    }

    /// Its verdicts, and what was lost so far.
    fn report(&self) -> Report;

    /// The recording has begun, at this moment (ns): what was summed up before is no part of it.
    fn begin(&mut self, _from_ns: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Everything is recorded: here is time for what need not be there before.
    fn begun(&mut self) {}

    /// Takes a record.
    fn take(&mut self, record: &[u8]) -> Result<(), Error>;

    /// Detaches; what is in the ring stays.
    fn stop(&mut self, health: &HealthLog) -> Result<(), Error>;

    /// What is to be done when the ring was drained; for the last time when the source was stopped.
    fn drained(&mut self, _health: &HealthLog, _stopped: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Once a second, and at last when the source was stopped: says what was lost since.
    fn look(&mut self, health: &HealthLog, stopped: bool) -> Result<(), Error>;

    /// Seals the segments that are due.
    fn seal_if_due(&mut self) -> Result<(), Error>;

    /// Seals all rows.
    fn seal(&mut self) -> Result<(), Error>;
}

/// Waits for the recording to begin, says that the source is ready, and drains it until told to stop.
pub fn run(
    source: impl RingSource,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let every = source.drain_every();
    let source = RefCell::new(source);
    let (recording, failed) = (Cell::new(false), RefCell::new(None));
    let ring = ring(source.borrow().ring(), |record| {
        let mut failed = failed.borrow_mut();
        if failed.is_none() && recording.get() {
            *failed = source.borrow_mut().take(record).err();
        }
    })?;
    let from_ns = control.begin(|| drain(&ring).map(drop))?;
    // What is in the ring now came before, or in the moment since.
    drain(&ring)?;
    recording.set(true);
    source.borrow_mut().begin(from_ns)?;
    control.ready(source.borrow().report());
    source.borrow_mut().begun();
    let take_all = || {
        let more = drain(&ring)?;
        failed.take().map_or(Ok(more), Err)
    };
    let mut looked = Instant::now();
    loop {
        let stopping = control.stopping(every);
        take_all()?;
        if stopping {
            source.borrow_mut().stop(health)?;
            // What happened before the end is not lost.
            while take_all()? {}
        }
        let mut attached = source.borrow_mut();
        attached.drained(health, stopping)?;
        if stopping || looked.elapsed() >= LOOK_FOR_LOSSES_EVERY {
            looked = Instant::now();
            attached.look(health, stopping)?;
        }
        if stopping {
            attached.seal()?;
            return Ok(attached.report());
        }
        attached.seal_if_due()?;
    }
}
