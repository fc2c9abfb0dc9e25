//! Numbers that say what is a finding, an episode, a rate that broke, a resource that is scarce.

use super::{MS, S, limits};

limits! {
    MATTERS = "What makes a finding";
    /// It happened so often, to several connections ([`OFTEN_TO_SEVERAL`]): once or twice happens to any service.
    OFTEN = 5, Events, People;
    /// To two connections at least.
    OFTEN_TO_SEVERAL = 2, Connections, People;
    /// Or so often to one connection alone.
    OFTEN_TO_ONE = 20, Events, People;
    /// To one in a thousand of what could suffer: what the 99.9th percentile shows.
    ONE_IN_A_THOUSAND = 0.001, Share, People;
    /// And it took so much of the time in which the service was not idle.
    SHARE_OF_TIME = 0.01, Share, People;
    /// Or so much of that, however few it happened to: of a busy service's requests few are slow while it is stuck.
    MUCH_OF_TIME = 0.08, Share, People;
    /// Or it kept one connection waiting for so long: people give up. Three timeouts of 200 ms are over by then, and of
    /// a socket sampled once a second there are some samples.
    STALL = 3 * S, Time, People;
    /// Or one caller failed so often: it tries again and again, and wants what it does not get.
    FAILED_AGAIN = 3, Events, People;
    /// Over at least so long: what fails within a moment is one attempt.
    FAILED_OVER = 2 * S, Time, People;
    /// In so much of what that caller tried.
    FAILED_SHARE = 0.05, Share, People;
    /// Or its transfers, which sent for so long in all, lost so much of that time ([`SENDING_SHARE`]): four connections
    /// that lost their options to SYN cookies are slow for as long as they last. Sockets are sampled once a second: of
    /// less nothing is known.
    SENDING = S, Time, People;
    /// What transfers lose of their time of sending from which on their user is held up.
    SENDING_SHARE = 0.1, Share, People;
    /// Or nobody was served for so long. A shorter pause is a hiccup: of a busy CPU, of a collection of garbage.
    OUTAGE = S, Time, People;
    /// A request or a connect that failed costs its caller at least this: what retries, retries after it.
    FAILED_COSTS = S, Time, People;
    /// A person notices it.
    NOTICED = 200 * MS, Time, People;
    /// Less is not what anybody asks about.
    ASKED_ABOUT = S, Time, People;
    /// Half: what is more than all the rest together is what explains it, and what does not reach that does not.
    MOST = 0.5, Share, Guess;
    /// A tenth of the time of requests, or less, does not make them slow; a tenth of what was lost does not explain it.
    SMALL_PART = 0.1, Share, Guess;
    /// So much of them: the others were counted a moment earlier or later.
    NEARLY_ALL = 0.9, Share, Guess;
    /// What follows from a cause may be measured otherwise than that, and costs as much or so many times as much.
    CONSEQUENCE = 4, Times, Guess;
    /// What paths share is at fault when more than this share of them is in trouble: were it well, so would most be.
    OF_PATHS = 0.5, Share, Guess;
    /// With clients at so many addresses, of which most are well, a server serves the internet, lines of all kinds.
    OF_THE_INTERNET = 10, Addresses, Guess;
    /// Where one is enough, none was seen.
    ONE = 1, Count, Mechanism;
    /// One connection that hangs, or one request that waits, may have its own reason.
    SEVERAL_HANG = 2, Connections, Guess;
}

