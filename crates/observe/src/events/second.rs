//! The second program of a tracepoint, which takes what the first misses: attached while it is of use.

use libbpf_rs::{Link, ProgramMut};

/// So many records in one look, and none of them taken by the second program: no interrupts come in
/// the middle of the first one here, and being called for every change costs half a percent of a
/// saturated CPU.
const ENOUGH: u64 = 10_000;

/// Whether the second program is attached.
pub struct Second {
    link: Option<Link>,
    /// It was of use: it stays.
    needed: bool,
    /// Nothing is watched any more.
    over: bool,
}

/// What came of one look at the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Attach,
    Detach,
    Stay,
}

impl Second {
    /// Attached as `link`; `None` where it could not be.
    pub fn new(link: Option<Link>) -> Second {
        Second {
            link,
            needed: false,
            over: false,
        }
    }

    /// Since the last look there were so many records, of which the first program missed so many and
    /// the second took so many. What was missed while it was not attached is lost, and counted.
    pub fn look(&mut self, program: &ProgramMut, records: u64, missed: u64, caught: u64) {
        if self.over {
            return;
        }
        self.needed |= missed > 0 || caught > 0;
        match turn(self.link.is_some(), self.needed, records) {
            // Where it fails now the next loss tries again, and says so as this one did.
            Turn::Attach => self.link = program.attach().ok(),
            Turn::Detach => self.link = None,
            Turn::Stay => {}
        }
    }

    /// Detaches it for good: nothing is watched any more.
    pub fn end(&mut self) {
        self.link = None;
        self.over = true;
    }
}

fn turn(attached: bool, needed: bool, records: u64) -> Turn {
    match (attached, needed) {
        (false, true) => Turn::Attach,
        (true, false) if records >= ENOUGH => Turn::Detach,
        _ => Turn::Stay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_when_a_busy_host_does_without_and_comes_back_when_something_is_missed() {
        assert_eq!(turn(true, false, ENOUGH - 1), Turn::Stay, "not enough seen");
        assert_eq!(turn(true, false, ENOUGH), Turn::Detach);
        assert_eq!(turn(true, true, ENOUGH), Turn::Stay, "it was of use");
        assert_eq!(turn(false, false, ENOUGH), Turn::Stay);
        assert_eq!(turn(false, true, 0), Turn::Attach);
    }
}
