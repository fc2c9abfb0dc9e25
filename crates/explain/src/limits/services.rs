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
    /// A service's threads must be kept from working for at least this per exchange, on average. Shorter waits are not
    /// recorded one by one, and a scheduler's turn takes as long.
    KEPT_FROM_WORK = 10 * MS, Time, Guess;
    /// A pause counts as silence only if at least this many answers were expected in it at the usual rate. That none
    /// comes by chance is then ruled out.
    ANSWERS_EXPECTED = 20, Events, Sampling;
    /// Fewer callers than this that give up may have reasons of their own: an interrupted one, or a program that ends.
    GAVE_UP = 5, Events, Guess;
    /// If nothing is ever answered, there is no usual time to compare with. Callers that gave up after at least this
    /// time were waiting for an answer, if all waited about as long ([`GAVE_UP_ALIKE`]).
    PATIENT_CALLER = S, Time, Guess;
    /// Callers that give up wait for a common timeout if their waits differ by at most this share.
    GAVE_UP_ALIKE = 0.2, Share, Guess;
    /// A silence that ends within this time of the recording's end still goes on. Requests are sampled once a second
    /// and a last time at the end.
    LAST_LOOK = 2 * S, Time, Sampling;
    /// The recorded slowest exchanges stand for all exchanges if their median is at most this many times the overall
    /// median.
    TYPICAL = 3, Times, Guess;
    /// A connection must have carried at least this many requests to show what it is used for.
    ASKED_SEVERAL = 3, Segments, Guess;
    /// At least this share of the slow exchanges must be on connections that do little but wait (long polling) for
    /// waiting to be their purpose.
    WAITS_OF_SLOW = 0.9, Share, Guess;
    /// Connections that do little but wait (long polling) may have carried at most this many times as many requests as
    /// there were slow exchanges.
    ASKED_EACH = 2, Times, Guess;
    /// A silence explains the slow exchanges if they are at most this many times those that were open during it.
    STILL_OPEN = 1.5, Times, Guess;
    /// With fewer exchanges than this, percentiles say nothing beyond the slowest one.
    PERCENTILES = 10, Exchanges, Guess;
    /// An activity that takes at least this share of the time is named as what the thread did.
    DID_MOST = 0.5, Share, Guess;
    /// An activity that takes a smaller share of the time than this is not listed.
    DID_SOME = 0.05, Share, Guess;
    /// A pause in a listener's connections must be at least this many times the usual gap. With random arrivals, not
    /// one gap in a million is.
    PAUSE_TIMES_USUAL = 20, Times, Sampling;
    /// The clients' wait for answers and the server's time for them may differ by this share. They come from two
    /// sockets and are sampled.
    ENDS_AGREE = 0.2, Share, Guess;
    /// Another service explains a slow request if its median answer takes at least this share of the request's time.
    TAKES_AS_LONG = 0.8, Share, Guess;
    /// If the round trip is at most this share of the wait, the wait is not for the network.
    ROUND_TRIP_SHARE = 0.1, Share, Guess;
    /// Fewer connections without an answer than this may be meant to be answered only when something happens. At least
    /// this many others must be answered.
    UNANSWERED_REQUESTS = 5, Connections, Guess;
    /// Connections without an answer must be at least this share of those made to the same place, in addition to
    /// [`UNANSWERED_REQUESTS`].
    UNANSWERED_SHARE = 0.05, Share, Guess;
}

limits! {
    RESETS = "Resets";
    /// Fewer connections ended by a reset than this are a server that was restarted.
    RESET_OFTEN = 5, Connections, Guess;
    /// If a server resets a smaller share of the connections to it than this, it is healthy: single ones are normal.
    PEER_RESETS_SHARE = 0.02, Share, Guess;
    /// Connections that are reset or closed within this time of each other were ended by one event: a restart, or a
    /// process that ended.
    ONE_MOMENT = 200 * MS, Time, Guess;
    /// A connection was between requests if it was quiet for at least this long before the peer's reset.
    BETWEEN_REQUESTS = S, Time, Guess;
    /// The pauses before resets point to an idle timeout if at least this share of them is near their median
    /// ([`PAUSES_NEAR`]).
    PAUSES_CLUSTER = 0.8, Share, Guess;
    /// A pause before a reset is near the median if it differs from it by at most this share.
    PAUSES_NEAR = 0.1, Share, Guess;
    /// The pauses must differ at least this many times less than the moments to be an idle timeout. A timeout makes the
    /// pauses alike, a restart the moments.
    TIMEOUT_OR_RESTART = 2, Times, Guess;
    /// If a smaller share of a listener's connections than this ends by the server's reset, the odd client misbehaves.
    SERVER_RESETS_SHARE = 0.02, Share, Guess;
    /// A connection that was quiet for at least this long before its server reset it was between requests: nobody was
    /// waiting.
    CLOSED_IDLE = 100 * MS, Time, Guess;
    /// A server's resets within this time before its listener closed belong to its shutdown and are ignored.
    GOING_DOWN = S, Time, Guess;
    /// Fewer connections that keep-alive gave up than this are a pool that had one connection too many.
    GIVEN_UP = 10, Connections, Guess;
    /// Connections that keep-alive gave up must be at least this share of those to an address. A healthy peer has
    /// single ones at most.
    GIVEN_UP_SHARE = 0.5, Share, Guess;
    /// A request of at most this size came whole in one segment and is not a large body.
    ONE_SEGMENT = 1_460, Bytes, Mechanism;
}

limits! {
    REQUESTS = "What is reported about requests";
    /// A part that is a smaller share of the time of a service's requests than this is not printed.
    TIME_PART = 0.005, Share, Guess;
    /// A part that is a smaller share of the time of one exchange than this is not printed.
    TIME_PART_OF_ONE = 0.05, Share, Guess;
    /// What threads did is reported if, for at least this share of the service time, one thread alone worked on the
    /// request and on nothing else.
    THOUGHT_ALONE = 0.5, Share, Guess;
    /// A shorter answer time (mean, or 99th percentile) than this is not called slow.
    ANSWER_SLOW = 10 * MS, Time, People;
    /// If the 99th percentile is at least this many times the median, that one exchange in a hundred is what users
    /// notice.
    ANSWER_TAIL = 10, Times, Sampling;
    /// The time is attributed to a side, or to an activity, that takes at least this share of it.
    DOMINANT = 0.5, Share, Guess;
    /// A client whose requests take at least this many times as long in total as those of any server on this host waits
    /// for another host.
    WAITS_ELSEWHERE = 2, Times, Guess;
    /// The slowest exchange is reported if it took at least this many times the median.
    SLOWEST_TOLD = 3, Times, Guess;
}
