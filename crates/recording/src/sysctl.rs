//! The sysctls that matter to TCP: those that are recorded, and those that advice names.

macro_rules! sysctls {
    ($( $(#[doc = $doc:literal])+ $list:ident { $($name:ident = $full:literal;)+ } )+) => {
        $( $( #[doc = concat!("`", $full, "`")] pub const $name: &str = $full; )+
           $(#[doc = $doc])+ pub const $list: &[&str] = &[$($name),+]; )+
    };
}

sysctls! {
    /// Of a network namespace, recorded. One that the kernel does not have is passed over.
    OF_NAMESPACE {
        SOMAXCONN = "net.core.somaxconn";
        IP_LOCAL_PORT_RANGE = "net.ipv4.ip_local_port_range";
        IP_LOCAL_RESERVED_PORTS = "net.ipv4.ip_local_reserved_ports";
        TCP_ABORT_ON_OVERFLOW = "net.ipv4.tcp_abort_on_overflow";
        TCP_CONGESTION_CONTROL = "net.ipv4.tcp_congestion_control";
        TCP_ECN = "net.ipv4.tcp_ecn";
        TCP_EHASH_ENTRIES = "net.ipv4.tcp_ehash_entries";
        TCP_FASTOPEN = "net.ipv4.tcp_fastopen";
        TCP_FIN_TIMEOUT = "net.ipv4.tcp_fin_timeout";
        TCP_INVALID_RATELIMIT = "net.ipv4.tcp_invalid_ratelimit";
        TCP_KEEPALIVE_TIME = "net.ipv4.tcp_keepalive_time";
        TCP_MAX_SYN_BACKLOG = "net.ipv4.tcp_max_syn_backlog";
        TCP_MAX_TW_BUCKETS = "net.ipv4.tcp_max_tw_buckets";
        TCP_MIGRATE_REQ = "net.ipv4.tcp_migrate_req";
        TCP_MODERATE_RCVBUF = "net.ipv4.tcp_moderate_rcvbuf";
        TCP_MTU_PROBING = "net.ipv4.tcp_mtu_probing";
        TCP_NOTSENT_LOWAT = "net.ipv4.tcp_notsent_lowat";
        TCP_RECOVERY = "net.ipv4.tcp_recovery";
        TCP_RETRIES1 = "net.ipv4.tcp_retries1";
        TCP_RETRIES2 = "net.ipv4.tcp_retries2";
        TCP_RTO_MAX_MS = "net.ipv4.tcp_rto_max_ms";
        TCP_RTO_MIN_US = "net.ipv4.tcp_rto_min_us";
        TCP_RFC1337 = "net.ipv4.tcp_rfc1337";
        TCP_RMEM = "net.ipv4.tcp_rmem";
        TCP_SACK = "net.ipv4.tcp_sack";
        TCP_SLOW_START_AFTER_IDLE = "net.ipv4.tcp_slow_start_after_idle";
        TCP_SYN_LINEAR_TIMEOUTS = "net.ipv4.tcp_syn_linear_timeouts";
        TCP_SYN_RETRIES = "net.ipv4.tcp_syn_retries";
        TCP_SYNACK_RETRIES = "net.ipv4.tcp_synack_retries";
        TCP_SYNCOOKIES = "net.ipv4.tcp_syncookies";
        TCP_TIMESTAMPS = "net.ipv4.tcp_timestamps";
        TCP_TW_REUSE = "net.ipv4.tcp_tw_reuse";
        TCP_TW_REUSE_DELAY = "net.ipv4.tcp_tw_reuse_delay";
        TCP_WINDOW_SCALING = "net.ipv4.tcp_window_scaling";
        TCP_WMEM = "net.ipv4.tcp_wmem";
        NF_CONNTRACK_MAX = "net.netfilter.nf_conntrack_max";
        NF_CONNTRACK_BUCKETS = "net.netfilter.nf_conntrack_buckets";
        NF_CONNTRACK_TCP_BE_LIBERAL = "net.netfilter.nf_conntrack_tcp_be_liberal";
        NF_CONNTRACK_TCP_TIMEOUT_ESTABLISHED = "net.netfilter.nf_conntrack_tcp_timeout_established";
    }
    /// Of the host: all namespaces share them; recorded.
    OF_HOST {
        FILE_MAX = "fs.file-max";
        NR_OPEN = "fs.nr_open";
        BUSY_POLL = "net.core.busy_poll";
        BUSY_READ = "net.core.busy_read";
        NETDEV_BUDGET = "net.core.netdev_budget";
        NETDEV_BUDGET_USECS = "net.core.netdev_budget_usecs";
        NETDEV_MAX_BACKLOG = "net.core.netdev_max_backlog";
        RMEM_MAX = "net.core.rmem_max";
        WMEM_MAX = "net.core.wmem_max";
        TCP_MEM = "net.ipv4.tcp_mem";
        NEIGH_GC_THRESH2 = "net.ipv4.neigh.default.gc_thresh2";
        NEIGH_GC_THRESH3 = "net.ipv4.neigh.default.gc_thresh3";
        NEIGH6_GC_THRESH2 = "net.ipv6.neigh.default.gc_thresh2";
        NEIGH6_GC_THRESH3 = "net.ipv6.neigh.default.gc_thresh3";
    }
    /// Not recorded: those that only advice names.
    OF_ADVICE {
        TCP_MAX_ORPHANS = "net.ipv4.tcp_max_orphans";
        RP_FILTER_ALL = "net.ipv4.conf.all.rp_filter";
        IP_FORWARD = "net.ipv4.ip_forward";
        TCP_CHILD_EHASH_ENTRIES = "net.ipv4.tcp_child_ehash_entries";
    }
}
