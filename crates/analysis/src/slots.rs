//! A recording in parts of equal length: in which of them something happened.

/// How many parts.
pub const SLOTS: u32 = 32;

/// The parts of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slots {
    start_ns: u64,
    length_ns: u64,
}

impl Slots {
    pub(crate) fn new(start_ns: u64, end_ns: u64) -> Slots {
        Slots {
            start_ns,
            length_ns: end_ns.saturating_sub(start_ns).max(1),
        }
    }

    /// The bit of the part that a moment is in; what is outside of the recording is in the first or the last.
    pub fn bit(&self, time_ns: u64) -> u32 {
        let length = self.length_ns.max(1);
        let since = time_ns.saturating_sub(self.start_ns).min(length - 1);
        let slot = u128::from(since) * u128::from(SLOTS) / u128::from(length);
        1 << (slot as u32).min(SLOTS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_in_one_of_them() {
        let slots = Slots::new(1_000, 33_000);
        assert_eq!([0, 1_000, 1_999].map(|ns| slots.bit(ns)), [1, 1, 1]);
        assert_eq!(slots.bit(2_000), 2);
        assert_eq!(
            [32_999, 33_000, u64::MAX].map(|ns| slots.bit(ns)),
            [1 << 31; 3]
        );
        assert_eq!(Slots::new(5, 5).bit(5), 1);
        assert_eq!(Slots::default().bit(7), 1);
    }
}
