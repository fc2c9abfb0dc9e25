//! Numbers of transfers: windows, buffers, options, Nagle and delayed ACKs.

use super::{KIB, MS, S, limits};

limits! {
    WINDOWS = "Windows and buffers";
    /// A connection that moved less is no transfer.
    BULK = 256 * KIB, Bytes, Guess;
    /// Share of its busy time from which on it is its window, or its buffer, that holds a transfer back.
    HELD = 0.5, Share, Guess;
    /// Far more would have passed than did: so many times.
    SPARE = 2, Times, Guess;
    /// Receivers size their window, and senders their buffer, by what passed within a round trip: they double it in
    /// each. After so many of them it would have grown.
    GROWN_BY = 16, Times, Mechanism;
    /// A usual round trip below so many times the shortest means that no queue stood.
    USUAL_BELOW_TWICE = 2, Times, Guess;
    /// A reader that keeps up leaves less than this share of its window unread, in the median.
    READS_ALONG = 0.25, Share, Guess;
    /// What passes in a round trip beside the window: the round trip varies.
    BEYOND_WINDOW = 1.25, Times, Guess;
    /// What the application took within a round trip, as a share of the widest window, from which on that was full.
    WINDOW_FILLED = 0.9, Share, Guess;
    /// The kernel wakes the application when a third of the send buffer is free, and what it writes fills it again: of
    /// samples at any moment one in three or more finds it nearly full; of few samples fewer: one in so many. A message
    /// that never fills it does not wait for it.
    BRIMFUL = 8, Times, Mechanism;
    /// What was in flight is known of one moment a second.
    IN_FLIGHT_SAMPLED = 0.5, Share, Guess;
    /// Of the time that a sender waited for the window, the share in which it was closed.
    SHUT_SHARE = 2.0 / 3.0, Share, Guess;
    /// Of a window that was seen closed once nobody knows whether it stayed so.
    SHUT_SAMPLES = 2, Samples, Sampling;
    /// The first window probe comes after the retransmission timeout, at least this (TCP_RTO_MIN).
    FIRST_PROBE = 200 * MS, Time, Kernel;
    /// Share of the samples that found unread data, of a reader that is slow.
    UNREAD_SHARE = 0.75, Share, Guess;
    /// A reader that keeps up leaves some segments; this is more than one read of most programs.
    UNREAD_BYTES = 16 * KIB, Bytes, Guess;
    /// Share of the samples in which the window was closed, when the sender is not on this host.
    WINDOW_CLOSED = 0.2, Share, Guess;
    /// When the window is not closed: what came lies unread for so long.
    READER_BEHIND = 10 * MS, Time, Guess;
    /// And for so many round trips.
    READER_BEHIND_RTTS = 2, Times, Guess;
}

limits! {
    OPTIONS = "Options";
    /// The largest window without window scaling: the header's field has 16 bits.
    UNSCALED_WINDOW = 65_535, Bytes, Rfc;
    /// A connection that lives longer than this carries the loss of its options along; a shorter one, without bulk,
    /// does not notice.
    LASTING = S, Time, Guess;
    /// The smoothed RTT that divides the window varies by this much around the path's.
    CEILING_TOLERANCE = 0.25, Share, Guess;
    /// A sender that fills this share of the largest unscaled window is limited by its size: a reader that does not
    /// keep up would close it.
    UNSCALED_FILLED = 0.5, Share, Guess;
    /// A transfer waits for its window if it does so for this share of its busy time.
    WINDOW_WAITS = 0.2, Share, Guess;
    /// Seen from the receiver a transfer is held up by the window if it reaches this share of 65,535 bytes per round
    /// trip.
    AT_WINDOWS_CEILING = 0.5, Share, Guess;
}

limits! {
    NAGLE = "Nagle and delayed ACKs";
    /// Linux delays an ACK by 40 ms at least (TCP_DELACK_MIN), and its timer fires up to some ticks late: above this it
    /// is something else.
    DELAYED_ACK_MOST = 60 * MS, Time, Kernel;
    /// What took less did not wait for a delayed ACK, or in few of its round trips.
    DELAYED_ACK_LEAST = 30 * MS, Time, Guess;
    /// A single wait that a delayed ACK ended is at least this long: it is 40 ms, and begins a moment later.
    DELAYED_ACK_WAIT = 36 * MS, Time, Guess;
    /// A path with a longer round trip hides the delay in it.
    DELAY_SHOWS = 20 * MS, Time, Mechanism;
    /// Samples of a held segment, over all connections: fewer are chance.
    HELD_SAMPLES = 3, Samples, Guess;
    /// A message is a segment in flight and the one that is held behind it.
    HELD_SEGMENTS = 2, Segments, Mechanism;
    /// Segments that are sent for each that is held: those of a megabyte and a half take longer than the delay of one
    /// below 300 Mbit/s.
    SENT_PER_HELD = 1_000, Times, Mechanism;
    /// Held messages are counted by timer and by segment, at different moments.
    HELD_COUNTS_ALIKE = 0.25, Share, Guess;
}
