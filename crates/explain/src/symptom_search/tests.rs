//! What people type finds the cause that they mean.

use super::{differs_by_one, nearest};

fn ids(words: &str) -> Vec<&'static str> {
    let found = nearest(words);
    found.iter().map(|(_, cause)| cause.id.as_str()).collect()
}

/// Each phrase has five answers, and the cause that it means is among them, or the first.
#[track_caller]
fn find(first: bool, phrases: &[(&str, &str)]) {
    let misses = phrases.iter().filter_map(|(phrase, cause)| {
        let ids = ids(phrase);
        let is_there = if first {
            ids.first() == Some(cause)
        } else {
            ids.contains(cause)
        };
        (ids.len() != 5 || !is_there).then(|| format!("{phrase}: {ids:?}, not {cause}"))
    });
    let misses: Vec<_> = misses.collect();
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn what_people_type() {
    let first = [
        ("connection reset by peer", "reset-by-peer"),
        ("too many open files", "descriptors-exhausted"),
        ("broken pipe", "idle-timeout-mismatch"),
        ("works with small packets", "pmtu-black-hole"),
        ("nf_conntrack: table full", "conntrack-full"),
        ("zero window", "zero-window"),
        ("40ms delay", "nagle-delayed-ack"),
        ("SYN flooding message in dmesg", "syn-flood"),
        ("kubernetes dns 5 seconds", "conntrack-insert-failed"),
        ("ping looses packets: packet losss", "path-loss"),
    ];
    find(true, &first);
    let among = [
        ("upstream timed out", "slow-peer"),
        ("TIME_WAIT", "time-wait-collision"),
        ("TIME_WAIT", "ports-exhausted"),
        ("retransmissions", "path-loss"),
        ("connect takes 3 seconds", "accept-queue-overflow"),
        ("slow download from one region", "receive-buffer-small"),
        ("slow download from one region", "path-loss"),
        ("packet loss only under load", "qdisc-drop"),
        ("packet loss only under load", "receive-backlog-drop"),
        ("packet loss only under load", "interface-drop"),
    ];
    find(false, &among);
}

/// Titles of public reports, in other words; the source stands beside each.
#[test]
fn titles_of_public_reports() {
    let first = [
        // kubernetes/kubernetes#56903, Azure/AKS#1657
        ("intermittent DNS delays of 5s", "conntrack-insert-failed"),
        (
            "name lookups from pods are delayed by 2.5 seconds",
            "conntrack-insert-failed",
        ),
        // scylladb/seastar#968, MaterializeInc/materialize#326
        (
            "some requests are answered in 40ms, disable Nagle in the HTTP server",
            "nagle-delayed-ack",
        ),
        // varnish/hitch#213, TechEmpower/FrameworkBenchmarks#4092
        (
            "backend-connect: Cannot assign requested address",
            "ports-exhausted",
        ),
        // CentaurusInfra/mizar#182, istio/istio#25976
        (
            "setting MTU to 9000 causes TLS handshake timeouts",
            "pmtu-black-hole",
        ),
        // istio/istio#33466
        (
            "ungraceful node termination leads to 15 mins of failing requests",
            "peer-gone",
        ),
        // varnish/hitch#142
        (
            "uneven connection distribution to worker processes with SO_REUSEPORT",
            "accept-imbalance",
        ),
        // kubernetes/kubernetes#67577
        (
            "CFS quotas can lead to unnecessary throttling",
            "cpu-contention",
        ),
        // warmcat/libwebsockets#2852, fleaz/CptHook#47
        (
            "http: Accept error: accept4: too many open files",
            "descriptors-exhausted",
        ),
        // kubernetes/kops#4533, rtr7/router7#31
        (
            "neighbour: arp_cache: neighbor table overflow!",
            "lookup-table-growth",
        ),
        // moby/moby#18630
        (
            "kernel: nf_conntrack: table full, dropping packet",
            "conntrack-full",
        ),
        // kubernetes/ingress-nginx#11244
        (
            "upstream prematurely closed connection while reading response header from upstream",
            "reset-by-peer",
        ),
    ];
    find(true, &first);
    let among = [
        // agentmail-to/agentmail-mcp#46, apache/dubbo#5168
        (
            "the accept queue is full with the default backlog, ListenOverflows",
            "accept-queue-overflow",
        ),
        // logstash-plugins/logstash-input-lumberjack#83
        (
            "listen overflows although somaxconn was raised",
            "accept-queue-overflow",
        ),
        // kubernetes/ingress-nginx#3099, fastify/help#943
        (
            "intermittent 502 from nginx, upstream keepalive timeout",
            "idle-timeout-mismatch",
        ),
        // nodejs/node#47130
        (
            "ECONNRESET, socket hang up with keep-alive agent",
            "idle-timeout-mismatch",
        ),
        // golang/go#17985, curl/curl#1102
        (
            "slow performance on Internet-latency links, 64 kB window",
            "receive-buffer-small",
        ),
        // kubernetes-sigs/ip-masq-agent#51, antrea-io/antrea#6544
        (
            "SNAT race: unexplained connection timeouts, use --random-fully",
            "snat-ports-exhausted",
        ),
        // kubernetes/kubernetes#74839
        (
            "connection reset by peer due to invalid conntrack packets",
            "reset-by-peer",
        ),
        // nodejs/node-v0.x-archive#8327
        ("hanging TCP connecting attempt", "accept-queue-overflow"),
        // scylladb/scylladb#27388
        (
            "requests hang on unreachable nodes, TCP_USER_TIMEOUT",
            "peer-gone",
        ),
        // emqx/emqx#17893
        (
            "client enters EADDRNOTAVAIL reconnect loop during high load",
            "ports-exhausted",
        ),
        // envoyproxy/envoy#4602
        ("worker connection accept balance", "accept-imbalance"),
    ];
    find(false, &among);
}

/// More of them.
#[test]
fn titles_of_more_public_reports() {
    let first = [
        // mobile-shell/mosh#950
        (
            "connection stalls over VPN, large packets do not arrive",
            "pmtu-black-hole",
        ),
        // microsoft/WSL#4994
        (
            "git push over ssh hangs on the VPN, fetch works",
            "pmtu-black-hole",
        ),
        // angristan/openvpn-install#424
        (
            "TCP download very slow on OpenVPN until the MTU is lowered from 1500 to 1460",
            "pmtu-black-hole",
        ),
        // growthbook/growthbook-proxy#135
        (
            "set keepAliveTimeout above the idle timeout of the load balancer",
            "idle-timeout-mismatch",
        ),
        // ministryofjustice/cloud-platform#8524
        (
            "reused connections fail with ECONNRESET within 5 ms",
            "idle-timeout-mismatch",
        ),
        // haproxy/haproxy#958
        (
            "inbound connections stop and CLOSE_WAIT skyrockets",
            "descriptors-exhausted",
        ),
        // librespeed/speedtest#125
        (
            "latency under load: ping rises from 100 ms to seconds while uploading",
            "bufferbloat",
        ),
    ];
    find(true, &first);
    let among = [
        // reactor/reactor-netty#2007
        (
            "idle connections are dropped silently by the firewall, enable TCP keepalive",
            "peer-gone",
        ),
        // grpc/grpc#5582
        ("huge amount of TIME_WAIT connections", "ports-exhausted"),
        // triton-inference-server/triton_distributed#173
        ("soak test exhausts the ephemeral ports", "ports-exhausted"),
        // haproxy/haproxy#579
        (
            "CPU spent in connect() as source ports become scarce",
            "port-search-cost",
        ),
        // BeyondTheClouds/enoslib#17
        (
            "throughput is low when latency is high, TCP window too small",
            "receive-buffer-small",
        ),
        // projectcalico/felix#1490
        (
            "TCP SYN retries are dropped but a new connection gets through",
            "path-drops-syn",
        ),
        // LGA1150/netfilter-spooftcp#2
        (
            "first SYN packet of a connection is dropped",
            "path-drops-syn",
        ),
    ];
    find(false, &among);
}

#[test]
fn what_nobody_knows_finds_nothing() {
    assert!(nearest("gremlins").is_empty());
    assert!(nearest("the of, and!").is_empty());
    assert_eq!(ids("retransmision"), ids("retransmission"));
}

#[test]
fn one_letter_makes_a_word_misspelt() {
    for one in ["losss", "los", "lsos", "lost"] {
        assert!(
            differs_by_one(one, "loss") && differs_by_one("loss", one),
            "{one}"
        );
    }
    assert!(!differs_by_one("lists", "loss") && !differs_by_one("losses", "loss"));
}
