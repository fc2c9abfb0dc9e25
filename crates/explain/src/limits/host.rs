//! Limits for the host: CPUs, interrupts, lookup tables, memory.

use super::{MS, US, limits};

limits! {
    CPUS = "CPUs";
    /// A thread that waits for a CPU for a smaller share of the time than this waits no more than on any busy host.
    CONTENDED_SHARE = 0.30, Share, Guess;
    /// Threads that wait for a CPU for a smaller share of their running time than this get most of what they want. With
    /// random arrivals, this is a CPU that is a third busy.
    WAITS_TO_RUNNING = 0.5, Share, Mechanism;
    /// A shorter mean wait, each time that a thread wants a CPU, is the scheduler's ordinary work.
    SCHEDULERS_TURN = MS, Time, Guess;
    /// A cgroup's CPU quota is refilled once per period of this length (the default of cpu.max and cpu.cfs_period_us).
    QUOTA_PERIOD = 100 * MS, Time, Kernel;
    /// Less stolen CPU time than this in total is not judged: it is counted in ticks of up to 10 ms.
    STEAL = 500 * MS, Time, Sampling;
    /// A shorter mean wait of `ksoftirqd`, each time that packets are to be processed, is not noticed, unless
    /// [`CONTENDED_SHARE`] holds.
    STARVED_MEAN = 500 * US, Time, Guess;
    /// One CPU must process at least this share of all packets, and of the network devices' interrupts, to be the
    /// bottleneck. With two queues that share the load evenly it would be half.
    ONE_CPU_TAKES = 0.8, Share, Mechanism;
    /// At fewer packets per second than this, on all CPUs together, no CPU is at its limit because of their number.
    PACKETS_PER_S = 1_000, PerSecond, Guess;
}

limits! {
    LOOKUPS = "Lookup tables and memory";
    /// A look-up that takes a smaller share of one CPU than this goes unnoticed.
    LOOKUP_CPU = 0.02, Share, Guess;
    /// Each hash chain entry, or routing rule, that a look-up passes costs this time: from 3 ns in the cache to 150 ns
    /// in memory.
    HASHED_ENTRY = 20, Time, Guess;
    /// Each nftables rule that does not match costs this time: a few expressions.
    NFT_RULE = 5, Time, Guess;
    /// Each entry that a look-up passes in illumos' destination cache costs this time, on a machine of its era.
    DCE_ENTRY = 30, Time, Guess;
    /// If nothing tells when a table grew, even growth is assumed: averaged over the recording, this share of it had
    /// happened.
    GROWN_EVENLY = 0.5, Share, Mechanism;
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
    /// A connection that moved no more than this carried no data: SYN and FIN are acknowledged as one byte each.
    NO_DATA = 2, Bytes, Rfc;
    /// Rules must take at least this share of the time. A rule set has a price that its owner is willing to pay: a
    /// tenth of receiving is no finding.
    RULES_SHARE = 0.20, Share, People;
}
