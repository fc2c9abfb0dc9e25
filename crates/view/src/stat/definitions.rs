//! What counters mean, in one true line each. Names mislead: `TCPTimeouts` is not about connects,
//! `ListenDrops` also counts SYNs that no route led back for.

/// A counter's meaning and where it is laid down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    name: &'static str,
    pub(super) says: &'static str,
    pub(super) source: &'static str,
}

const fn d(name: &'static str, says: &'static str, source: &'static str) -> Definition {
    Definition { name, says, source }
}

/// RFC 4022: the TCP MIB.
const MIB: &str = "RFC 4022";
/// Documentation/networking/snmp_counter.rst of the kernel.
const DOC: &str = "kernel: snmp_counter.rst";
/// The place that counts it.
const INPUT: &str = "kernel: net/ipv4/tcp_input.c";
const TIMER: &str = "kernel: net/ipv4/tcp_timer.c";
const IPV4: &str = "kernel: net/ipv4/tcp_ipv4.c";
const MINISOCKS: &str = "kernel: net/ipv4/tcp_minisocks.c";
const OUTPUT: &str = "kernel: net/ipv4/tcp_output.c";

const DEFINITIONS: &[Definition] = &[
    d(
        "Tcp.ActiveOpens",
        "connections this side began: CLOSED to SYN_SENT",
        MIB,
    ),
    d(
        "Tcp.PassiveOpens",
        "connections that peers began: LISTEN to SYN_RECV, counted when established",
        MIB,
    ),
    d(
        "Tcp.AttemptFails",
        "attempts that ended in SYN_SENT or SYN_RECV",
        MIB,
    ),
    d(
        "Tcp.EstabResets",
        "established connections that ended by a reset",
        MIB,
    ),
    d(
        "Tcp.CurrEstab",
        "connections ESTABLISHED or CLOSE_WAIT now",
        MIB,
    ),
    d("Tcp.InSegs", "segments received, also those in error", MIB),
    d(
        "Tcp.OutSegs",
        "segments sent, without those that only repeat",
        MIB,
    ),
    d(
        "Tcp.RetransSegs",
        "segments sent again, SYNs and SYN-ACKs included",
        MIB,
    ),
    d("Tcp.InErrs", "segments received in error", MIB),
    d("Tcp.OutRsts", "segments sent with RST", MIB),
    d("Tcp.InCsumErrors", "segments with a wrong checksum", DOC),
    d("TcpExt.TCPSynRetrans", "SYNs and SYN-ACKs sent again", DOC),
    d(
        "TcpExt.TCPFastRetrans",
        "segments sent again because of ACKs, not in Loss state",
        DOC,
    ),
    d(
        "TcpExt.TCPSlowStartRetrans",
        "segments sent again in Loss state",
        DOC,
    ),
    d(
        "TcpExt.TCPLostRetransmit",
        "retransmissions that SACK shows to be lost again",
        DOC,
    ),
    d(
        "TcpExt.TCPTimeouts",
        "retransmission timeouts of connections, SYNs included",
        TIMER,
    ),
    d("TcpExt.TCPLossProbes", "tail loss probes sent", DOC),
    d(
        "TcpExt.TCPLossProbeRecovery",
        "losses that a tail loss probe repaired",
        DOC,
    ),
    d(
        "TcpExt.TCPSpuriousRTOs",
        "timeouts that F-RTO found unneeded",
        INPUT,
    ),
    d(
        "TcpExt.TCPSackRecovery",
        "times that fast recovery began, with SACK",
        DOC,
    ),
    d(
        "TcpExt.TCPRenoRecovery",
        "times that fast recovery began, without SACK",
        DOC,
    ),
    d(
        "TcpExt.TCPDSACKRecv",
        "duplicates of our segments that peers reported",
        DOC,
    ),
    d(
        "TcpExt.TCPDSACKOldSent",
        "duplicates of old segments that we reported to peers",
        DOC,
    ),
    d("TcpExt.TCPSACKReorder", "reordering seen by SACK", DOC),
    d(
        "TcpExt.TCPRetransFail",
        "retransmissions that could not be handed down",
        OUTPUT,
    ),
    d(
        "TcpExt.ListenOverflows",
        "handshakes refused because the accept queue was full",
        DOC,
    ),
    d(
        "TcpExt.ListenDrops",
        "SYNs and last ACKs dropped at listeners, for whatever reason",
        DOC,
    ),
    d(
        "TcpExt.TCPReqQFullDrop",
        "SYNs dropped because the SYN queue was full, with cookies off",
        INPUT,
    ),
    d(
        "TcpExt.TCPReqQFullDoCookies",
        "SYNs answered with a cookie because the SYN queue was full",
        INPUT,
    ),
    d(
        "TcpExt.SyncookiesSent",
        "SYN-ACKs sent with a SYN cookie",
        DOC,
    ),
    d(
        "TcpExt.SyncookiesRecv",
        "connections made from a SYN cookie",
        DOC,
    ),
    d(
        "TcpExt.SyncookiesFailed",
        "ACKs whose SYN cookie was not valid",
        DOC,
    ),
    d(
        "TcpExt.TCPBacklogDrop",
        "segments dropped because the socket's backlog was full",
        IPV4,
    ),
    d(
        "TcpExt.TCPRcvQDrop",
        "segments dropped because the receive queue was full",
        INPUT,
    ),
    d(
        "TcpExt.TCPZeroWindowDrop",
        "segments dropped that came into a window of zero",
        INPUT,
    ),
    d(
        "TcpExt.TCPToZeroWindowAdv",
        "times that a window was closed to zero",
        DOC,
    ),
    d(
        "TcpExt.PruneCalled",
        "times that a socket threw away queued data for lack of memory",
        INPUT,
    ),
    d(
        "TcpExt.TCPMemoryPressures",
        "times that TCP came under memory pressure",
        DOC,
    ),
    d(
        "TcpExt.TCPAbortOnData",
        "connections reset because data came after close()",
        DOC,
    ),
    d(
        "TcpExt.TCPAbortOnTimeout",
        "connections given up after the last timeout",
        DOC,
    ),
    d(
        "TcpExt.TCPAbortOnClose",
        "connections reset because they were closed with data unread",
        DOC,
    ),
    d(
        "TcpExt.TCPAbortOnMemory",
        "connections reset for lack of memory or too many orphans",
        DOC,
    ),
    d("TcpExt.TW", "TIME_WAIT sockets that ran out", MINISOCKS),
    d(
        "TcpExt.TWRecycled",
        "TIME_WAIT sockets used again by connect()",
        IPV4,
    ),
    d(
        "TcpExt.TCPTimeWaitOverflow",
        "TIME_WAIT sockets not made: net.ipv4.tcp_max_tw_buckets",
        DOC,
    ),
    d(
        "TcpExt.PAWSEstab",
        "segments dropped in a connection because their timestamp was old",
        DOC,
    ),
    d(
        "TcpExt.PAWSTimewait",
        "SYNs refused in TIME_WAIT because their timestamp was old",
        MINISOCKS,
    ),
    d(
        "TcpExt.TCPACKSkippedTimeWait",
        "answers to segments in TIME_WAIT left out: rate limit",
        DOC,
    ),
    d(
        "TcpExt.TCPACKSkippedSynRecv",
        "answers to segments in SYN_RECV left out: rate limit",
        DOC,
    ),
    d(
        "TcpExt.TCPChallengeACK",
        "challenge ACKs sent (RFC 5961)",
        DOC,
    ),
    d(
        "TcpExt.DelayedACKs",
        "ACKs that the delayed-ACK timer sent",
        DOC,
    ),
    d(
        "TcpExt.EmbryonicRsts",
        "resets that ended a half-open connection",
        DOC,
    ),
    d(
        "TcpExt.TCPWantZeroWindowAdv",
        "times that a window of zero would have been told",
        DOC,
    ),
    d(
        "IpExt.InCEPkts",
        "packets received with a congestion mark",
        "RFC 3168",
    ),
];

/// The meaning of `Group.Name`.
pub(super) fn definition(name: &str) -> Option<Definition> {
    DEFINITIONS.iter().find(|d| d.name == name).copied()
}

/// Whether it tells a present state, of which a rate makes no sense.
pub(super) fn is_gauge(name: &str) -> bool {
    is_setting(name) || matches!(name, "Tcp.CurrEstab" | "MPTcpExt.MPCurrEstab")
}

/// Whether it is a setting that stands among the counters.
pub(super) fn is_setting(name: &str) -> bool {
    matches!(
        name,
        "Tcp.RtoAlgorithm"
            | "Tcp.RtoMin"
            | "Tcp.RtoMax"
            | "Tcp.MaxConn"
            | "Ip.Forwarding"
            | "Ip.DefaultTTL"
    )
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
