//! Numbers of connecting: SYNs, firewalls, refusals, listeners, ports, TIME_WAIT.

use super::{MS, S, US, limits};

limits! {
    SYNS = "SYNs";
    /// Linux retransmits the first SYN after this (TCP_TIMEOUT_INIT).
    SYN_TIMEOUT = S, Time, Kernel;
    /// TCP_RTO_MAX, which holds where the kernel has no setting for it.
    RTO_MAX = 120 * S, Time, Kernel;
    /// A client retransmits its SYN no more often than this, whatever tcp_syn_retries is in use.
    SYN_RETRIES = 8, Events, Kernel;
    /// A connect that failed and its retry belong together within the schedule of SYNs: the longest step of it.
    SAME_CONNECT = 64 * S, Time, Kernel;
    /// The timer of a SYN fires up to a few ticks late, and the round trip is added.
    RETRY_TOLERANCE = 0.15, Share, Guess;
    /// Fewer connects that lost one SYN have no median worth a comparison with the timer.
    RETRIES_KNOWN = 3, Connections, Guess;
    /// A server is ready within half a round trip of its client. One that is later than this beyond it was made by a
    /// retransmission (200 ms at least).
    READY_LATE = 100 * MS, Time, Mechanism;
    /// Who gives up sooner than this has not waited for a round trip across a continent.
    PATIENT_CONNECT = 80 * MS, Time, Guess;
    /// Nor has who waited for less than so many round trips to the same place.
    PATIENT_ROUND_TRIPS = 3, Times, Guess;
    /// Fewer connects that are late by the schedule of SYNs are chance.
    LATE_CONNECTS = 3, Connections, Guess;
    /// Fewer connects whose SYNs were not answered are a burst at a start.
    UNANSWERED = 10, Connections, Guess;
    /// Hosts send about one ICMP message a second to an address: of so many SYNs that are rejected one is told.
    ICMP_RATION = 20, Times, Kernel;
    /// A client's second attempt, over the other family, begins when the first has failed, or so long after it began
    /// (RFC 8305, "Connection Attempt Delay"); and some time to get there.
    NEXT_ATTEMPT = 250 * MS, Time, Rfc;
    /// A path that loses every twentieth packet loses data, too; and one below is no outage.
    PATH_DROPS_SYN_SHARE = 0.05, Share, Guess;
    /// Of clients that give up so few suffice: all that these tried was in vain.
    IN_VAIN = 3, Connections, Guess;
    /// Of connections so many times fewer lose data than lose SYNs: it is SYNs that the path drops.
    FEWER_LOSE_DATA = 2, Times, Guess;
}

limits! {
    FIREWALLS = "Firewalls and connection tracking";
    /// Each drop is the kernel's own word: a few connects that waited for one are told, and `matters` decides.
    FIREWALL_SEEN = 3, Events, People;
    /// Of clients elsewhere, hardly one sends a SYN again: so they were answered, or do not wait.
    ANSWERED = 0.98, Share, Guess;
    /// What is dropped is retransmitted after a second; so much later it has come.
    COMES_AGAIN = 1_500 * MS, Time, Mechanism;
    /// Fewer dropped packets of connections are what is late for one that has gone.
    FIREWALL_DROPS_DATA = 20, Packets, Guess;
    /// The table of connection tracking counts entries that are just being made as well: it is full from here on.
    CONNTRACK_FULL = 0.95, Share, Guess;
    /// So many times as many drops of other packets as of SYNs, and a rule may have dropped the SYNs.
    OTHERS_DROPPED = 10, Times, Guess;
    /// An entry of connection tracking outlives its connection for so long (nf_conntrack_tcp_timeout_time_wait); newer
    /// kernels give its port away before.
    TRACKED_LINGERS = 120 * S, Time, Kernel;
    /// As many translated connections as there ever were, but for those that end and begin meanwhile.
    SNAT_FULL = 0.9, Share, Guess;
    /// One SYN that a client on this host lost shows how many connections had an entry then.
    TRACKED_CLIENTS = 1, Packets, Mechanism;
}

