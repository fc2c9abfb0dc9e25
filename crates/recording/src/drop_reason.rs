//! The reasons that Linux gives for a drop: what each means, and what kind of drop it is. The names in a recording come
//! from the kernel that was recorded; a reason that is not listed here is of no known kind.

/// What kind of drop a reason stands for. Whoever judges a drop asks for its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropKind {
    /// No packet was lost: it was used up, or its queue ended with its socket.
    UsedUp,
    /// The kernel names no reason.
    Unspecified,
    /// Nothing listens there, and no connection is known: a reset answers.
    NoSocket,
    /// The receiver has this data or a later acknowledgement already.
    Duplicate,
    /// It does not fit the connection that has its addresses and ports: its sequence number, flags or timestamps are
    /// those of another one.
    Foreign,
    /// The connection has ended here.
    Closed,
    /// It exceeds the window, or lay in the out-of-order queue when memory ran short: TCP's own choice.
    Window,
    /// There was no memory for received data.
    Memory,
    /// A listener's accept queue was full.
    ListenerFull,
    /// The backlog of a socket that is in use was full.
    SocketBacklog,
    /// The backlog of a CPU was full.
    CpuBacklog,
    /// A queueing discipline dropped it as it left.
    Qdisc,
    /// A rule or a program of this host dropped it: netfilter, tc, XDP, a cgroup's or a socket's filter, IPsec policy,
    /// a security module.
    Firewall,
    /// It is not what the socket demands: a signature (TCP-MD5, TCP-AO), encryption, a least TTL.
    Demands,
    /// It arrived damaged: a checksum or a header is wrong.
    Damaged,
    /// Its frame is for another machine's hardware address.
    OtherHost,
    /// Its destination is no address of this host, which does not forward.
    NotOurs,
    /// There is no route for it.
    NoRoute,
    /// The reverse path filter: the route back to its source leads elsewhere.
    ReversePath,
    /// It comes in with an address of this host as its source.
    OwnSource,
    /// Its addresses may not stand there: a loopback, multicast or zero address.
    Martian,
    /// The next hop's hardware address is not known.
    Neighbour,
    /// It exceeds the MTU and may not be fragmented.
    TooBig,
    /// A device or its driver had no room, no memory, or was not up.
    Device,
    /// It is no packet of TCP, or its tunnel's, fragments' or link's own header is not accepted.
    NotTcp,
}

/// One reason.
#[derive(Clone, Copy, Debug)]
pub struct DropReason {
    /// The kernel's name, without `SKB_DROP_REASON_`.
    pub name: &'static str,
    /// Of which kind it is.
    pub kind: DropKind,
    /// What it means, after "dropped: ".
    pub says: &'static str,
}

/// What is known of a reason.
pub fn drop_reason(name: &str) -> Option<&'static DropReason> {
    ALL.iter().find(|reason| reason.name == name)
}

/// Of which kind a reason is; `None` if it is not known.
pub fn drop_kind(name: &str) -> Option<DropKind> {
    drop_reason(name).map(|reason| reason.kind)
}

macro_rules! reasons {
    ($($kind:ident { $($name:ident $says:literal)+ })+) => {
        /// The reasons of Linux 5.17 to 6.18 and those that were planned for later, by kind.
        pub const ALL: &[DropReason] = &[
            $( $( DropReason { name: stringify!($name), kind: DropKind::$kind, says: $says }, )+ )+
        ];
    };
}

