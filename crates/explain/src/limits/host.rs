//! Limits for the host: CPUs, interrupts, lookup tables, memory.

use super::{MS, US, limits};

limits! {
    CPUS = "CPUs";
    /// A thread that waits for a CPU for a smaller share of the time than this waits no more than on any busy host.
    CONTENDED_SHARE = 0.30, Share, Guess;
    /// A thread that waits for a CPU for less than this in total had a startup or a burst.
    CONTENDED_WAIT = 200 * MS, Time, Guess;
    /// Threads that wait for a CPU for a smaller share of their running time than this get most of what they want. With
    /// random arrivals, this is a CPU that is a third busy.
    WAITS_TO_RUNNING = 0.5, Share, Mechanism;
    /// A shorter mean wait, each time that a thread wants a CPU, is the scheduler's ordinary work.
    SCHEDULERS_TURN = MS, Time, Guess;
    /// A cgroup's CPU quota is refilled once per period of this length (the default of cpu.max and cpu.cfs_period_us).
    QUOTA_PERIOD = 100 * MS, Time, Kernel;
    /// When the CPUs that a cgroup needs are computed, the throttled share of the time is capped at this. Throttling is
    /// counted per CPU, so a larger share does not tell how much time was left.
    QUOTA_MOST_OFF = 0.95, Share, Guess;
    /// A quota explains a thread's wait for a CPU if its cgroup was throttled for at least this share of it.
    THROTTLED = 0.5, Share, Guess;
    /// If a thread's cgroup is not known, a throttled cgroup may be its own only if the thread waited for at least this
    /// share of the throttled time.
    QUOTA_WAIT_LEAST = 0.6, Share, Guess;
    /// If a thread's cgroup is not known, a throttled cgroup may be its own only if the thread waited for at most this
    /// many times the throttled time.
    QUOTA_WAIT_MOST = 1.6, Times, Guess;
    /// The CPU time used under a quota may exceed the granted one by this factor. Accounting is by ticks, and each CPU
    /// takes its slice in advance.
    QUOTA_OVERRUN = 1.2, Times, Guess;
    /// A CPU with a smaller share of a thread's profile samples than this is not the CPU for which it waits.
    PRESENT = 0.10, Share, Guess;
    /// A rival thread that used a smaller share of the CPU than this is not named.
    RIVAL = 0.05, Share, Guess;
    /// Profile samples must account for at least this share of a thread's wait, by other threads or the service's own
    /// on its CPU. Otherwise it is unknown what kept the CPU busy.
    SEEN_MEANWHILE = 0.5, Share, Guess;
    /// Threads that were seen on the CPU for at least this share of another's wait had it all the time. The profile
    /// misses some of it.
    ALL_THE_WHILE = 0.8, Share, Guess;
    /// A rival that itself waits for the CPU for at most this share of the time runs whenever it wants to, as with a
    /// real-time priority.
    COMES_FIRST = 0.05, Share, Guess;
    /// A CPU that is idle for at least this share of the time has room for another thread.
    ROOM = 0.50, Share, Guess;
    /// A CPU that is idle for at most this share of the time has no room for the threads that wait.
    NO_ROOM = 0.1, Share, Guess;
    /// Less stolen CPU time than this in total is not judged: it is counted in ticks of up to 10 ms.
    STEAL = 500 * MS, Time, Sampling;
    /// `ksoftirqd` waiting for a CPU for a smaller share of the time than this is normal on a busy host.
    STARVED_SHARE = 0.10, Share, Guess;
    /// `ksoftirqd` waiting for a CPU for less than this in total is a burst.
    STARVED_WAIT = 100 * MS, Time, Guess;
    /// A shorter mean wait of `ksoftirqd`, each time that packets are to be processed, is not noticed, unless
    /// [`STARVED_OBVIOUS`] holds.
    STARVED_MEAN = 500 * US, Time, Guess;
    /// `ksoftirqd` waiting for at least this share of the time is noticed, however short each wait is.
    STARVED_OBVIOUS = 0.30, Share, Guess;
    /// At least this share of the turns of `ksoftirqd` must follow a softirq that ran out of budget with packets left
    /// (time_squeeze in softnet_stat). Other work wakes it too, and another softirq may process the packets first.
    OVERRUNS = 0.5, Share, Guess;
    /// A CPU that spends at least this share of its time on packets (softirq) is kept busy by them.
    SOFTIRQ_SHARE = 0.5, Share, Guess;
    /// A CPU that is idle for at most this share of the time has no capacity left.
    REST = 0.1, Share, Guess;
    /// The other CPUs can take over packets if they are idle for at least this share of their time, on average.
    OTHERS_REST = 0.5, Share, Guess;
    /// One CPU must process at least this share of all packets, and of the network devices' interrupts, to be the
    /// bottleneck. With two queues that share the load evenly it would be half.
    ONE_CPU_TAKES = 0.8, Share, Mechanism;
    /// At fewer packets per second than this, on all CPUs together, no CPU is at its limit because of their number.
    PACKETS_PER_S = 1_000, PerSecond, Guess;
    /// This few interrupts already tell which CPU they go to; fewer do not. A queue that is polled without pause raises
    /// hardly any.
    INTERRUPTS = 10, Events, Guess;
    /// One CPU's share of the packets and its share of the interrupts may differ by this much. An interrupt brings one
    /// packet or many.
    INTERRUPTS_ALIKE = 0.2, Share, Guess;
}