limits! {
    REFUSALS = "Refusals";
    /// Fewer refusals in a moment are somebody trying, or a service that was starting.
    REFUSED = 10, Connections, Guess;
    /// And in so much of what was tried.
    REFUSED_SHARE = 0.05, Share, Guess;
    /// When the clients are not on this host, one of them must insist: scanners knock once or twice.
    REFUSED_TO_ONE = 5, Connections, Guess;
    /// Fewer connects that ICMP ended are somebody trying.
    UNREACHABLE = 3, Connections, Guess;
    /// A share of the connects below which it is a route that flaps.
    UNREACHABLE_SHARE = 0.05, Share, Guess;
    /// A neighbour table this full drops entries, or has no room for another.
    NEIGHBOURS_FULL = 0.9, Share, Guess;
    /// Gaps of a timer that fires at a fixed interval, as a health check's, are alike, but for so much.
    PROBE_REGULAR = 0.2, Share, Guess;
    /// Of gaps so many must be alike: a probe may be late now and then.
    PROBE_MOST = 0.8, Share, Guess;
    /// Health checks come once a second or slower; several clients that reconnect come by turns.
    PROBE_SLOW = 900 * MS, Time, Guess;
    /// Of those who are refused so many go on to the other family at once, where nobody misses this one.
    GO_ON = 0.9, Share, Guess;
    /// Connections that stood are not reset by chance; one may be a lost record.
    BROKEN = 5, Connections, Guess;
    /// Of the resets at a place, what must be explained by one sender to name it.
    BY_ONE_SENDER = 0.8, Share, Guess;
    /// None is expected: a client that is alive knows its connections. A few are a program that was killed while its
    /// host was cut off.
    HALF_OPEN_MET = 5, Connections, Guess;
    /// Fewer packets dropped for the route or the neighbour are a probe, or a packet that came while a route changed.
    UNROUTED = 10, Packets, Guess;
    /// Nor is less than this, of what the namespace sends and receives, more than a neighbour that is down while
    /// somebody asks for it.
    UNROUTED_SHARE = 0.001, Share, Guess;
    /// Without the calls: the counter rose so often, in several intervals ([`UNROUTABLE_INTERVALS`]).
    UNROUTABLE_COUNTED = 5, Events, Guess;
    /// Intervals between two samples in which a counter must rise: not the burst of a program that starts.
    UNROUTABLE_INTERVALS = 3, Samples, Guess;
}