reasons! {
    UsedUp {
        SKB_CONSUMED "it was used up"
        SKB_NOT_DROPPED_YET "it was not dropped"
        QUEUE_PURGE "its queue was emptied"
        SOCKET_CLOSE "the socket that it waited in was closed"
        UNIX_DISCONNECT "a Unix socket was connected elsewhere"
        UNIX_SKIP_OOB "out-of-band data of a Unix socket was skipped"
    }
    Unspecified {
        NOT_SPECIFIED "the kernel gives no reason"
    }
    NoSocket {
        NO_SOCKET "nothing listens there"
    }
    Duplicate {
        TCP_OLD_DATA "its data was received before"
        TCP_OFOMERGE "its data waits in the out-of-order queue already"
        TCP_OFO_DROP "its data was received before"
        TCP_OLD_SEQUENCE "it was received before"
        TCP_OLD_ACK "a later acknowledgement came before it"
        TCP_TOO_OLD_ACK "its acknowledgement is far too old"
        TCP_RFC7323_PAWS_ACK "a later acknowledgement came before it"
    }
    Foreign {
        TCP_INVALID_SEQUENCE "its sequence number is outside the window"
        TCP_INVALID_END_SEQUENCE "it ends outside the window"
        TCP_INVALID_ACK_SEQUENCE "it acknowledges what was not sent in this connection"
        TCP_ACK_UNSENT_DATA "it acknowledges what was not sent"
        TCP_INVALID_SYN "it is a SYN within a connection"
        TCP_RFC7323_PAWS "its timestamp is older than the last one"
        TCP_RFC7323_TW_PAWS "its timestamp is older than that of the connection before, in TIME_WAIT"
        TCP_RFC7323_TSECR "it echoes a timestamp that was not sent"
        TCP_RESET "it is a reset that does not fit the connection"
        TCP_FLAGS "its flags make no sense in this state"
        TCP_FASTOPEN "a Fast Open request refused it"
    }
    Closed {
        TCP_CLOSE "the connection is closed"
        TCP_ABORT_ON_DATA "data came after the program had closed the socket"
    }
    Window {
        TCP_ZEROWINDOW "the window is closed"
        TCP_OVERWINDOW "it exceeds the window"
        TCP_OFO_QUEUE_PRUNE "the out-of-order queue was pruned for want of memory"
    }
    Memory {
        SOCKET_RCVBUFF "the receive buffer was full"
        PROTO_MEM "the memory of the protocol was used up"
    }
    ListenerFull {
        TCP_LISTEN_OVERFLOW "the accept queue was full"
    }
    SocketBacklog {
        SOCKET_BACKLOG "the socket's backlog was full"
    }
    CpuBacklog {
        CPU_BACKLOG "a CPU's backlog was full"
    }
    Qdisc {
        QDISC_DROP "by a queueing discipline"
        QDISC_OVERLIMIT "the queue of a queueing discipline was full"
        QDISC_CONGESTED "a queueing discipline's own choice, against a standing queue"
        CAKE_FLOOD "the queueing discipline cake holds its flow for a flood"
        FQ_BAND_LIMIT "a band of the queueing discipline fq was full"
        FQ_HORIZON_LIMIT "it was to be sent later than the queueing discipline fq allows"
        FQ_FLOW_LIMIT "its flow's queue in the queueing discipline fq was full"
        DUALPI2_STEP_DROP "the queueing discipline dualpi2 cannot mark it and its queue is above the step"
    }
    Firewall {
        NETFILTER_DROP "by a firewall rule"
        TC_INGRESS "by a filter of tc as it came in"
        TC_EGRESS "by a filter of tc as it left"
        XDP "by an XDP program"
        BPF_CGROUP_EGRESS "by a BPF program of its cgroup"
        SOCKET_FILTER "by the socket's filter"
        TCP_FILTER "by the socket's filter"
        SECURITY_HOOK "by a security module"
        XFRM_POLICY "by an IPsec policy"
        TAP_FILTER "by a filter of a TAP device"
    }
    Demands {
        TCP_MINTTL "its TTL is below the least that the socket accepts"
        TCP_AUTH_HDR "its signature (TCP-MD5, TCP-AO) is malformed or there twice"
        TCP_MD5NOTFOUND "it lacks the TCP-MD5 signature that the socket expects"
        TCP_MD5UNEXPECTED "it has a TCP-MD5 signature that the socket does not expect"
        TCP_MD5FAILURE "its TCP-MD5 signature is wrong"
        TCP_AONOTFOUND "it lacks the TCP-AO signature that the socket expects"
        TCP_AOUNEXPECTED "it has a TCP-AO signature that the socket does not expect"
        TCP_AOKEYNOTFOUND "its TCP-AO key is not known"
        TCP_AOFAILURE "its TCP-AO signature is wrong"
        PSP_INPUT "it is not encrypted by PSP as the socket expects"
        PSP_OUTPUT "it could not be encrypted by PSP"
    }
    Damaged {
        TCP_CSUM "its TCP checksum is wrong"
        IP_CSUM "its IP checksum is wrong"
        SKB_CSUM "its checksum is wrong, or could not be computed"
        IP_INHDR "its IP header is wrong"
        PKT_TOO_SMALL "it is shorter than its headers say"
        HDR_TRUNC "it is shorter than its headers"
        SKB_TRIM "it is shorter than its headers say"
    }
    OtherHost {
        OTHERHOST "its frame is for another hardware address"
        TAP_TXFILTER "its frame is for a hardware address that the TAP device does not take"
    }
    NotOurs {
        IP_INADDRERRORS "its destination is no address of this host, which does not forward"
    }
    NoRoute {
        IP_OUTNOROUTES "there is no route to its destination"
        IP_INNOROUTES "there is no route to its destination"
        IPV6DISABLED "IPv6 is switched off on the device"
        BLACKHOLE "its route is a blackhole"
        NO_TX_TARGET "its device knows no target for it"
        VXLAN_NO_REMOTE "its VXLAN device knows no remote end for it"
    }
    ReversePath {
        IP_RPFILTER "by rp_filter"
    }
    OwnSource {
        IP_LOCAL_SOURCE "it comes in with an address of this host as its source"
    }
    Martian {
        IP_INVALID_SOURCE "its source is a multicast, broadcast or zero address"
        IP_LOCALNET "it comes in with a loopback address"
        IP_INVALID_DEST "its destination is the zero address"
        UNICAST_IN_L2_MULTICAST "its frame was sent to many, its address is of one"
    }
    Neighbour {
        NEIGH_CREATEFAIL "the table of neighbours has no room"
        NEIGH_FAILED "the next hop does not answer ARP or neighbour discovery"
        NEIGH_QUEUEFULL "too much waits for the next hop's hardware address"
        NEIGH_DEAD "the entry of the next hop was removed"
        NEIGH_HH_FILLFAIL "the frame's header could not be filled in"
    }
    TooBig {
        PKT_TOO_BIG "it exceeds the MTU and may not be fragmented"
    }
    Device {
        FULL_RING "the device's ring was full"
        NOMEM "there was no memory for it"
        SKB_RX_HEADROOM "no header found room in front of it as it came in"
        PFMEMALLOC "it lies in memory that is kept for emergencies"
        DEV_READY "the device is not up"
        DEV_HDR "the driver's header is not valid"
        SKB_GSO_SEG "it could not be split into segments"
        SKB_UCOPY_FAULT "it could not be copied from the program's memory"
        RECURSION_LIMIT "it went through too many devices, one within the other"
        TC_COOKIE_ERROR "tc's own data about it is not valid"
        TC_CHAIN_NOTFOUND "tc has no such chain of filters"
        TC_RECLASSIFY_LOOP "tc's filters send it around in a loop"
        LOCAL_MAC "its source is a hardware address of this host"
        MAC_INVALID_SOURCE "its source hardware address is not valid"
        BRIDGE_INGRESS_STP_STATE "the bridge's port does not forward yet (spanning tree)"
        TUNNEL_TXINFO "its tunnel lacks the data to send it"
    }
    NotTcp {
        UDP_CSUM "its UDP checksum is wrong"
        ICMP_CSUM "its ICMP checksum is wrong"
        IP_NOPROTO "no such protocol above IP"
        UNHANDLED_PROTO "no such protocol"
        INVALID_PROTO "it breaks its protocol's rules (ICMP)"
        DUP_FRAG "this fragment came before"
        FRAG_REASM_TIMEOUT "the other fragments did not come in time"
        FRAG_TOO_FAR "too many other packets came between its fragments"
        FRAG_BPF_EINVAL "a program asked for what cannot be reassembled"
        IPV6_BAD_EXTHDR "an IPv6 extension header is wrong"
        IPV6_NDISC_FRAG "neighbour discovery in fragments"
        IPV6_NDISC_HOP_LIMIT "neighbour discovery from another link"
        IPV6_NDISC_BAD_CODE "neighbour discovery with a wrong code"
        IPV6_NDISC_BAD_OPTIONS "neighbour discovery with wrong options"
        IPV6_NDISC_NS_OTHERHOST "neighbour discovery for another host"
        PACKET_SOCK_ERROR "a packet socket could not take its copy"
        VXLAN_INVALID_HDR "its VXLAN header is wrong"
        VXLAN_VNI_NOT_FOUND "no VXLAN device here has its number"
        VXLAN_ENTRY_EXISTS "VXLAN has its address at another port"
        IP_TUNNEL_ECN "the ECN bits of its tunnel and its own contradict each other"
        ARP_PVLAN_DISABLE "ARP that is not answered on this port"
        MAC_IEEE_MAC_CONTROL "it is a link's own control frame"
        CAN_RX_INVALID_FRAME "a CAN frame that is not valid"
        CANFD_RX_INVALID_FRAME "a CAN frame that is not valid"
        CANXL_RX_INVALID_FRAME "a CAN frame that is not valid"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_reason_stands_once() {
        let names: BTreeSet<&str> = ALL.iter().map(|r| r.name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    /// The lists of kernels, one a line.
    #[test]
    fn the_reasons_of_known_kernels_are_known() {
        let lists = include_str!("drop_reason/kernels.txt");
        for (kernel, list) in lists.lines().filter_map(|line| line.split_once(": ")) {
            let unknown: Vec<&str> = list.split(' ').filter(|n| drop_kind(n).is_none()).collect();
            assert!(unknown.is_empty(), "of Linux {kernel}: {unknown:?}");
        }
    }
}