limits! {
    LOOKUPS = "Lookup tables and memory";
    /// A look-up that takes a smaller share of one CPU than this goes unnoticed.
    LOOKUP_CPU = 0.02, Share, Guess;
    /// With fewer profile samples in a look-up than this, its share is not known well enough.
    LOOKUP_SAMPLES = 50, Samples, Guess;
    /// The measured cost of the look-ups must agree with the one expected from the usual cost per entry within this
    /// factor. It depends on the CPU caches.
    LOOKUP_COST_FACTOR = 8, Times, Guess;
    /// A look-up must take at least this share of the time in the kernel, or in its softirqs.
    LOOKUP_SHARE = 0.10, Share, Guess;
    /// Each hash chain entry, or routing rule, that a look-up passes costs this time: from 3 ns in the cache to 150 ns
    /// in memory.
    HASHED_ENTRY = 20, Time, Guess;
    /// Each nftables rule that does not match costs this time: a few expressions.
    NFT_RULE = 5, Time, Guess;
    /// Each entry that a look-up passes in illumos' destination cache costs this time, on a machine of its era.
    DCE_ENTRY = 30, Time, Guess;
    /// A look-up's share of the time grows if it exceeds its first value by more than this factor.
    LOOKUP_GREW = 1.5, Times, Guess;
    /// A growth rate is given only for a table that grew by more than this share of its entries during the recording.
    GROWN_BY_A_TENTH = 0.1, Share, Guess;
    /// If nothing tells when a table grew, even growth is assumed: averaged over the recording, this share of it had
    /// happened.
    GROWN_EVENLY = 0.5, Share, Guess;
    /// The error of a count of samples is given as this many times its square root.
    LOOKUP_ERROR = 2, Deviations, Sampling;
    /// A look-up must pass at least this many entries to be a long walk. A table with as many buckets as entries has
    /// chains of one or two.
    CHAIN = 4, Count, Mechanism;
    /// Fewer rules than this cost less than the rest of receiving a packet: 100 take 8 % of a round trip over a veth
    /// pair (measured), 1,000 take 39 %.
    RULES = 200, Count, Mechanism;
    /// The kernel's default of gc_thresh2. With fewer neighbours than this, it does not run the garbage collection.
    NEIGHBOURS = 512, Count, Kernel;
    /// Rules must take at least this share of the time. A rule set has a price that its owner is willing to pay: a
    /// tenth of receiving is no finding.
    RULES_SHARE = 0.20, Share, Guess;
    /// With fewer new entries in the destination cache than this, no growth rate is computed.
    DCE_ADDED = 100, Count, Guess;
    /// The size expected from a growth rate measured for seconds may differ by this share from what weeks have
    /// accumulated.
    DCE_RATE = 0.25, Share, Guess;
    /// A connection that moved no more than this carried no data: SYN and FIN are acknowledged as one byte each.
    NO_DATA = 2, Bytes, Rfc;
    /// Fewer connections reset for lack of memory than this are orphans of a client that vanished.
    ABORTED_FOR_MEMORY = 3, Connections, Guess;
}
