//! Numbers of the host: CPUs, interrupts, lookup tables, memory.

use super::{MS, US, limits};

limits! {
    CPUS = "CPUs";
    /// Below this share of the time, waiting for a CPU is what every busy host has.
    CONTENDED_SHARE = 0.30, Share, Guess;
    /// Waiting less than this in all is a start or a burst.
    CONTENDED_WAIT = 200 * MS, Time, Guess;
    /// Threads that wait for less beside their running have most of what they want: at random arrivals that is a CPU
    /// that is a third busy.
    WAITS_TO_RUNNING = 0.5, Share, Mechanism;
    /// A mean wait of less, each time that a thread wants a CPU, is the scheduler's ordinary work.
    SCHEDULERS_TURN = MS, Time, Guess;
    /// A quota is granted anew for each of these (the default of cpu.max and cpu.cfs_period_us).
    QUOTA_PERIOD = 100 * MS, Time, Kernel;
    /// Throttling is counted for each CPU: of the time more than this tells nothing of what was left.
    QUOTA_MOST_OFF = 0.95, Share, Guess;
    /// A quota explains a wait when the cgroup was throttled for this share of it.
    THROTTLED = 0.5, Share, Guess;
    /// A thread whose cgroup is not known waits at least so much of the time for which that cgroup was throttled.
    QUOTA_WAIT_LEAST = 0.6, Share, Guess;
    /// And at most so many times as long.
    QUOTA_WAIT_MOST = 1.6, Times, Guess;
    /// What ran within a quota: accounting is by ticks, and each CPU takes its slice ahead.
    QUOTA_OVERRUN = 1.2, Times, Guess;
    /// A CPU on which a thread was seen less often is not where it waits.
    PRESENT = 0.10, Share, Guess;
    /// A rival that had less of the CPU than this is not worth naming.
    RIVAL = 0.05, Share, Guess;
    /// Others, or a service's own threads, must have been seen on its CPU for this share of a wait: or nobody knows who
    /// had it.
    SEEN_MEANWHILE = 0.5, Share, Guess;
    /// From this share on they had it all the while: the profile leaves some out.
    ALL_THE_WHILE = 0.8, Share, Guess;
    /// What waits for its CPU for less than this share of the time comes first there.
    COMES_FIRST = 0.05, Share, Guess;
    /// A CPU that is idle for more than this has room for somebody.
    ROOM = 0.50, Share, Guess;
    /// A CPU that is less idle has no room for what waits.
    NO_ROOM = 0.1, Share, Guess;
    /// Of less stolen time in all nothing is known: it is counted in ticks of up to 10 ms.
    STEAL = 500 * MS, Time, Sampling;
    /// ksoftirqd waiting less than this share of the time is what a busy host has.
    STARVED_SHARE = 0.10, Share, Guess;
    /// Its waiting less than this in all is a burst.
    STARVED_WAIT = 100 * MS, Time, Guess;
    /// Its mean wait of less, each time that packets want to be handled, is not felt.
    STARVED_MEAN = 500 * US, Time, Guess;
    /// Its waiting for so much of the time is felt, however short each wait.
    STARVED_OBVIOUS = 0.30, Share, Guess;
    /// `ksoftirqd` is woken for other work than packets, too, and what is left to it another softirq may handle first:
    /// for packets it waits where at least this share of its turns follows a softirq that ran out of its budget with
    /// packets left.
    OVERRUNS = 0.5, Share, Guess;
    /// Half of its time and more goes to packets: it is these that leave a CPU no rest.
    SOFTIRQ_SHARE = 0.5, Share, Guess;
    /// A CPU that rests less than this has no more to give.
    REST = 0.1, Share, Guess;
    /// The others could take its packets: they rest half of their time, all together.
    OTHERS_REST = 0.5, Share, Guess;
    /// One CPU takes so much of all packets, and of the interrupts of network devices: of two queues that share a load
    /// evenly it would be a half.
    ONE_CPU_TAKES = 0.8, Share, Mechanism;
    /// Packets per second below which no CPU is at its limit for their number.
    PACKETS_PER_S = 1_000, PerSecond, Guess;
    /// A queue that is emptied without pause raises hardly an interrupt: so few tell where they go.
    INTERRUPTS = 10, Events, Guess;
    /// Two ways of counting, one packet by packet and one by interrupts, of which each brings many or none.
    INTERRUPTS_ALIKE = 0.2, Share, Guess;
}

limits! {
    LOOKUPS = "Lookup tables and memory";
    /// Below this share of one CPU nobody notices a look-up.
    LOOKUP_CPU = 0.02, Share, Guess;
    /// Fewer samples of the profile than this say little about a share.
    LOOKUP_SAMPLES = 50, Samples, Guess;
    /// How far the cost of an entry may be from the usual one: it depends on the caches.
    LOOKUP_COST_FACTOR = 8, Times, Guess;
    /// Of the time in the kernel, or in its softirqs, a look-up takes at least so much.
    LOOKUP_SHARE = 0.10, Share, Guess;
    /// What an entry of a chain, or a routing rule, costs a look-up: from 3 ns in the cache to 150 in memory.
    HASHED_ENTRY = 20, Time, Guess;
    /// What an nftables rule that does not match costs: a few expressions.
    NFT_RULE = 5, Time, Guess;
    /// What an entry of illumos' destination cache costs a look-up, on a machine of its time.
    DCE_ENTRY = 30, Time, Guess;
    /// A share that became so many times what it was first grows.
    LOOKUP_GREW = 1.5, Times, Guess;
    /// A table that grew by less meanwhile has no rate worth telling.
    GROWN_BY_A_TENTH = 0.1, Share, Guess;
    /// Of its growth a table had so much behind it on average, where nothing tells when it grew.
    GROWN_EVENLY = 0.5, Share, Guess;
    /// A count of samples is within so many of its square roots.
    LOOKUP_ERROR = 2, Deviations, Sampling;
    /// A table with as many buckets as entries has chains of one or two.
    CHAIN = 4, Count, Mechanism;
    /// Fewer rules cost less than the rest of receiving a packet: 100 take 8 % of a round trip over a veth pair
    /// (measured), 1,000 take 39 %.
    RULES = 200, Count, Mechanism;
    /// The kernel's default of gc_thresh2: with fewer neighbours it collects nothing.
    NEIGHBOURS = 512, Count, Kernel;
    /// A rule set has a price that its owner wants to pay: a tenth of receiving is no finding.
    RULES_SHARE = 0.20, Share, Guess;
    /// Fewer new entries of the destination cache tell no rate.
    DCE_ADDED = 100, Count, Guess;
    /// How far a rate that was measured for seconds may be from that of weeks.
    DCE_RATE = 0.25, Share, Guess;
    /// SYN and FIN are acknowledged as a byte each: what moved no more carried no data.
    NO_DATA = 2, Bytes, Rfc;
    /// A connection or two that were reset for memory are orphans of a client that vanished.
    ABORTED_FOR_MEMORY = 3, Connections, Guess;
}
