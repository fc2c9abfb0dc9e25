//! The counters of Linux, each with what it means. Names mislead: `TCPTimeouts` is not about
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
const TCP: &str = "kernel: net/ipv4/tcp.c";
const AO: &str = "kernel: net/ipv4/tcp_ao.c";
const TIMEWAIT: &str = "kernel: net/ipv4/inet_timewait_sock.c";
const IP: &str = "kernel: net/ipv4/ip_input.c";
const ICMP: &str = "kernel: net/ipv4/icmp.c";
const UDP: &str = "kernel: net/ipv4/udp.c";

macro_rules! definitions {
    ($($full:literal, $says:literal, $source:expr;)+) => {
        &[ $( Definition { name: $full, says: $says, source: $source }, )+ ]
    };
}

macro_rules! counters {
    ($($name:ident = $full:literal, $says:literal, $source:expr;)+) => {
        $( #[doc = $says] pub const $name: &str = $full; )+
        /// Those that code names.
        pub const NAMED: &[Definition] = definitions! { $( $full, $says, $source; )+ };
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
    DEFER_ACCEPT_DROP = "TcpExt.TCPDeferAcceptDrop", "bare last ACKs of handshakes ignored: TCP_DEFER_ACCEPT waits for data", MINISOCKS;
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
    TW = "TcpExt.TW", "sockets that entered TIME_WAIT, or FIN_WAIT2 without an owner, for more than 4 s", TIMEWAIT;
    TW_RECYCLED = "TcpExt.TWRecycled", "TIME_WAIT sockets used again by connect()", IPV4;
    TCP_TIME_WAIT_OVERFLOW = "TcpExt.TCPTimeWaitOverflow", "TIME_WAIT sockets not made: net.ipv4.tcp_max_tw_buckets", DOC;
    PAWS_ESTAB = "TcpExt.PAWSEstab", "segments dropped in a connection because their timestamp was old", DOC;
    PAWS_TIMEWAIT = "TcpExt.PAWSTimewait", "SYNs refused in TIME_WAIT because their timestamp was old", MINISOCKS;
    TCP_ACK_SKIPPED_TIME_WAIT = "TcpExt.TCPACKSkippedTimeWait", "answers to segments in TIME_WAIT left out: rate limit", DOC;
    TCP_ACK_SKIPPED_SYN_RECV = "TcpExt.TCPACKSkippedSynRecv", "answers to segments in SYN_RECV left out: rate limit", DOC;
    TCP_SYN_CHALLENGE = "TcpExt.TCPSYNChallenge", "challenge ACKs sent in answer to a SYN within a connection (RFC 5961)", DOC;
    TCP_CHALLENGE_ACK = "TcpExt.TCPChallengeACK", "challenge ACKs sent (RFC 5961)", DOC;
    DELAYED_ACKS = "TcpExt.DelayedACKs", "ACKs that the delayed-ACK timer sent", DOC;
    EMBRYONIC_RSTS = "TcpExt.EmbryonicRsts", "resets that ended a connection in SYN_RECV", DOC;
    RCV_PRUNED = "TcpExt.RcvPruned", "segments dropped because a socket had no memory left, whatever it threw away", INPUT;
    OFO_PRUNED = "TcpExt.OfoPruned", "times that a socket threw away its out-of-order queue for lack of memory", INPUT;
    TCP_OFO_QUEUE = "TcpExt.TCPOFOQueue", "segments received out of order", DOC;
    TCP_OFO_DROP = "TcpExt.TCPOFODrop", "segments received out of order and dropped for lack of memory", DOC;
    TCP_MEMORY_PRESSURES_CHRONO = "TcpExt.TCPMemoryPressuresChrono", "time under memory pressure, ms", DOC;
    IP_REVERSE_PATH_FILTER = "TcpExt.IPReversePathFilter", "packets dropped because the route back leads elsewhere (rp_filter)", "kernel: net/ipv4/fib_frontend.c";
    TCP_WANT_ZERO_WINDOW_ADV = "TcpExt.TCPWantZeroWindowAdv", "times that a window of zero would have been told", DOC;
    INTR_QUEUE_DROPS = "Ip.intr_queue_drops", "packets dropped because the queue of the IP interrupt was full", "FreeBSD: net.inet.ip.intr_queue_drops";
    IN_CE_PKTS = "IpExt.InCEPkts", "packets received with a congestion mark", "RFC 3168";
    TCP_TIMEOUT_REHASH = "TcpExt.TcpTimeoutRehash", "timeouts after which another path was tried, by a new flow hash", TIMER;
    TCP_KEEP_ALIVE = "TcpExt.TCPKeepAlive", "keepalive probes sent", DOC;
    IN_DEST_UNREACHS = "Icmp.InDestUnreachs", "ICMP messages received that something was unreachable, `fragmentation needed` included", "RFC 2011";
    MP_CURR_ESTAB = "MPTcpExt.MPCurrEstab", "MPTCP connections established now", "kernel: net/mptcp/mib.c";
    IP_IN_RECEIVES = "Ip.InReceives", "packets received, those in error included", "RFC 4293";
    IP_OUT_NO_ROUTES = "Ip.OutNoRoutes", "connect() calls and packets to send for which no route led to their destination", "RFC 4293";
    RTO_ALGORITHM = "Tcp.RtoAlgorithm", "how the RTO is computed; a setting", MIB;
    RTO_MIN = "Tcp.RtoMin", "the least RTO, ms; a setting", MIB;
    RTO_MAX = "Tcp.RtoMax", "the largest RTO, ms; a setting", MIB;
    MAX_CONN = "Tcp.MaxConn", "the limit of connections, -1 for none; a setting", MIB;
    FORWARDING = "Ip.Forwarding", "whether packets are forwarded, 1 yes, 2 no; a setting", "RFC 2011";
    DEFAULT_TTL = "Ip.DefaultTTL", "the TTL that packets are sent with; a setting", "RFC 2011";
}

/// Those that no code names.
pub const OTHERS: &[Definition] = definitions! {
    "Tcp.InDataDupSegs", "segments received whose data had all come before", "illumos: inet/mib2.h";
    "Tcp.time_wait_syn_success", "SYNs that were let in at a TIME_WAIT socket", "illumos: tcp_time_wait.c";
    "in_pcblookup_local.calls", "look-ups in a list of connections by local port", "case E: KTR trace of in_pcb.c";
    "in_pcblookup_local.iterations", "entries that they passed", "case E: KTR trace of in_pcb.c";
    "in_pcblookup_local.expired", "TIME_WAITs that they ended on their way", "case E: KTR trace of in_pcb.c";
    "Ip.InHdrErrors", "packets dropped for an error in the header: checksum, version, TTL at 0", "RFC 4293";
    "Ip.InAddrErrors", "packets dropped because their destination is none that this host takes", "RFC 4293";
    "Ip.ForwDatagrams", "packets of others that were to be forwarded", "RFC 4293";
    "Ip.InUnknownProtos", "packets dropped because no protocol here is theirs", "RFC 4293";
    "Ip.InDiscards", "packets dropped though nothing was wrong with them: no memory, or a socket's filter", "RFC 4293";
    "Ip.InDelivers", "packets handed to a protocol above IP", "RFC 4293";
    "Ip.OutRequests", "packets that protocols of this host gave to IP to send, without those forwarded", "RFC 4293";
    "Ip.OutDiscards", "packets to send that were dropped though nothing was wrong with them: no memory, a firewall's verdict", "RFC 4293";
    "Ip.OutTransmits", "packets handed to a device, forwarded ones and fragments included", "RFC 4293";
    "Ip.ReasmTimeout", "packets given up because fragments of them did not come in time (net.ipv4.ipfrag_time)", "RFC 4293";
    "Ip.ReasmReqds", "fragments received", "RFC 4293";
    "Ip.ReasmOKs", "packets put together from fragments", "RFC 4293";
    "Ip.ReasmFails", "times that putting a packet together failed: timeout, error, no memory", "RFC 4293";
    "Ip.FragOKs", "packets that were cut into fragments", "RFC 4293";
    "Ip.FragFails", "packets that should have been cut and could not, as DF was set", "RFC 4293";
    "Ip.FragCreates", "fragments made", "RFC 4293";
    "Icmp.InMsgs", "ICMP messages received", "RFC 2011";
    "Icmp.InErrors", "ICMP messages received that were wrong: length, checksum, or about no socket of ours", "RFC 2011";
    "Icmp.InCsumErrors", "ICMP messages received with a wrong checksum", ICMP;
    "Icmp.InTimeExcds", "ICMP messages received that a TTL had run down to 0, or fragments did not come", "RFC 2011";
    "Icmp.InParmProbs", "ICMP messages received that a header of ours was wrong", "RFC 2011";
    "Icmp.InSrcQuenchs", "source quenches received, which mean nothing any more (RFC 6633)", "RFC 2011";
    "Icmp.InRedirects", "ICMP messages received that another router is nearer", "RFC 2011";
    "Icmp.InEchos", "pings received", "RFC 2011";
    "Icmp.InEchoReps", "answers to pings received", "RFC 2011";
    "Icmp.InTimestamps", "ICMP timestamp requests received", "RFC 2011";
    "Icmp.InTimestampReps", "ICMP timestamp replies received", "RFC 2011";
    "Icmp.InAddrMasks", "ICMP address mask requests received", "RFC 2011";
    "Icmp.InAddrMaskReps", "ICMP address mask replies received", "RFC 2011";
    "Icmp.OutMsgs", "ICMP messages sent", "RFC 2011";
    "Icmp.OutErrors", "ICMP messages that could not be sent for a reason within ICMP", "RFC 2011";
    "Icmp.OutRateLimitGlobal", "ICMP messages not sent: net.ipv4.icmp_msgs_per_sec", ICMP;
    "Icmp.OutRateLimitHost", "ICMP messages not sent: net.ipv4.icmp_ratelimit, per destination", ICMP;
    "Icmp.OutDestUnreachs", "ICMP messages sent that something was unreachable, `fragmentation needed` included", "RFC 2011";
    "Icmp.OutTimeExcds", "ICMP messages sent that a TTL had run down to 0, or fragments did not come", "RFC 2011";
    "Icmp.OutParmProbs", "ICMP messages sent that a header was wrong", "RFC 2011";
    "Icmp.OutSrcQuenchs", "source quenches sent; Linux sends none", "RFC 2011";
    "Icmp.OutRedirects", "ICMP messages sent that another router is nearer", "RFC 2011";
    "Icmp.OutEchos", "pings sent", "RFC 2011";
    "Icmp.OutEchoReps", "answers to pings sent", "RFC 2011";
    "Icmp.OutTimestamps", "ICMP timestamp requests sent", "RFC 2011";
    "Icmp.OutTimestampReps", "ICMP timestamp replies sent", "RFC 2011";
    "Icmp.OutAddrMasks", "ICMP address mask requests sent", "RFC 2011";
    "Icmp.OutAddrMaskReps", "ICMP address mask replies sent", "RFC 2011";
    "Udp.InDatagrams", "datagrams that programs got", "RFC 4113";
    "Udp.NoPorts", "datagrams received for a port that nobody has", "RFC 4113";
    "Udp.InErrors", "datagrams not delivered for another reason: checksum, no room in the receive buffer", "RFC 4113";
    "Udp.OutDatagrams", "datagrams sent", "RFC 4113";
    "Udp.RcvbufErrors", "datagrams dropped because the socket's receive buffer was full", UDP;
    "Udp.SndbufErrors", "datagrams not sent for want of send buffer or memory", UDP;
    "Udp.InCsumErrors", "datagrams received with a wrong checksum", UDP;
    "Udp.IgnoredMulti", "multicast datagrams that no socket here had joined", UDP;
    "Udp.MemErrors", "datagrams dropped because all of UDP had too much memory (net.ipv4.udp_mem)", UDP;
    "TcpExt.OutOfWindowIcmps", "ICMP messages about a connection that quote a sequence number outside its window: ignored", IPV4;
    "TcpExt.LockDroppedIcmps", "ICMP messages about a connection that came while its socket was locked: ignored", IPV4;
    "TcpExt.ArpFilter", "ARP requests not answered because the route back leads through another device (arp_filter)", "kernel: net/ipv4/arp.c";
    "TcpExt.TWKilled", "sockets that entered TIME_WAIT, or FIN_WAIT2 without an owner, for 4 s or less", TIMEWAIT;
    "TcpExt.PAWSActive", "SYN-ACKs dropped in SYN_SENT because they echo no timestamp of ours", INPUT;
    "TcpExt.BeyondWindow", "segments dropped because they lie beyond the window", INPUT;
    "TcpExt.TSEcrRejected", "segments dropped because they echo a timestamp that was not sent yet", INPUT;
    "TcpExt.PAWSOldAck", "pure ACKs dropped that a later segment had overtaken", INPUT;
    "TcpExt.DelayedACKLocked", "times that the delayed-ACK timer found the socket locked, and tried again", DOC;
    "TcpExt.DelayedACKLost", "segments that came again though acknowledged: that ACK, or its segment's, was late or lost", DOC;
    "TcpExt.TCPHPHits", "segments with data taken on the fast path, as the next ones expected", DOC;
    "TcpExt.TCPPureAcks", "segments without data taken on the slow path", DOC;
    "TcpExt.TCPHPAcks", "segments without data taken on the fast path", DOC;
    "TcpExt.TCPSACKReneging", "times that a peer took back what it had reported by SACK", DOC;
    "TcpExt.TCPRenoReorder", "reordering seen by duplicate ACKs, without SACK", DOC;
    "TcpExt.TCPTSReorder", "reordering seen by a timestamp, in what was retransmitted", DOC;
    "TcpExt.TCPFullUndo", "recoveries undone because no retransmission was needed, told by timestamps", DOC;
    "TcpExt.TCPPartialUndo", "recoveries undone in part, told by timestamps", DOC;
    "TcpExt.TCPDSACKUndo", "recoveries undone because peers reported all retransmissions as duplicates", DOC;
    "TcpExt.TCPLossUndo", "Loss states undone because the timeout was not needed", DOC;
    "TcpExt.TCPRenoFailures", "timeouts in Disorder, without SACK", TIMER;
    "TcpExt.TCPSackFailures", "timeouts in Disorder, with SACK", TIMER;
    "TcpExt.TCPLossFailures", "timeouts in Loss: a retransmission was lost as well", TIMER;
    "TcpExt.TCPRenoRecoveryFail", "timeouts in fast recovery, without SACK", TIMER;
    "TcpExt.TCPSackRecoveryFail", "timeouts in fast recovery, with SACK", TIMER;
    "TcpExt.TCPRcvCollapsed", "segments copied together in a receive queue to save memory", INPUT;
    "TcpExt.TCPBacklogCoalesce", "segments merged in the backlog of a locked socket", IPV4;
    "TcpExt.TCPDSACKOfoSent", "duplicates of out-of-order segments that we reported to peers", DOC;
    "TcpExt.TCPDSACKOfoRecv", "duplicates of our out-of-order segments that peers reported", DOC;
    "TcpExt.TCPAbortOnLinger", "connections reset at once in FIN_WAIT2, as TCP_LINGER2 asks", DOC;
    "TcpExt.TCPAbortFailed", "resets that could not be sent for lack of memory", DOC;
    "TcpExt.TCPSACKDiscard", "SACK blocks that make no sense", DOC;
    "TcpExt.TCPDSACKIgnoredOld", "D-SACK blocks that make no sense, after something was retransmitted", DOC;
    "TcpExt.TCPDSACKIgnoredNoUndo", "D-SACK blocks that make no sense, when nothing was retransmitted", DOC;
    "TcpExt.TCPDSACKIgnoredDubious", "D-SACK blocks for more than was retransmitted, as middleboxes make them", INPUT;
    "TcpExt.TCPMD5NotFound", "segments dropped that lack the MD5 signature which is expected", TCP;
    "TcpExt.TCPMD5Unexpected", "segments dropped that carry an MD5 signature which is not expected", TCP;
    "TcpExt.TCPMD5Failure", "segments dropped whose MD5 signature is wrong", TCP;
    "TcpExt.TCPSackShifted", "segments whose beginning was moved into the one before, as SACK covers both", DOC;
    "TcpExt.TCPSackMerged", "segments merged into the one before, as SACK covers both", DOC;
    "TcpExt.TCPSackShiftFallback", "segments that could be neither moved nor merged", DOC;
    "TcpExt.PFMemallocDrop", "segments dropped because they used memory reserved for swapping", "kernel: net/core/filter.c";
    "TcpExt.TCPMinTTLDrop", "segments dropped because their TTL is less than IP_MINTTL of the socket", IPV4;
    "TcpExt.TCPRcvCoalesce", "segments merged into the one before in a receive queue", INPUT;
    "TcpExt.TCPOFOMerge", "segments received out of order that overlap others in the queue", DOC;
    "TcpExt.TCPFastOpenActive", "connections whose SYN carried data that the peer took (RFC 7413)", DOC;
    "TcpExt.TCPFastOpenActiveFail", "connections whose data in the SYN was not taken", DOC;
    "TcpExt.TCPFastOpenPassive", "connections accepted with data in the SYN", DOC;
    "TcpExt.TCPFastOpenPassiveFail", "SYNs with data whose Fast Open cookie was not valid", DOC;
    "TcpExt.TCPFastOpenListenOverflow", "SYNs with data not taken because too many await their handshake's end", DOC;
    "TcpExt.TCPFastOpenCookieReqd", "peers that asked for a Fast Open cookie", DOC;
    "TcpExt.TCPFastOpenBlackhole", "times that Fast Open was switched off because a middlebox swallows it", DOC;
    "TcpExt.TCPFastOpenPassiveAltKey", "Fast Open cookies made with the older key", "kernel: net/ipv4/tcp_fastopen.c";
    "TcpExt.TCPSpuriousRtxHostQueues", "retransmissions left out: the segment was still in a queue of this host", OUTPUT;
    "TcpExt.BusyPollRxPackets", "packets received by busy polling", "kernel: net/core/dev.c";
    "TcpExt.TCPAutoCorking", "times that a small segment was held back to be merged with the next write (tcp_autocorking)", DOC;
    "TcpExt.TCPFromZeroWindowAdv", "times that a window of zero was opened again", DOC;
    "TcpExt.TCPOrigDataSent", "segments with data sent, without retransmissions", DOC;
    "TcpExt.TCPHystartTrainDetect", "times that CUBIC left slow start for the length of an ACK train", DOC;
    "TcpExt.TCPHystartTrainCwnd", "sum of the congestion windows at those moments, segments", DOC;
    "TcpExt.TCPHystartDelayDetect", "times that CUBIC left slow start because the round trip grew", DOC;
    "TcpExt.TCPHystartDelayCwnd", "sum of the congestion windows at those moments, segments", DOC;
    "TcpExt.TCPACKSkippedPAWS", "answers to segments with an old timestamp left out: rate limit", DOC;
    "TcpExt.TCPACKSkippedSeq", "answers to segments with a wrong sequence number left out: rate limit", DOC;
    "TcpExt.TCPACKSkippedFinWait2", "answers in FIN_WAIT2 left out: rate limit", DOC;
    "TcpExt.TCPACKSkippedChallenge", "challenge ACKs left out: rate limit", DOC;
    "TcpExt.TCPWinProbe", "window probes sent", DOC;
    "TcpExt.TCPMTUPFail", "MTU probes that were lost (tcp_mtu_probing)", OUTPUT;
    "TcpExt.TCPMTUPSuccess", "MTU probes that came through", INPUT;
    "TcpExt.TCPDelivered", "segments that peers acknowledged or reported by SACK, retransmissions included", DOC;
    "TcpExt.TCPDeliveredCE", "the same, of those that a congestion mark was echoed for", DOC;
    "TcpExt.TCPAckCompressed", "ACKs left out because a later one tells more (tcp_comp_sack_delay_ns)", OUTPUT;
    "TcpExt.TCPWqueueTooBig", "times that splitting a segment was refused: the write queue had grown beyond SO_SNDBUF", OUTPUT;
    "TcpExt.TcpDuplicateDataRehash", "duplicates received after which another path was tried, by a new flow hash", INPUT;
    "TcpExt.TCPDSACKRecvSegs", "segments of ours that peers reported as duplicates", INPUT;
    "TcpExt.TCPMigrateReqSuccess", "handshakes that another listener took over when theirs was closed (tcp_migrate_req)", "kernel: net/ipv4/inet_connection_sock.c";
    "TcpExt.TCPMigrateReqFailure", "handshakes that no other listener took over when theirs was closed", "kernel: net/ipv4/inet_connection_sock.c";
    "TcpExt.TCPPLBRehash", "times that another path was tried because of congestion marks (tcp_plb_enabled)", "kernel: net/ipv4/tcp_plb.c";
    "TcpExt.TCPAORequired", "segments dropped that lack the TCP-AO signature which is expected", AO;
    "TcpExt.TCPAOBad", "segments dropped whose TCP-AO signature is wrong", AO;
    "TcpExt.TCPAOKeyNotFound", "segments dropped whose TCP-AO key is not known", AO;
    "TcpExt.TCPAOGood", "segments whose TCP-AO signature was right", AO;
    "TcpExt.TCPAODroppedIcmps", "ICMP messages about connections with TCP-AO: ignored", AO;
    "IpExt.InNoRoutes", "packets received that no route led on for", IP;
    "IpExt.InTruncatedPkts", "packets received that are shorter than their header says", IP;
    "IpExt.InMcastPkts", "multicast packets received", IP;
    "IpExt.OutMcastPkts", "multicast packets sent", IP;
    "IpExt.InBcastPkts", "broadcast packets received", IP;
    "IpExt.OutBcastPkts", "broadcast packets sent", IP;
    "IpExt.InOctets", "bytes received, IP headers included", IP;
    "IpExt.OutOctets", "bytes sent, IP headers included", IP;
    "IpExt.InMcastOctets", "bytes of multicast packets received", IP;
    "IpExt.OutMcastOctets", "bytes of multicast packets sent", IP;
    "IpExt.InBcastOctets", "bytes of broadcast packets received", IP;
    "IpExt.OutBcastOctets", "bytes of broadcast packets sent", IP;
    "IpExt.InCsumErrors", "packets received whose IP header has a wrong checksum", IP;
    "IpExt.InNoECTPkts", "packets received from senders without ECN", "RFC 3168";
    "IpExt.InECT1Pkts", "packets received that may be marked, by ECT(1)", "RFC 3168";
    "IpExt.InECT0Pkts", "packets received that may be marked, by ECT(0)", "RFC 3168";
    "IpExt.ReasmOverlaps", "fragments that overlap others: dropped", IP;
};

/// Counters of ICMP by the number of the type, which have a name for each.
const BY_TYPE: [(&str, Definition); 2] = [
    (
        "IcmpMsg.InType",
        Definition {
            name: "IcmpMsg.InType*",
            says: "ICMP messages received of this type, by its number",
            source: ICMP,
        },
    ),
    (
        "IcmpMsg.OutType",
        Definition {
            name: "IcmpMsg.OutType*",
            says: "ICMP messages sent of this type, by its number",
            source: ICMP,
        },
    ),
];

/// What `Group.Name` means; `None` for one that Linux 6.18 does not have outside MPTCP.
pub fn definition(name: &str) -> Option<Definition> {
    if let Some((_, by_type)) = BY_TYPE.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Some(*by_type);
    }
    // UDP-Lite counts the same of its own.
    let udp = name.strip_prefix("UdpLite.").map(|n| format!("Udp.{n}"));
    let name = udp.as_deref().unwrap_or(name);
    let mut all = NAMED.iter().chain(OTHERS);
    all.find(|d| d.name == name).copied()
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

/// Whether it counts what fails: packets dropped, lost or wrong, what is retransmitted, refused, reset or given up.
pub fn is_error(name: &str) -> bool {
    // How kernels name such counters; what no code knows is judged by its name, too.
    const WORDS: &[&str] = &[
        "Abort",
        "BeyondWindow",
        "Discard",
        "Drop",
        "drop",
        "Err",
        "Excds",
        "Fail",
        "FullDoCookies",
        "Loss",
        "Lost",
        "NoPorts",
        "NoRoute",
        "NotFound",
        "OFOQueue",
        "Overflow",
        "PAWS",
        "ParmProbs",
        "Prune",
        "RateLimit",
        "Refused",
        "Rejected",
        "Reneging",
        "Required",
        "Resets",
        "Retrans",
        "ReversePathFilter",
        "Rst",
        "SyncookiesSent",
        "Timeout",
        "ToZeroWindow",
        "TooBig",
        "Truncated",
        "Unexpected",
        "UnknownProtos",
        "Unreach",
        "MemoryPressures",
        "SpuriousRTOs",
        "AOBad",
    ];
    let name = short(name);
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_told_from_what_only_happens() {
        let wrong = [
            RETRANS_SEGS,
            TCP_SYN_RETRANS,
            LISTEN_OVERFLOWS,
            LISTEN_DROPS,
            ESTAB_RESETS,
            ATTEMPT_FAILS,
            OUT_RSTS,
            TCP_TIMEOUTS,
            TCP_LOSS_PROBES,
            SYNCOOKIES_SENT,
            SYNCOOKIES_FAILED,
            TCP_TO_ZERO_WINDOW_ADV,
            PRUNE_CALLED,
            PAWS_ESTAB,
            TCP_TIME_WAIT_OVERFLOW,
            INTR_QUEUE_DROPS,
            IN_DEST_UNREACHS,
            IN_ERRS,
            EMBRYONIC_RSTS,
            TCP_REQ_Q_FULL_DO_COOKIES,
            TCP_MEMORY_PRESSURES,
            TCP_ABORT_ON_TIMEOUT,
            TCP_RETRANS_FAIL,
            "Udp.RcvbufErrors",
            "IpExt.InNoRoutes",
            "Ip.ReasmTimeout",
            "TcpExt.TCPSACKReneging",
        ];
        for name in wrong {
            assert!(is_error(name), "{name}");
        }
        let fine = [
            ACTIVE_OPENS,
            PASSIVE_OPENS,
            IN_SEGS,
            OUT_SEGS,
            CURR_ESTAB,
            TW,
            TW_RECYCLED,
            DELAYED_ACKS,
            TCP_KEEP_ALIVE,
            SYNCOOKIES_RECV,
            "Ip.InReceives",
            "Ip.InDelivers",
            "IpExt.InOctets",
            "TcpExt.TCPHPAcks",
            "TcpExt.TCPPureAcks",
            "TcpExt.TCPDelivered",
            "TcpExt.TCPOrigDataSent",
            "TcpExt.TCPAutoCorking",
            "Icmp.InEchos",
            "TcpExt.TCPAOGood",
            "TcpExt.TCPMTUPSuccess",
            "TcpExt.TCPRcvCoalesce",
        ];
        for name in fine {
            assert!(!is_error(name), "{name}");
        }
    }

    #[test]
    fn every_name_is_defined_once() {
        let all = NAMED.iter().chain(OTHERS);
        let mut names: Vec<_> = all.map(|d| d.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        assert!(names.len() >= 200, "{}", names.len());
    }

    /// `/proc/net/snmp` and `/proc/net/netstat` of the kernel that runs.
    fn of_this_kernel() -> Vec<String> {
        let files = ["/proc/net/snmp", "/proc/net/netstat"];
        let text: String = files.iter().flat_map(std::fs::read_to_string).collect();
        let mut names = Vec::new();
        for line in text.lines().step_by(2) {
            let (group, counters) = line.split_once(": ").expect("a group and its names");
            names.extend(
                counters
                    .split(' ')
                    .map(|counter| format!("{group}.{counter}")),
            );
        }
        assert!(names.len() > 100, "{names:?}");
        names
    }

    #[test]
    fn those_that_code_names_are_known_to_the_kernel() {
        let known = of_this_kernel();
        // FreeBSD's, which a model writes, are no part of Linux.
        let linux = NAMED.iter().filter(|d| !d.source.starts_with("FreeBSD"));
        for definition in linux {
            assert!(
                known.iter().any(|name| name == definition.name),
                "{}",
                definition.name
            );
        }
    }

    #[test]
    fn every_counter_up_to_linux_6_18_is_defined() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
        let mut version = release
            .split('.')
            .map_while(|part| part.parse::<u32>().ok());
        let is_newer = (version.next(), version.next()) > (Some(6), Some(18));
        let mut all = of_this_kernel();
        all.retain(|name| !name.starts_with("MPTcpExt."));
        let unknown = |name: &&String| definition(name).is_none();
        let unknown: Vec<_> = all.iter().filter(unknown).collect();
        // A newer kernel may have some more.
        let may = if is_newer { 20 } else { 0 };
        assert!(unknown.len() <= may, "{unknown:?}");
    }
}
