//! Limits for services: slow exchanges, resets, what is reported about requests.

use super::{MS, S, limits};

limits! {
    EXCHANGES = "Slow exchanges";
    /// A slow exchange takes at least this many times the median. If times are distributed as those of a queue
    /// (exponentially), one in a thousand does.
    SLOW_TIMES_USUAL = 10, Times, Sampling;
    /// At least this share of the exchanges must be slow, so that the 99th percentile is. That is ten times as many as
    /// by chance ([`SLOW_TIMES_USUAL`]).
    SLOW_SHARE = 0.01, Share, Sampling;
    /// A slow exchange takes at least this much longer than the median where slow ones take most of the time
    /// ([`MOST_OF_TIME`]). On a busy host, other threads occupy the CPU for that long at times.
    SLOW_MOST = 30 * MS, Time, Guess;
    /// If exchanges that are slow only by [`SLOW_MOST`] take at least this share of the time of all exchanges, the
    /// service is slow.
    MOST_OF_TIME = 0.75, Share, Guess;
    /// If segments to a peer were retransmitted, a slow answer takes at least this much longer than the median. Lost
    /// answers come after 200 ms, 600 ms or 1.4 s, and only the peer knows that it had sent them before.
    SLOW_PEER = S, Time, Kernel;
    /// A pause counts as silence only if at least this many answers were expected in it at the usual rate. That none
    /// comes by chance is then ruled out.
    ANSWERS_EXPECTED = 20, Events, Sampling;
    /// A silence that ends within this time of the recording's end still goes on. Requests are sampled once a second
    /// and a last time at the end.
    LAST_LOOK = 2 * S, Time, Sampling;
    /// A pause in a listener's connections must be at least this many times the usual gap. With random arrivals, not
    /// one gap in a million is.
    PAUSE_TIMES_USUAL = 20, Times, Sampling;
}

limits! {
    RESETS = "Resets";
    /// If resets end a smaller share of the connections to a place than this, it is healthy: single ones are normal.
    RESETS_SHARE = 0.02, Share, Guess;
    /// Connections that are reset or closed within this time of each other were ended by one event: a restart, or a
    /// process that ended.
    ONE_MOMENT = 200 * MS, Time, Guess;
    /// One close() of a listener resets all that waits in its accept queue, some microseconds each: the next reset comes
    /// within this time.
    ONE_CLOSE = 10 * MS, Time, Mechanism;
    /// A connection that was quiet for at least this long before its server reset it was between requests: nobody was
    /// waiting.
    CLOSED_IDLE = 100 * MS, Time, Guess;
    /// A request of at most this size came whole in one segment and is not a large body.
    ONE_SEGMENT = 1_460, Bytes, Mechanism;
}

limits! {
    REQUESTS = "What is reported about requests";
    /// A shorter answer time (mean, or 99th percentile) than this is not called slow.
    ANSWER_SLOW = 10 * MS, Time, People;
    /// If the 99th percentile is at least this many times the median, that one exchange in a hundred is what users
    /// notice.
    ANSWER_TAIL = 10, Times, Sampling;
    /// Answers that come at this many bytes per second are transfers that nobody calls slow, whoever is busy with them: 1
    /// Gbit/s.
    ANSWER_FAST = 125_000_000, PerSecond, People;
    /// What an event loop sends this long after the client's last word, when a timer ends its wait, may as well be a
    /// heartbeat or the end of a long poll: the program in the kernel takes messages for pushes after as long a pause.
    HELD = 1_000 * MS, Time, Mechanism;
    /// What comes between two words of the other side is a stream in parts, and no message, from this many segments on:
    /// a message of ten fits the first window of its connection.
    STREAM_SEGMENTS = analysis::account::STREAM_SEGMENTS, Segments, Rfc;
    /// Handshakes that a kept connection would have spared count from this share of what callers wait. Over TLS 1.2 the
    /// TCP handshake is one of the four round trips of a request, without TLS one of two; the rest is room for the
    /// service time.
    HANDSHAKE_SHARE = 0.2, Share, Mechanism;
}
