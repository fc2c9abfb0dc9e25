//! Limits for transfers: windows, buffers, options, Nagle and delayed ACKs.

use super::{KIB, MS, limits};

limits! {
    WINDOWS = "Windows and buffers";
    /// A connection that moved less data than this is not a transfer.
    BULK = 256 * KIB, Bytes, Guess;
    /// A transfer must move at least this many windows (or buffers) for its limit to count. Receivers and senders
    /// double them in each round trip in which they fill, so by then they would have grown.
    GROWN_BY = 16, Times, Mechanism;
    /// The send buffer limits if at least one in this many samples finds it nearly full. The kernel wakes the writer
    /// when a third is free and the writer refills it: one in three is expected, fewer with few samples.
    BRIMFUL = 8, Times, Mechanism;
    /// The rate computed from data in flight may differ from the acknowledged one by this share. Data in flight is
    /// sampled only once a second.
    IN_FLIGHT_SAMPLED = 0.5, Share, Guess;
    /// A window must be seen closed in at least this many samples. A single one does not tell whether it stayed closed.
    SHUT_SAMPLES = 2, Samples, Sampling;
    /// The first window probe is sent one RTO after the window closed, but no sooner than this (TCP_RTO_MIN).
    FIRST_PROBE = 200 * MS, Time, Kernel;
    /// A reader is slow only if at least this much lies unread. A reader that keeps up leaves a few segments; this is
    /// more than most programs read at a time.
    UNREAD_BYTES = 16 * KIB, Bytes, Guess;
}

limits! {
    OPTIONS = "Options";
    /// The largest receive window without window scaling: the header field has 16 bits.
    UNSCALED_WINDOW = 65_535, Bytes, Rfc;
}

limits! {
    NAGLE = "Nagle and delayed ACKs";
    /// A longer wait is not caused by a delayed ACK. Linux delays an ACK by at least 40 ms (TCP_DELACK_MIN), and the
    /// timer fires up to a few ticks late.
    DELAYED_ACK_MOST = 60 * MS, Time, Kernel;
    /// A shorter wait is not caused by a delayed ACK, or only in a few of its round trips.
    DELAYED_ACK_LEAST = 30 * MS, Time, Guess;
    /// A single wait that a delayed ACK ended lasts at least this long. The delay is 40 ms, and the wait begins a
    /// moment after it.
    DELAYED_ACK_WAIT = 36 * MS, Time, Kernel;
    /// A path with a longer round trip than this hides the delay of an ACK.
    DELAY_SHOWS = 20 * MS, Time, Mechanism;
    /// A message that Nagle's algorithm holds counts as this many segments: one in flight and one held behind it.
    HELD_SEGMENTS = 2, Segments, Mechanism;
    /// Delayed ACKs are not the cause if more than this many segments are sent per held one. Below 300 Mbit/s, those
    /// 1.5 MB take longer than the delay of a single ACK.
    SENT_PER_HELD = 1_000, Times, Mechanism;
}
