//! Limits that define a finding, an episode, a change of a rate, a scarce resource.

use super::{MS, S, limits};

limits! {
    MATTERS = "What makes a finding";
    /// Fewer occurrences than this, on several connections ([`OFTEN_TO_SEVERAL`]), are no finding: once or twice
    /// happens to any service.
    OFTEN = 5, Events, People;
    /// [`OFTEN`] counts only where at least this many connections are affected. One connection alone needs
    /// [`OFTEN_TO_ONE`].
    OFTEN_TO_SEVERAL = 2, Connections, People;
    /// Fewer occurrences than this on a single connection are no finding. Several connections need only [`OFTEN`].
    OFTEN_TO_ONE = 20, Events, People;
    /// If a smaller share of the connections or requests than this is affected, it is no finding: not even the 99.9th
    /// percentile shows it.
    ONE_IN_A_THOUSAND = 0.001, Share, People;
    /// Trouble that is frequent enough must also cost at least this share of the time in which the service was not
    /// idle.
    SHARE_OF_TIME = 0.01, Share, People;
    /// Frequent trouble that costs at least this share of the service's non-idle time is a finding, however small its
    /// share of the requests. A busy service that is stuck has few slow requests among many.
    MUCH_OF_TIME = 0.08, Share, People;
    /// Making one connection wait this long is a finding by itself, because people give up. By then three RTOs of 200
    /// ms have passed and a socket sampled once a second has several samples.
    STALL = 3 * S, Time, People;
    /// A program that leaves what came unread for this long makes `serve` record all that explain can use: sockets are
    /// sampled once a second, and a busy program reads each of them more often.
    LEFT_UNREAD = S, Time, Sampling;
    /// This many failures of one caller are a finding: it keeps retrying and does not get what it needs.
    /// [`FAILED_OVER`] and [`FAILED_SHARE`] must hold as well.
    FAILED_AGAIN = 3, Events, People;
    /// The failures of one caller ([`FAILED_AGAIN`]) must span at least this time. Failures within a moment are one
    /// attempt.
    FAILED_OVER = 2 * S, Time, People;
    /// The failures of one caller ([`FAILED_AGAIN`]) must be at least this share of its attempts.
    FAILED_SHARE = 0.05, Share, People;
    /// Transfers that sent for at least this long, in all, are a finding if they lost [`SENDING_SHARE`] of that time,
    /// however few: for example four connections that lost their TCP options to SYN cookies. With sampling once a
    /// second, less tells nothing.
    SENDING = S, Time, People;
    /// Transfers that lose at least this share of their sending time hold up their user. Compared only from [`SENDING`]
    /// of sending time on.
    SENDING_SHARE = 0.1, Share, People;
    /// A service that serves no client for this long has an outage, which is a finding by itself. A shorter pause is a
    /// hiccup, for example a busy CPU or a garbage collection.
    OUTAGE = S, Time, People;
    /// A failed connect or request counts as at least this much lost time for its caller. A caller that retries does so
    /// about this much later.
    FAILED_COSTS = S, Time, People;
    /// A wait of this length is one that people notice. Shorter waits do not count as slow.
    NOTICED = 200 * MS, Time, People;
    /// Users do not ask about a shorter time than this, so it is not reported.
    ASKED_ABOUT = S, Time, People;
    /// A cause explains something only if it accounts for at least this share of it: more than half is more than
    /// everything else together. A state holds most of the time from this share of it on.
    MOST = 0.5, Share, Guess;
    /// Up to this share counts as a small part: a tenth of the request time does not make requests slow, and a tenth of
    /// the losses does not explain them.
    SMALL_PART = 0.1, Share, Guess;
    /// Nearly all of something. A table with this share of its entries in use is full, as it is counted at another
    /// moment than it overflows; and two counts of the same thing agree when one reaches this share of the other.
    NEARLY_ALL = 0.9, Share, Guess;
    /// Two measurements of the same thing, and the members of a regular series, may differ by this share.
    ALIKE = 0.2, Share, Guess;
    /// Two amounts that differ by at least this factor have nothing to do with each other, however roughly they are
    /// measured.
    BY_FAR = 10, Times, Guess;
    /// Fewer events than this, of a kind that each client of a busy host may cause once, are a passing moment.
    MANY = 100, Count, Guess;
    /// Waits of threads that are shorter than this are not recorded one by one.
    RECORDED_WAIT = 10 * MS, Time, Sampling;
    /// A rate, a share or a median of fewer events than this is chance: the standard error of ten is a third.
    ENOUGH = 10, Count, Guess;
    /// Something regular is seen at least this many times: two may be alike by chance.
    A_FEW = 3, Count, Guess;
    /// What is told apart by size differs by at least this factor.
    TWICE = 2, Times, Guess;
    /// What stands out is at least this many times the usual; and what is measured in two different ways, one of them
    /// rough, agrees within this factor.
    SEVERAL_TIMES = 3, Times, Guess;
    /// A cause for which one occurrence suffices is ruled out only if there are fewer than this, that is none.
    ONE = 1, Count, Mechanism;
}

