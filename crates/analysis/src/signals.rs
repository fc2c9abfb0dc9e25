//! Who stopped processes.

use recording::tables::Signal;
use recording::{Error, Recording, RowRef, SignalName};

/// Stops that are kept: the last ones.
const MAX_STOPS: usize = 1 << 12;

/// The signals that stopped processes, in order of time.
#[derive(Debug, Default)]
pub struct Signals {
    stops: Vec<(RowRef, Signal)>,
    /// Older ones.
    pub(crate) folded: u64,
}

impl Signals {
    pub(crate) fn read(recording: &Recording) -> Result<Signals, Error> {
        let mut signals = Signals::default();
        for batch in recording.scan::<Signal>()? {
            for (at, row) in batch?.rows() {
                signals.add(at, row);
            }
        }
        Ok(signals)
    }

    fn add(&mut self, at: RowRef, row: Signal) {
        if matches!(row.signal, SignalName::Continue | SignalName::Unknown(_)) {
            return;
        }
        if self.stops.len() >= 2 * MAX_STOPS {
            self.stops.drain(..MAX_STOPS);
            self.folded += MAX_STOPS as u64;
        }
        self.stops.push((at, row));
    }

    /// The last that stopped a process.
    pub fn stop_of(&self, pid: u32) -> Option<(RowRef, &Signal)> {
        let stop = self.stops.iter().rev().find(|(_, stop)| stop.pid == pid)?;
        Some((stop.0, &stop.1))
    }
}
