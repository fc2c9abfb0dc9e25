//! The counters that code names, each with what it means. Names mislead: `TCPTimeouts` is not about
//! connects, `ListenDrops` also counts SYNs that no route led back for.

/// What a counter means, and where that is laid down.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// `Group.Name`, as in `/proc/net/snmp` and `/proc/net/netstat`.
    pub name: &'static str,
    /// What it counts.
    pub says: &'static str,
    /// An RFC, the kernel's documentation, or the file that counts it.
    pub source: &'static str,
}

/// RFC 4022: the TCP MIB.
const MIB: &str = "RFC 4022";
/// Documentation/networking/snmp_counter.rst of the kernel.
const DOC: &str = "kernel: snmp_counter.rst";
const INPUT: &str = "kernel: net/ipv4/tcp_input.c";
const TIMER: &str = "kernel: net/ipv4/tcp_timer.c";
const IPV4: &str = "kernel: net/ipv4/tcp_ipv4.c";
const MINISOCKS: &str = "kernel: net/ipv4/tcp_minisocks.c";
const OUTPUT: &str = "kernel: net/ipv4/tcp_output.c";

macro_rules! counters {
    ($($name:ident = $full:literal, $says:literal, $source:expr;)+) => {
        $( #[doc = $says] pub const $name: &str = $full; )+
        /// All of them.
        pub const DEFINITIONS: &[Definition] = &[ $( Definition {
            name: $full, says: $says, source: $source,
        }, )+ ];
    };
}

counters! {
    ACTIVE_OPENS = "Tcp.ActiveOpens", "connections this side began: CLOSED to SYN_SENT", MIB;
    PASSIVE_OPENS = "Tcp.PassiveOpens", "connections that peers began: LISTEN to SYN_RECV, counted when established", MIB;
    ATTEMPT_FAILS = "Tcp.AttemptFails", "attempts that ended in SYN_SENT or SYN_RECV", MIB;
    ESTAB_RESETS = "Tcp.EstabResets", "established connections that ended by a reset", MIB;
    CURR_ESTAB = "Tcp.CurrEstab", "connections ESTABLISHED or CLOSE_WAIT now", MIB;
    IN_SEGS = "Tcp.InSegs", "segments received, also those in error", MIB;
    OUT_SEGS = "Tcp.OutSegs", "segments sent, without those that only repeat", MIB;
    RETRANS_SEGS = "Tcp.RetransSegs", "segments retransmitted, SYNs and SYN-ACKs included", MIB;
    IN_ERRS = "Tcp.InErrs", "segments received in error", MIB;
    OUT_RSTS = "Tcp.OutRsts", "segments sent with RST", MIB;
    IN_CSUM_ERRORS = "Tcp.InCsumErrors", "segments with a wrong checksum", DOC;
    TCP_SYN_RETRANS = "TcpExt.TCPSynRetrans", "SYNs and SYN-ACKs retransmitted", DOC;
    TCP_FAST_RETRANS = "TcpExt.TCPFastRetrans", "segments retransmitted because of ACKs, not in Loss state", DOC;
    TCP_SLOW_START_RETRANS = "TcpExt.TCPSlowStartRetrans", "segments retransmitted in Loss state", DOC;
    TCP_LOST_RETRANSMIT = "TcpExt.TCPLostRetransmit", "retransmissions that SACK shows to be lost again", DOC;
    TCP_TIMEOUTS = "TcpExt.TCPTimeouts", "retransmission timeouts of connections, SYNs included", TIMER;
    TCP_LOSS_PROBES = "TcpExt.TCPLossProbes", "tail loss probes sent", DOC;
    TCP_LOSS_PROBE_RECOVERY = "TcpExt.TCPLossProbeRecovery", "losses that a tail loss probe repaired", DOC;
    TCP_SPURIOUS_RTOS = "TcpExt.TCPSpuriousRTOs", "timeouts that F-RTO found unneeded", INPUT;
    TCP_SACK_RECOVERY = "TcpExt.TCPSackRecovery", "times that fast recovery began, with SACK", DOC;
    TCP_RENO_RECOVERY = "TcpExt.TCPRenoRecovery", "times that fast recovery began, without SACK", DOC;
    TCP_DSACK_RECV = "TcpExt.TCPDSACKRecv", "duplicates of our segments that peers reported", DOC;
    TCP_DSACK_OLD_SENT = "TcpExt.TCPDSACKOldSent", "duplicates of old segments that we reported to peers", DOC;
    TCP_SACK_REORDER = "TcpExt.TCPSACKReorder", "reordering seen by SACK", DOC;
    TCP_RETRANS_FAIL = "TcpExt.TCPRetransFail", "retransmissions that could not be handed down", OUTPUT;
    LISTEN_OVERFLOWS = "TcpExt.ListenOverflows", "handshakes refused because the accept queue was full", DOC;
    LISTEN_DROPS = "TcpExt.ListenDrops", "SYNs and last ACKs dropped at listeners, for whatever reason", DOC;
    TCP_REQ_Q_FULL_DROP = "TcpExt.TCPReqQFullDrop", "SYNs dropped because the SYN queue was full, with cookies off", INPUT;
    TCP_REQ_Q_FULL_DO_COOKIES = "TcpExt.TCPReqQFullDoCookies", "SYNs answered with a cookie because the SYN queue was full", INPUT;
    SYNCOOKIES_SENT = "TcpExt.SyncookiesSent", "SYN-ACKs sent with a SYN cookie", DOC;
    SYNCOOKIES_RECV = "TcpExt.SyncookiesRecv", "connections made from a SYN cookie", DOC;
    SYNCOOKIES_FAILED = "TcpExt.SyncookiesFailed", "ACKs whose SYN cookie was not valid", DOC;
    TCP_BACKLOG_DROP = "TcpExt.TCPBacklogDrop", "segments dropped because the socket's backlog was full", IPV4;
    TCP_RCV_Q_DROP = "TcpExt.TCPRcvQDrop", "segments dropped because the receive queue was full", INPUT;
    TCP_ZERO_WINDOW_DROP = "TcpExt.TCPZeroWindowDrop", "segments dropped that came into a window of zero", INPUT;
    TCP_TO_ZERO_WINDOW_ADV = "TcpExt.TCPToZeroWindowAdv", "times that a window was closed to zero", DOC;
    PRUNE_CALLED = "TcpExt.PruneCalled", "times that a socket threw away queued data for lack of memory", INPUT;
    TCP_MEMORY_PRESSURES = "TcpExt.TCPMemoryPressures", "times that TCP came under memory pressure", DOC;
    TCP_ABORT_ON_DATA = "TcpExt.TCPAbortOnData", "connections reset because data came after close()", DOC;
    TCP_ABORT_ON_TIMEOUT = "TcpExt.TCPAbortOnTimeout", "connections given up after the last timeout", DOC;
    TCP_ABORT_ON_CLOSE = "TcpExt.TCPAbortOnClose", "connections reset because they were closed with data unread", DOC;
    TCP_ABORT_ON_MEMORY = "TcpExt.TCPAbortOnMemory", "connections reset for lack of memory or too many orphans", DOC;
    TW = "TcpExt.TW", "TIME_WAIT sockets that ran out", MINISOCKS;
    TW_RECYCLED = "TcpExt.TWRecycled", "TIME_WAIT sockets used again by connect()", IPV4;
    TCP_TIME_WAIT_OVERFLOW = "TcpExt.TCPTimeWaitOverflow", "TIME_WAIT sockets not made: net.ipv4.tcp_max_tw_buckets", DOC;
    PAWS_ESTAB = "TcpExt.PAWSEstab", "segments dropped in a connection because their timestamp was old", DOC;
    PAWS_TIMEWAIT = "TcpExt.PAWSTimewait", "SYNs refused in TIME_WAIT because their timestamp was old", MINISOCKS;
    TCP_ACK_SKIPPED_TIME_WAIT = "TcpExt.TCPACKSkippedTimeWait", "answers to segments in TIME_WAIT left out: rate limit", DOC;
    TCP_ACK_SKIPPED_SYN_RECV = "TcpExt.TCPACKSkippedSynRecv", "answers to segments in SYN_RECV left out: rate limit", DOC;
    TCP_CHALLENGE_ACK = "TcpExt.TCPChallengeACK", "challenge ACKs sent (RFC 5961)", DOC;
    DELAYED_ACKS = "TcpExt.DelayedACKs", "ACKs that the delayed-ACK timer sent", DOC;
    EMBRYONIC_RSTS = "TcpExt.EmbryonicRsts", "resets that ended a half-open connection", DOC;
    TCP_WANT_ZERO_WINDOW_ADV = "TcpExt.TCPWantZeroWindowAdv", "times that a window of zero would have been told", DOC;
    IN_CE_PKTS = "IpExt.InCEPkts", "packets received with a congestion mark", "RFC 3168";
    TCP_TIMEOUT_REHASH = "TcpExt.TcpTimeoutRehash", "timeouts after which another path was tried, by a new flow hash", TIMER;
    TCP_KEEP_ALIVE = "TcpExt.TCPKeepAlive", "keepalive probes sent", DOC;
    IN_DEST_UNREACHS = "Icmp.InDestUnreachs", "ICMP messages received that something was unreachable, `fragmentation needed` included", "RFC 2011";
    MP_CURR_ESTAB = "MPTcpExt.MPCurrEstab", "MPTCP connections established now", "kernel: net/mptcp/mib.c";
    RTO_ALGORITHM = "Tcp.RtoAlgorithm", "how the RTO is computed; a setting", MIB;
    RTO_MIN = "Tcp.RtoMin", "the least RTO, ms; a setting", MIB;
    RTO_MAX = "Tcp.RtoMax", "the largest RTO, ms; a setting", MIB;
    MAX_CONN = "Tcp.MaxConn", "the limit of connections, -1 for none; a setting", MIB;
    FORWARDING = "Ip.Forwarding", "whether packets are forwarded, 1 yes, 2 no; a setting", "RFC 2011";
    DEFAULT_TTL = "Ip.DefaultTTL", "the TTL that packets are sent with; a setting", "RFC 2011";
}

/// What `Group.Name` means; `None` for one that no code names.
pub fn definition(name: &str) -> Option<Definition> {
    DEFINITIONS.iter().find(|d| d.name == name).copied()
}

/// Group and name apart, as rows of the table `counter` hold them.
pub fn parts(full: &str) -> (&str, &str) {
    full.split_once('.').unwrap_or(("", full))
}

/// The name without its group.
pub fn short(full: &str) -> &str {
    parts(full).1
}

/// Whether it tells a present state, of which a rate makes no sense.
pub fn is_gauge(name: &str) -> bool {
    is_setting(name) || matches!(name, CURR_ESTAB | MP_CURR_ESTAB)
}

/// Whether it is a setting that stands among the counters.
pub fn is_setting(name: &str) -> bool {
    const SETTINGS: &[&str] = &[
        RTO_ALGORITHM,
        RTO_MIN,
        RTO_MAX,
        MAX_CONN,
        FORWARDING,
        DEFAULT_TTL,
    ];
    SETTINGS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_defined_once_and_known_to_the_kernel() {
        let mut names: Vec<_> = DEFINITIONS.iter().map(|d| d.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        assert!(names.len() >= 40);
        let files = ["/proc/net/snmp", "/proc/net/netstat"];
        let text: String = files.iter().flat_map(std::fs::read_to_string).collect();
        for name in names {
            let (group, counter) = name.split_once('.').expect("a group and a name");
            let mut lines = text
                .lines()
                .filter(|l| l.starts_with(&format!("{group}: ")));
            let known = lines.any(|l| l.split(' ').any(|w| w == counter));
            assert!(known || text.is_empty(), "{name}");
        }
    }
}