limits! {
    COUNTS = "Samples and counts";
    /// Sockets and threads are sampled once a second. A total shorter than this interval may be what one sample
    /// happened to see.
    BETWEEN_SAMPLES = S, Time, Sampling;
    /// An unexplained rest below this share of the service's non-idle time is not reported: it is within the error of a
    /// hundred samples.
    UNEXPLAINED_SHARE = 0.05, Share, Sampling;
    /// A state seen in fewer samples than this does not count. A single sample may have caught a passing moment.
    SEEN_TWICE = 2, Samples, Sampling;
    /// Counts of the same thing from two sources may differ by this share. Counters, listeners and events are read up
    /// to a second apart while all of them rise.
    SAME_COUNT = 0.10, Share, Sampling;
    /// Counts of the same thing from two sources may always differ by this many. For small counts, one or two events
    /// between two readings exceed [`SAME_COUNT`].
    SAME_COUNT_SLACK = 2, Events, Sampling;
    /// Rates of symptoms are computed over bins of this length. Shorter bins hold too few events, longer ones date a
    /// change too coarsely.
    RATE_BIN = 250 * MS, Time, Guess;
    /// The midpoint between two levels is their geometric mean, but at least this share of the higher level. A level of
    /// zero has no useful geometric mean.
    LEVELS_MIDDLE = 0.25, Share, Guess;
    /// The search for clusters of latencies uses this many logarithmic bins per factor of two, 4.4 % each.
    MODE_BINS = 16, Count, Guess;
    /// A latency matches a step of the SYN retransmission schedule if it ends up to an eighth ([`STEP_LATE`]) after it.
    /// That tolerance is never less than this and never more than three times this.
    STEP_SLACK = 100 * MS, Time, Guess;
    /// A latency may exceed its step of the SYN retransmission schedule by this share of the step. Timers on the
    /// kernel's timer wheel fire up to an eighth late.
    STEP_LATE = 0.125, Share, Kernel;
    /// A correlation needs at least this many sampling intervals: Fisher's z divides by √(n − 3).
    CORRELATED_INTERVALS = 4, Samples, Sampling;
    /// A correlation between a counter and a symptom below this is no more than a common trend.
    CORRELATED = 0.7, Share, Guess;
    /// A correlation must be at least this many standard deviations above zero (Fisher's z). With a hundred moving
    /// counters on a busy host, at three lags each, one recording in fifteen has such a correlation by chance.
    CORRELATED_DEVIATIONS = 3.5, Deviations, Sampling;
}

limits! {
    EPISODES = "Episodes";
    /// The widest time window in which the search for episodes compares rates with the whole recording.
    EPISODE_LONG = 60 * S, Time, Guess;
    /// The middle time window of the search for episodes, between [`EPISODE_SHORT`] and [`EPISODE_LONG`].
    EPISODE_MIDDLE = 10 * S, Time, Guess;
    /// The narrowest time window of the search for episodes. Trouble that lasts for less than this is found by this
    /// window or not at all.
    EPISODE_SHORT = 2 * S, Time, Guess;
    /// The count in a window must exceed the usual one by this many standard deviations (Poisson) to be an episode. Not
    /// one window in a whole day does so by chance.
    EPISODE_DEVIATIONS = 6, Deviations, Sampling;
    /// An episode continues into the next window while that window has at least this share of the worst window's count.
    EPISODE_GOES_ON = 0.25, Share, Guess;
    /// An episode is taken to begin this long before its trouble shows: a dropped SYN is retransmitted, and so becomes
    /// visible, a second later.
    EPISODE_BEFORE = S, Time, Mechanism;
    /// An episode is examined until this long after its trouble ends, because effects on connections show later: a SYN
    /// that is dropped twice is answered after 3 s.
    EPISODE_AFTER = 4 * S, Time, Mechanism;
    /// Less runnable time (waiting for a CPU) than this per second, summed over all threads, is normal for any host and
    /// starts no episode.
    EPISODE_WAITS = 300 * MS, Time, Guess;
}

limits! {
    RESOURCES = "The recorded command and the host's resources";
    /// A resolver waits this long for a name server, unless resolv.conf(5) sets another timeout. The longest wait of a
    /// command is compared with it.
    RESOLVER_TIMEOUT = 5 * S, Time, Kernel;
}
