//! Limits for connecting: SYNs, firewalls, refusals, listeners, ports, TIME_WAIT.

use super::{MS, S, US, limits};

limits! {
    SYNS = "SYNs";
    /// Linux retransmits an unanswered SYN for the first time this long after it was sent (TCP_TIMEOUT_INIT).
    SYN_TIMEOUT = S, Time, Kernel;
    /// The interval between two retransmissions of a SYN grows to at most this (TCP_RTO_MAX) on kernels without
    /// net.ipv4.tcp_rto_max_ms.
    RTO_MAX = 120 * S, Time, Kernel;
    /// The schedule of SYN retransmissions is computed up to this many, whatever net.ipv4.tcp_syn_retries is set to.
    SYN_RETRIES = 8, Events, Kernel;
    /// Two SYNs, or a failed connect and its retry, belong to the same connect if at most this time lies between them:
    /// the longest step of the SYN retransmission schedule.
    SAME_CONNECT = 64 * S, Time, Kernel;
    /// The server's end is established within half a round trip of its client's. One that is later than the round trip
    /// plus this was established by a retransmission, which takes at least 200 ms.
    READY_LATE = 100 * MS, Time, Mechanism;
    /// A client that ends a connect sooner than this did not wait even for a round trip across a continent. It counts
    /// as failed at once, not as having given up.
    PATIENT_CONNECT = 80 * MS, Time, Guess;
    /// One ICMP error proves rejection for up to this many unanswered SYNs. Hosts limit ICMP errors to about one per
    /// second and address.
    ICMP_RATION = 20, Times, Kernel;
    /// A failed connect counts as made good if its client is connected over the other address family within this time.
    /// The second attempt starts when the first fails, or this long after it began (RFC 8305, "Connection Attempt
    /// Delay").
    NEXT_ATTEMPT = 250 * MS, Time, Rfc;
}

limits! {
    FIREWALLS = "Firewalls and connection tracking";
    /// Fewer SYNs that a firewall dropped than this are not examined. The kernel itself reports each drop, so a few
    /// suffice, and `OFTEN` and the other limits for findings decide.
    FIREWALL_SEEN = 3, Events, People;
    /// A dropped SYN is retransmitted after a second. Only drops at least this long before the recording ends are
    /// checked for a retransmission.
    COMES_AGAIN = 1_500 * MS, Time, Mechanism;
    /// A conntrack entry outlives its connection by this time (nf_conntrack_tcp_timeout_time_wait). Newer kernels
    /// release its port earlier.
    TRACKED_LINGERS = 120 * S, Time, Kernel;
    /// At least this many dropped SYNs must come from a client on this host: one shows how many connections had a
    /// conntrack entry at that moment.
    TRACKED_CLIENTS = 1, Packets, Mechanism;
}

limits! {
    LISTENERS = "Listeners";
    /// Connections can be unevenly distributed only if at least this many listening sockets share the port
    /// (SO_REUSEPORT).
    SHARED_BY = 2, Count, Mechanism;
    /// Clients that arrive within this time of each other are one burst. A client whose SYN was dropped is back after
    /// this time.
    BURST = S, Time, Kernel;
    /// A wait in an accept queue must be seen to last at least this long. Queues are checked twenty times a second, so
    /// this much of any noticeable wait is seen even if the checks are late.
    ACCEPT_WAIT_SEEN = 100 * MS, Time, Sampling;
    /// The queue length by samples and by the connections' waits (Little's law) may differ by this many standard errors
    /// of the samples. One recording in 400 differs by more by chance.
    ACCEPT_WAITS_DEVIATIONS = 3, Deviations, Sampling;
    /// A stuck accept queue must be at least this many times as long as the others. The kernel spreads connections
    /// evenly, so among equally served queues one in e¹⁰ is this many times the average.
    STUCK_TIMES = 10, Times, Mechanism;
    /// At least this many later connections must be served before those in the stuck queue. With two workers, a stuck
    /// one gets none of five by chance in one case of 32.
    OVERTAKEN = 5, Connections, Sampling;
    /// An accept queue with fewer connections than this on average counts as empty when queues are compared
    /// ([`STUCK_TIMES`]).
    QUEUE_EMPTY = 0.1, Count, Guess;
    /// A worker's share of the connections must lie within this many standard deviations of an even one. Random
    /// distribution stays within that.
    SPREAD_EVENLY = 3, Deviations, Sampling;
    /// If at least this share of the requests in the fullest SYN queue sample had their SYN-ACK retransmitted, their
    /// clients do not answer. In a burst hardly any request is that old.
    SYN_QUEUE_STALE = 0.5, Share, Mechanism;
    /// Without SYN cookies the SYN queue is limited to this share of tcp_max_syn_backlog. The kernel reserves the last
    /// quarter for hosts that it knows.
    SYN_BACKLOG_USED = 0.75, Share, Kernel;
    /// A process with a descriptor limit no higher than this serves no clients: it has room for three standard
    /// descriptors and a listener. It is a sandbox (sshd's child).
    SANDBOX_FILES = 4, Count, Mechanism;
}

