//! From the kernel's records of signals to rows of the table `signal`: who stopped a process, and let it go on.

use recording::tables::Signal;
use recording::{SignalName, TableWriter};

use crate::error::Error;
use crate::wire::{read, text, tw_signal};

/// By their numbers, from SIGCONT on.
const NAMES: [SignalName; 5] = [
    SignalName::Continue,
    SignalName::Stop,
    SignalName::TerminalStop,
    SignalName::TerminalInput,
    SignalName::TerminalOutput,
];
const FIRST: u32 = 18;

/// Rows of the table.
pub struct Signals(TableWriter<Signal>);

impl Signals {
    /// Rows for `table`.
    pub fn new(table: TableWriter<Signal>) -> Signals {
        Signals(table)
    }

    /// One was sent.
    pub fn sent(&mut self, record: &[u8]) -> Result<(), Error> {
        let Some(s) = read::<tw_signal>(record) else {
            return Ok(());
        };
        let Some(signal) = name(s.signal) else {
            return Ok(());
        };
        let by_kernel = s.sender_pid == 0;
        Ok(self.0.push(Signal {
            time_ns: s.time_ns,
            signal,
            pid: s.pid,
            comm: text(&s.comm).into(),
            sender_pid: (!by_kernel).then_some(s.sender_pid),
            sender_comm: (!by_kernel).then(|| text(&s.sender_comm).into()),
        })?)
    }

    /// Writes what is due.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        Ok(self.0.seal_if_due()?)
    }

    /// Writes everything.
    pub fn finish(&mut self) -> Result<(), Error> {
        Ok(self.0.seal()?)
    }
}

fn name(number: u32) -> Option<SignalName> {
    let at = number.checked_sub(FIRST)?;
    NAMES.get(usize::try_from(at).ok()?).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_kernels_numbers() {
        assert_eq!(name(19), Some(SignalName::Stop));
        assert_eq!(name(18), Some(SignalName::Continue));
        assert_eq!(name(20), Some(SignalName::TerminalStop));
        assert_eq!(name(22), Some(SignalName::TerminalOutput));
        assert_eq!((name(17), name(23), name(0)), (None, None, None));
    }
}
