//! The virtual clock on that of a recording.

/// The virtual time 0 on the recording's clock, ns: no row has the time 0, which readers may take
/// for "never".
pub(crate) const START_NS: u64 = 1_000_000_000_000;
/// Segments are sealed at multiples of this in virtual time, never by the host's clock.
pub(crate) const SEGMENT_NS: u64 = 10_000_000_000;
