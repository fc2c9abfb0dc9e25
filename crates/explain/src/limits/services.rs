//! Numbers of services: slow exchanges, resets.

use super::{MS, S, limits};

limits! {
    EXCHANGES = "Slow exchanges";
    /// A slow exchange takes so many times as long as half of them do: of times that are spread as those of a queue
    /// (exponentially), one in a thousand does.
    SLOW_TIMES_USUAL = 10, Times, Sampling;
    /// And the 99th percentile is one: that is ten times as many as chance gives.
    SLOW_SHARE = 0.01, Share, Sampling;
    /// Or a slow one takes so much longer than half of them, where such take most of the time of all
    /// ([`MOST_OF_TIME`]): others have the CPU for that long at times, on a busy host.
    SLOW_MOST = 30 * MS, Time, Guess;
    /// What slow exchanges take of the time of all, where few of them are usual.
    MOST_OF_TIME = 0.75, Share, Guess;
    /// Of a peer, so much longer where something was lost on the way there: an answer that was lost on the way back
    /// comes after 200 ms, 600 ms, 1.4 s, and the other host alone knows that it sent it before.
    SLOW_PEER = S, Time, Kernel;
    /// Threads that were kept from working cost each exchange so much on average: waits below are not recorded one by
    /// one, and a scheduler's turn takes as long.
    KEPT_FROM_WORK = 10 * MS, Time, Guess;
    /// Where so many answers would have come, none by chance is out of the question.
    ANSWERS_EXPECTED = 20, Events, Sampling;
    /// Fewer callers that give up may have their own reasons: one that is interrupted, a program that ends.
    GAVE_UP = 5, Events, Guess;
    /// Where nothing at all is answered nobody knows what is usual: callers that gave up after so long waited for an
    /// answer, if all waited alike ([`GAVE_UP_ALIKE`]).
    PATIENT_CALLER = S, Time, Guess;
    /// Waits of callers that differ by no more than this share are their timeout.
    GAVE_UP_ALIKE = 0.2, Share, Guess;
    /// Requests are looked at once a second, and a last time at the end.
    LAST_LOOK = 2 * S, Time, Sampling;
    /// Exchanges are typical when the slowest ones take no more than so many times as long as half of all.
    TYPICAL = 3, Times, Guess;
    /// What is asked on a connection so often shows what it is for.
    ASKED_SEVERAL = 3, Segments, Guess;
    /// Of the slow exchanges so many must be explained by what they asked of others.
    WAITS_OF_SLOW = 0.9, Share, Guess;
    /// And what these asked is told of no more than so many times as many.
    ASKED_EACH = 2, Times, Guess;
    /// Of a silence, the slow exchanges are no more than so many times those that are still open.
    STILL_OPEN = 1.5, Times, Guess;
    /// Of fewer exchanges percentiles say nothing that the slowest does not.
    PERCENTILES = 10, Exchanges, Guess;
    /// What a thread did is worth the title from this share of the time on.
    DID_MOST = 0.5, Share, Guess;
    /// A smaller share of the time is not told.
    DID_SOME = 0.05, Share, Guess;
    /// A pause is so many times as long as those between connections usually are: of a million at random, none is.
    PAUSE_TIMES_USUAL = 20, Times, Sampling;
    /// The clients' wait for the answers and the server's time for them are of two sockets, and sampled.
    ENDS_AGREE = 0.2, Share, Guess;
    /// Half of the answers of another service take nearly as long as a slow request does.
    TAKES_AS_LONG = 0.8, Share, Guess;
    /// A round trip that is so small a part of the wait is not what is waited for.
    ROUND_TRIP_SHARE = 0.1, Share, Guess;
    /// Fewer that are not answered may be of those that are answered when something happens.
    UNANSWERED_REQUESTS = 5, Connections, Guess;
    /// Of the connections that were made meanwhile.
    UNANSWERED_SHARE = 0.05, Share, Guess;
}

limits! {
    RESETS = "Resets";
    /// Fewer resets are a server that was restarted.
    RESET_OFTEN = 5, Connections, Guess;
    /// Of the connections to a server that is well, single ones end by a reset at most.
    PEER_RESETS_SHARE = 0.02, Share, Guess;
    /// Connections that are reset or closed within this time of each other were by one event: a restart, a process that
    /// ended.
    ONE_MOMENT = 200 * MS, Time, Guess;
    /// Nothing was said for so long before a peer's reset: the connection was between requests.
    BETWEEN_REQUESTS = S, Time, Guess;
    /// Pauses cluster at an idle timeout when so many are near the median ([`PAUSES_NEAR`]).
    PAUSES_CLUSTER = 0.8, Share, Guess;
    /// Within so much of it.
    PAUSES_NEAR = 0.1, Share, Guess;
    /// A timeout makes the pauses alike, a restart the moments: one differs so many times as much as the other.
    TIMEOUT_OR_RESTART = 2, Times, Guess;
    /// A smaller share of a listener's connections is the odd client that misbehaves.
    SERVER_RESETS_SHARE = 0.02, Share, Guess;
    /// A connection on which nothing moved for so long before its server reset it is between requests: nobody waits.
    CLOSED_IDLE = 100 * MS, Time, Guess;
    /// So long before its listener closed, a server was on its way down.
    GOING_DOWN = S, Time, Guess;
    /// Fewer connections that a keep-alive gave up are a pool that had one connection too many.
    GIVEN_UP = 10, Connections, Guess;
    /// Of the connections to an address that is well, single ones end so at most.
    GIVEN_UP_SHARE = 0.5, Share, Guess;
    /// What came in one segment was a whole request, and no large body.
    ONE_SEGMENT = 1_460, Bytes, Mechanism;
}

limits! {
    REQUESTS = "What is said of requests";
    /// A smaller share of the time of a service's requests is not told.
    TIME_PART = 0.005, Share, Guess;
    /// A smaller share of one exchange is not told.
    TIME_PART_OF_ONE = 0.05, Share, Guess;
    /// What threads did is reported where at least this share of the service time was one thread's that did nothing else.
    THOUGHT_ALONE = 0.5, Share, Guess;
    /// Below this nobody calls a service slow.
    ANSWER_SLOW = 10 * MS, Time, People;
    /// Where one in a hundred takes so many times as long as half of them, it is that one that is felt.
    ANSWER_TAIL = 10, Times, Sampling;
    /// A share from which on the time is somebody's.
    DOMINANT = 0.5, Share, Guess;
    /// A client that waits so many times as long as any server here takes waits for another host.
    WAITS_ELSEWHERE = 2, Times, Guess;
    /// The slowest exchange is told when it took so many times as long as half of them.
    SLOWEST_TOLD = 3, Times, Guess;
}