limits! {
    LISTENERS = "Listeners";
    /// With SO_REUSEPORT several sockets share a port: two at least.
    SHARED_BY = 2, Count, Mechanism;
    /// A client whose SYN is dropped waits a second. Fewer drops than this, in a recording of seconds, is one burst at
    /// a start. Of how many arrivals they are says little: while nothing is accepted, clients hang and do not arrive.
    LISTENER_DROPS = 10, Events, Guess;
    /// When at least this share of samples shows a crowded accept queue, the application is too slow; when fewer do,
    /// bursts are too large.
    QUEUE_SUSTAINED = 0.3, Share, Guess;
    /// Clients that arrive within this time of each other are one burst: a dropped one is back then.
    BURST = S, Time, Kernel;
    /// Above this ratio of arrivals to accepts, over the whole time, the accept queue is full for good.
    OVERLOAD = 1.05, Times, Guess;
    /// Looks at accept queues come twenty times a second, and see of a wait that is noticed this much at least, where
    /// they are late as well.
    ACCEPT_WAIT_SEEN = 100 * MS, Time, Sampling;
    /// Queues are looked at once a second, of some seconds of waiting: waiting by samples and by connections differ so
    /// much.
    ACCEPT_WAITS_OFF = 2, Times, Sampling;
    /// Of less than this waiting on average samples show one or none.
    ACCEPT_WAITS_NOISE = 0.5, Count, Sampling;
    /// A queue that a worker empties is found empty by most samples.
    STUCK_SHARE = 0.5, Share, Guess;
    /// And it never stands for seconds.
    STUCK_SAMPLES = 3, Samples, Guess;
    /// The kernel spreads connections evenly: of queues that are emptied alike, one in e¹⁰ is so many times as long as
    /// they are on average.
    STUCK_TIMES = 10, Times, Mechanism;
    /// So many that came later were served meanwhile: with two workers chance gives a stuck one none of five in one of
    /// 32.
    OVERTAKEN = 5, Connections, Sampling;
    /// Fewer waiting than this on average is an empty queue.
    QUEUE_EMPTY = 0.1, Count, Guess;
    /// What is spread at random over workers lies within so many standard deviations.
    SPREAD_EVENLY = 3, Deviations, Sampling;
    /// When at least this share of the requests in the fullest sample had their SYN-ACK retransmitted, their clients do
    /// not answer; in a burst hardly any is that old.
    SYN_QUEUE_STALE = 0.5, Share, Mechanism;
    /// Without a measured round trip, SYNs within this time of each other count as simultaneous.
    USUAL_RTT = 10 * MS, Time, Guess;
    /// Without SYN cookies the kernel keeps a quarter of tcp_max_syn_backlog for hosts that it knows.
    SYN_BACKLOG_USED = 0.75, Share, Kernel;
    /// Of that backlog, from which share on its queue was full: samples come once a second.
    SYN_QUEUE_WAS_FULL = 0.7, Share, Guess;
    /// A longest queue of less than this share of its limit was not sampled while it was full, and checks nothing.
    SYN_QUEUE_SEEN = 0.5, Share, Guess;
    /// Fewer SYN cookies are a burst of clients that were killed, or cut off, between SYN and ACK.
    FLOOD_COOKIES = 100, Events, Guess;
    /// Clients answer: of real ones the share of a path's losses does not. Where most do not answer, most are none.
    FLOOD_RETURNED = 0.5, Share, Guess;
    /// What is held against a path that loses so much: so many times fewer connections retransmit than would.
    FLOOD_FEWER_RETRANSMIT = 2, Times, Guess;
    /// With a limit of files no higher nobody can serve: three standard ones and a listener. It is a sandbox (sshd's
    /// child).
    SANDBOX_FILES = 4, Count, Mechanism;
}

