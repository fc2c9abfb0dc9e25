//! What the host gives: CPUs, interrupts, resources, the kernel's lookup structures.

use crate::Text;
use crate::table::table;

table! {
    /// Time and softnet of one CPU since boot, as in /proc/stat and /proc/net/softnet_stat. The CPUs of one reading carry the same time.
    Cpu = "cpu" {
        /// When it was read.
        time_ns: u64, Ns;
        /// CPU.
        cpu: u32, Id;
        /// User mode.
        user_ms: u64, Ms;
        /// User mode at low priority.
        nice_ms: u64, Ms;
        /// Kernel.
        system_ms: u64, Ms;
        /// Idle.
        idle_ms: u64, Ms;
        /// Idle while a disk was busy for it.
        iowait_ms: u64, Ms;
        /// Hardware interrupts.
        irq_ms: u64, Ms;
        /// Softirqs.
        softirq_ms: u64, Ms;
        /// Taken by the hypervisor.
        steal_ms: u64, Ms;
        /// Packets taken from the backlog (softnet: processed).
        softnet_processed: Option<u64>, Count, null "/proc/net/softnet_stat cannot be read";
        /// Packets dropped because the backlog was full (net.core.netdev_max_backlog).
        softnet_dropped: Option<u64>, Count, null "/proc/net/softnet_stat cannot be read";
        /// Times that the budget ran out with work left (net.core.netdev_budget).
        softnet_squeezed: Option<u64>, Count, null "/proc/net/softnet_stat cannot be read";
    }
}

table! {
    /// An interrupt line or a kind of softirq on one CPU: all that are not zero at first, then each that changed.
    Interrupt = "interrupt" {
        /// When it was read.
        time_ns: u64, Ns;
        /// CPU.
        cpu: u32, Id;
        /// `irq` or `softirq`.
        kind: Text, Name;
        /// Number or name of the line (`24`, `LOC`), or of the softirq (`NET_RX`).
        line: Text, Name;
        /// What is behind it: the driver's name for it, with the interface where that does not say it: `eth0-rx-3`, `virtio2-input.0 (eth0)`; for an architecture's own line its description. Empty for softirqs.
        device: Text, Name;
        /// Count since boot.
        count: u64, Count;
    }
}

table! {
    /// One line of the USE checklist: how much of a resource is used, whether work queues for it, whether it fails. The lines of a round carry the same time. Values that stand for themselves are in every round (those of processes and cgroups in every fifth second); values that count up are in the first round, then whenever they changed.
    Resource = "resource" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace; 0 for resources of the whole host.
        netns: u32, Id;
        /// `cpu`, `memory`, `disk`, `network`, `socket-memory`, `descriptors`, `cgroup`.
        resource: Text, Name;
        /// Which one: a disk, an interface, a cgroup path, `comm/pid` of a process, `softnet`, `conntrack`, `neighbours`; empty when there is one only.
        instance: Text, Instance;
        /// `utilisation`, `saturation` or `errors`.
        aspect: Text, Name;
        /// What is measured, e.g. `load1`, `psi_some_avg10`, `rx_dropped`, `throttled_ms`.
        metric: Text, Name;
        /// Its value.
        value: f64, Count;
        /// The unit of the value: `%`, `bytes`, `ms`, `count`.
        unit: Text, Name;
        /// The value counts up since boot: readers want its difference.
        cumulative: bool, Flag;
        /// The limit it is to be seen against, in the same unit; of a value that counts up, how much it can grow by in a second.
        limit: Option<f64>, Count, null "there is none, or it is not known";
    }
}

table! {
    /// One lookup structure on the TCP path: how full it is. A structure that cannot be counted is not here; the source of its name has a verdict that says why. The rows of a round carry the same time.
    TableSize = "table_size" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace. 0 for the whole host: the sum over the namespaces that share the structure; it is missing when only some were recorded.
        netns: u32, Id;
        /// `ehash` (connections, requests and TIME_WAIT), `bhash` (local ports in use by sockets that connect or listen), `listener-hash`, `time-wait`, `requests`, `conntrack`, `neighbours`, `neighbours6`, `tcp-metrics`, `route-exceptions`, `route-exceptions6`, `nft-rules`, `ip-rules`, `ip-rules6`, or `slab:NAME`; in recordings of models also `dce` (illumos' destination cache) or `port-lists` (BSD: all sockets by local port, a bucket for each port that somebody has).
        structure: Text, Name;
        /// Entries now.
        entries: u64, Count;
        /// Buckets of the hash table that the namespace uses, its own or the host's; mean chain = entries ÷ buckets, for a shared table those of the row of the whole host.
        buckets: Option<u64>, Count, null "not a hash table, or its size cannot be had";
        /// Entries at which the kernel refuses or begins to throw away.
        limit: Option<u64>, Count, null "there is none";
        /// Longest chain seen, of the sockets of this namespace.
        longest_chain: Option<u64>, Count, null "the chains were not walked";
        /// Memory it takes.
        bytes: Option<u64>, Bytes, null "not known";
    }
}