limits! {
    COUNTS = "Samples and counts";
    /// Sockets and threads are sampled once a second: less than the time between two samples is what one of them
    /// happened to see.
    BETWEEN_SAMPLES = S, Time, Sampling;
    /// What is claimed of the other end is the same time as seen from there, where it is so much of this one's: of one
    /// the kernel counts it, of the other samples tell it.
    SAME_TIME = 0.5, Share, Guess;
    /// A smaller share of the time that a service was not idle is within the error of a hundred samples.
    UNEXPLAINED_SHARE = 0.05, Share, Sampling;
    /// What one sample alone showed may have been that moment's.
    SEEN_TWICE = 2, Samples, Sampling;
    /// Counters, listeners and events are read up to a second apart while all of them rise.
    SAME_COUNT = 0.10, Share, Sampling;
    /// Of few, one or two that fall between two readings are more than that share.
    SAME_COUNT_SLACK = 2, Events, Sampling;
    /// Rates of symptoms are compared over bins of this length: shorter ones hold too few, longer ones date too
    /// coarsely.
    RATE_BIN = 250 * MS, Time, Guess;
    /// A level of a rate lasts at least so many bins: one low value is a hiccup, no level.
    LEVEL_LASTS = 3, Samples, Guess;
    /// Two levels of a rate differ by at least this factor: loads vary by a few ten per cent by themselves.
    LEVELS_DIFFER = 1.5, Times, Guess;
    /// Of each level so many values lie on its side of the middle between the two.
    LEVELS_APART = 0.85, Share, Guess;
    /// Of the step between two levels so much happens at once: else it is a drift.
    LEVELS_AT_ONCE = 0.5, Share, Guess;
    /// The middle between two levels is their geometric mean, at least this share of the higher: a level of zero has no
    /// such mean.
    LEVELS_MIDDLE = 0.25, Share, Guess;
    /// Bins per factor of two in which clusters of latencies are looked for: 4.4 % each.
    MODE_BINS = 16, Count, Guess;
    /// Empty bins that part two clusters of latencies: a gap of 14 %.
    MODE_GAP = 3, Count, Guess;
    /// Fewer values are no cluster.
    MODE_VALUES = 3, Count, Guess;
    /// Nor is a smaller share of all.
    MODE_SHARE = 0.001, Share, Guess;
    /// A latency is one of the schedule's times where it comes up to a tenth later, at least this and at most three
    /// times this.
    STEP_SLACK = 100 * MS, Time, Guess;
    /// What a latency may be later than a time of the schedule, as a share of it: timers of the kernel's wheel fire up
    /// to an eighth late.
    STEP_LATE = 0.1, Share, Guess;
    /// Samples without which a correlation of counters is chance.
    CORRELATED_INTERVALS = 4, Samples, Guess;
    /// A correlation below this is no more than a common trend.
    CORRELATED = 0.7, Share, Guess;
    /// Standard deviations that a correlation must be from none (Fisher's z): of the hundred counters that move on a
    /// busy host, at three lags each, one recording in fifteen has one by chance.
    CORRELATED_DEVIATIONS = 3.5, Deviations, Sampling;
    /// By how much closer a counter must be to the symptom than to the load as a whole, which most counters move with.
    CORRELATED_CLOSER = 0.1, Share, Guess;
    /// A counter that rose as often as there were symptoms, within this share, need only move alike: both at once are
    /// no chance.
    ROSE_AS_OFTEN = 0.15, Share, Guess;
    /// Symptoms without which as many of them and of a counter say nothing.
    SYMPTOMS_COUNTED = 10, Events, Guess;
}

limits! {
    EPISODES = "Episodes";
    /// The widest window of time that is looked at.
    EPISODE_LONG = 60 * S, Time, Guess;
    /// The window between the widest and the narrowest.
    EPISODE_MIDDLE = 10 * S, Time, Guess;
    /// The narrowest window: what lasts for less is in it, or in none.
    EPISODE_SHORT = 2 * S, Time, Guess;
    /// A window is looked at where the recording is so many times as long: else the whole tells as much.
    EPISODE_TIMES_LONGER = 3, Times, Guess;
    /// An episode has so many times the rate of the whole: below, the whole tells of it with its averages.
    EPISODE_DENSER = 3, Times, Guess;
    /// What stands out by less of its own deviations is chance (Poisson): of a day of windows, none.
    EPISODE_DEVIATIONS = 6, Deviations, Sampling;
    /// An episode goes on as long as the next window has this share of its worst one.
    EPISODE_GOES_ON = 0.25, Share, Guess;
    /// Before a trouble shows something happened: a SYN that is dropped is retransmitted after a second.
    EPISODE_BEFORE = S, Time, Mechanism;
    /// What it does to connections shows later: a SYN that is dropped twice is answered after 3 s.
    EPISODE_AFTER = 4 * S, Time, Mechanism;
    /// Of waiting for a CPU any host has so much in a second, summed over its threads.
    EPISODE_WAITS = 300 * MS, Time, Guess;
    /// Of anything else any host has so much in a window: some packets.
    EPISODE_EVENTS = 10, Events, Guess;
}

limits! {
    RESOURCES = "The command and the host's resources";
    /// How long a resolver waits for a name server, unless resolv.conf(5) says otherwise.
    RESOLVER_TIMEOUT = 5 * S, Time, Kernel;
    /// A timer is late by a turn of the scheduler.
    RESOLVER_LATE = 100 * MS, Time, Guess;
    /// Used by so much or more, a resource is scarce.
    SCARCE = 0.9, Share, Guess;
    /// So much of the time something waited for it: the resource is scarce.
    PRESSURE = 0.1, Share, Guess;
}