limits! {
    PORTS = "Ports and TIME_WAIT";
    /// With at least this share of the ports in use, one parity (odd or even) is full and each search tries all of it
    /// first.
    PARITY_FULL = 0.5, Share, Mechanism;
    /// Each taken port that connect() tries costs this time (measured on Linux 6.18: 65 ns with 8,000 ports, 100 ns
    /// with 16,000).
    PORT_TRY = 65, Time, Kernel;
    /// Each taken port that bind() tries costs this time (measured on Linux 6.18).
    PORT_BIND_TRY = 275, Time, Kernel;
    /// A port search that costs less than this per connect does not make connecting slow.
    SEARCH_COSTS = 50 * US, Time, Guess;
    /// Each connection on a port that bind() has to check costs this time (measured on Linux 6.18: 28 ns with 5,000 of
    /// them, 41 ns with 15,000).
    PORT_OWNER = 30, Time, Kernel;
    /// Fewer connections on a port that bind() has to check than this cost less than the call itself.
    PORT_OWNERS = 500, Connections, Mechanism;
    /// A bind() that is refused at the first connection it checks takes this time (measured on Linux 6.18: 0.4 to 0.7
    /// µs). The advice quotes it.
    BIND_AT_ONCE = US, Time, Kernel;
    /// Each list entry that a search passes costs this time: 30 ns if all entries are in the cache, 100 ns if none is.
    WALKED_ENTRY = 60, Time, Kernel;
    /// Missing accepts during a search count only if at least this many were expected. From here on, chance is ruled
    /// out as the reason for few.
    ACCEPTS_EXPECTED = 20, Events, Sampling;
    /// If TIME_WAIT sockets refuse a smaller share of connects than this, it is no finding: it shows only beyond the
    /// 99.5th percentile of connects.
    COLLISIONS_SHARE = 0.005, Share, People;
    /// A SYN that is retransmitted sooner than this is the quick retry of Linux 5.6 and newer, not a timeout.
    NO_QUICK_RETRY = 500 * MS, Time, Kernel;
    /// Linux advances its initial sequence numbers by one per this time.
    ISN_TICK = 64, Time, Kernel;
    /// TCP timestamps count in steps of this time. Two connections within the same millisecond have the same timestamp.
    TIMESTAMP_TICK = MS, Time, Kernel;
    /// A SYN whose sequence number is ahead of the one that TIME_WAIT expects by more than this, half of the sequence
    /// space, looks old.
    SEQUENCE_HALF = 2_147_483_648.0, Bytes, Rfc;
    /// Skipped TIME_WAIT states do harm if at least one in this many draws a reset: a retransmitted FIN, or late data,
    /// finds no socket. Any host sends some resets, but fewer than that.
    TIME_WAIT_RESETS = 100, Times, Guess;
}