limits! {
    PORTS = "Ports and TIME_WAIT";
    /// Fewer failures than this may be one program that asked for a port of its own.
    PORTS_FAILED = 5, Connections, Guess;
    /// The count of ports is of another moment than the failures.
    PORTS_FULL = 0.95, Share, Guess;
    /// From this occupancy on one parity of the ports is full, and each search tries all of it first.
    PARITY_FULL = 0.5, Share, Mechanism;
    /// With so many ports in use, no way of searching helps.
    PORTS_NEARLY_FULL = 0.95, Share, Guess;
    /// What one try costs connect(), when the port is taken (measured on Linux 6.18: 65 ns with 8,000 ports, 100 with
    /// 16,000).
    PORT_TRY = 65, Time, Kernel;
    /// The same for bind() (measured on Linux 6.18).
    PORT_BIND_TRY = 275, Time, Kernel;
    /// Fewer connects than this with half of the ports in use are no pattern.
    SEARCHES = 20, Connections, Guess;
    /// Fewer samples of the profile in the search say little about its cost.
    SEARCH_SAMPLES = 30, Samples, Guess;
    /// A search of less, per connect, is not what makes connecting slow.
    SEARCH_COSTS = 50 * US, Time, Guess;
    /// The walk is under a lock and not preempted: what it takes is CPU time, but for interrupts.
    SEARCH_ON_CPU = 2, Times, Guess;
    /// The cost of a try differs that much between processors and loads.
    SEARCH_COST_FACTOR = 4, Times, Guess;
    /// Of the ports taken, the share of even ones falls by so much where one parity is full: from nearly all to nearly
    /// none.
    PARITY_SHIFTS = 0.8, Share, Guess;
    /// What a connection in the way costs bind() (measured on Linux 6.18: 28 ns with 5,000 of them, 41 with 15,000).
    PORT_OWNER = 30, Time, Kernel;
    /// Fewer connections in the way than this cost less than a call does anyway.
    PORT_OWNERS = 500, Connections, Mechanism;
    /// A refusal at the first connection takes so long (measured on Linux 6.18: 0.4 to 0.7 µs).
    BIND_AT_ONCE = US, Time, Kernel;
    /// A shorter search is not what makes anybody wait.
    WALK_COSTS = 10 * MS, Time, Guess;
    /// What an entry of a list costs a search: 30 ns when all are in the cache, 100 when none is.
    WALKED_ENTRY = 60, Time, Kernel;
    /// A wait that ends so close to the return of a search was for its lock.
    WOKEN_BY_SEARCH = MS, Time, Guess;
    /// Where so many accepts would have come during a search, few by chance are out of the question.
    ACCEPTS_EXPECTED = 20, Events, Sampling;
    /// So many times fewer came than would have: the search kept them out.
    ACCEPTS_FEWER = 10, Times, Guess;
    /// Fewer refusals than this, in a recording of seconds, happen on any busy host that uses its ports again: two ends
    /// of a million in the same millisecond.
    COLLISIONS = 10, Connections, Guess;
    /// Below this share of connects only their 99.5th percentile shows it.
    COLLISIONS_SHARE = 0.005, Share, People;
    /// A SYN that is retransmitted sooner is the quick one of Linux 5.6 and newer, no timeout.
    NO_QUICK_RETRY = 500 * MS, Time, Kernel;
    /// The rate broke because of the refusals if such a share of the connections was blocked since.
    BLOCKED = 0.5, Share, Guess;
    /// Of fewer connections that ended nobody knows who usually closes first.
    ENDED_KNOWN = 10, Connections, Guess;
    /// Linux advances initial sequence numbers by one per so many ns.
    ISN_TICK = 64, Time, Kernel;
    /// A timestamp is a count of ms: two connections of one ms have the same.
    TIMESTAMP_TICK = MS, Time, Kernel;
    /// Above this share of connects they hinder each other, and chances do not multiply.
    COLLISIONS_INDEPENDENT = 0.3, Share, Guess;
    /// Timeouts without which a rate of them is chance.
    TIMEOUTS_KNOWN = 10, Events, Guess;
    /// From this share of it on the ceiling of timeouts is reached: a client also connects in between.
    AT_CEILING = 0.8, Share, Guess;
    /// A rate of timeouts exceeds their ceiling by no more: both are averages over the same seconds.
    ABOVE_CEILING = 0.1, Share, Guess;
    /// The count of TIME_WAIT sockets and the latest refusals are known at different moments.
    SAME_MOMENT = S, Time, Guess;
    /// A SYN ahead of what TIME_WAIT expects by more than half of the sequence space looks old.
    SEQUENCE_HALF = 2_147_483_648.0, Bytes, Rfc;
    /// Of the connections of the host so many were recorded: else draws of sequence numbers are missing.
    DRAWS_SEEN = 0.9, Share, Guess;
    /// Refused connects whose times differ by less were through with the same SYN.
    TRIES_ALIKE = 0.05, Share, Guess;
    /// The age from which on ports meet, by sequence numbers and as seen: a port must be used again, too.
    ILLUMOS_MEETS = 0.2, Share, Guess;
    /// Fewer connections that did without TIME_WAIT are a moment.
    TIME_WAIT_OVERFLOWS = 100, Events, Guess;
    /// A retransmitted FIN, or data under way, that finds no TIME_WAIT socket is answered with a reset: for one in so
    /// many it is more than what any host sends.
    TIME_WAIT_RESETS = 100, Times, Guess;
}
