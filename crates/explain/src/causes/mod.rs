//! The causes that tcpwhy knows: this list is the only one.

mod accept_imbalance;
mod accept_queue_overflow;
mod bufferbloat;
mod connection_refused;
mod conntrack_full;
mod conntrack_insert_failed;
mod corked_messages;
mod cpu_contention;
mod cpu_saturated;
mod damaged_packets;
mod descriptors_exhausted;
mod half_open;
mod idle_timeout_mismatch;
mod injected_reset;
mod interface_drop;
mod interrupt_imbalance;
mod listener_ended;
mod local_firewall_drop;
mod lookup_table_growth;
mod middlebox_strips_options;
mod nagle_delayed_ack;
mod nat_invalid_reset;
mod path_drops_syn;
mod path_loss;
mod path_outage;
mod peer_gone;
mod pmtu_black_hole;
mod port_search_cost;
mod ports_exhausted;
mod qdisc_drop;
mod receive_backlog_drop;
mod receive_buffer_small;
mod receive_queue_pruned;
mod reordering;
mod reset_by_application;
mod reset_by_peer;
mod reset_unread_data;
mod route_or_neighbour_failure;
mod self_connected;
mod send_buffer_small;
mod slow_accept;
mod slow_application;
mod slow_peer;
mod slow_reader;
mod snat_ports_exhausted;
mod socket_backlog_drop;
mod softirq_starvation;
mod syn_cookie_options_lost;
mod syn_flood;
mod syn_queue_overflow;
mod tail_loss;
mod tcp_memory_pressure;
mod time_wait_collision;
mod time_wait_table_full;
mod zero_window;

use crate::cause::Cause;

/// All causes, by number.
pub(crate) const ALL: &[Cause] = &[
    time_wait_collision::CAUSE,
    ports_exhausted::CAUSE,
    port_search_cost::CAUSE,
    accept_queue_overflow::CAUSE,
    syn_queue_overflow::CAUSE,
    syn_cookie_options_lost::CAUSE,
    middlebox_strips_options::CAUSE,
    local_firewall_drop::CAUSE,
    path_drops_syn::CAUSE,
    connection_refused::CAUSE,
    reset_unread_data::CAUSE,
    reset_by_application::CAUSE,
    injected_reset::CAUSE,
    qdisc_drop::CAUSE,
    receive_backlog_drop::CAUSE,
    softirq_starvation::CAUSE,
    path_loss::CAUSE,
    tail_loss::CAUSE,
    bufferbloat::CAUSE,
    reordering::CAUSE,
    nagle_delayed_ack::CAUSE,
    slow_reader::CAUSE,
    receive_buffer_small::CAUSE,
    receive_queue_pruned::CAUSE,
    zero_window::CAUSE,
    send_buffer_small::CAUSE,
    pmtu_black_hole::CAUSE,
    tcp_memory_pressure::CAUSE,
    time_wait_table_full::CAUSE,
    conntrack_full::CAUSE,
    lookup_table_growth::CAUSE,
    cpu_contention::CAUSE,
    route_or_neighbour_failure::CAUSE,
    socket_backlog_drop::CAUSE,
    idle_timeout_mismatch::CAUSE,
    reset_by_peer::CAUSE,
    peer_gone::CAUSE,
    interface_drop::CAUSE,
    interrupt_imbalance::CAUSE,
    syn_flood::CAUSE,
    conntrack_insert_failed::CAUSE,
    snat_ports_exhausted::CAUSE,
    accept_imbalance::CAUSE,
    descriptors_exhausted::CAUSE,
    slow_accept::CAUSE,
    slow_application::CAUSE,
    slow_peer::CAUSE,
    half_open::CAUSE,
    cpu_saturated::CAUSE,
    path_outage::CAUSE,
    damaged_packets::CAUSE,
    listener_ended::CAUSE,
    self_connected::CAUSE,
    nat_invalid_reset::CAUSE,
    corked_messages::CAUSE,
];

/// Causes that have a number but that a recording does not show, and why.
pub(crate) const NOT_TOLD: &[(&str, &str, &str)] = &[
    (
        "C19",
        "a policer drops what exceeds a rate",
        "which packets it drops is decided within milliseconds, and sockets are sampled once a second: from the ends it \
         looks as a link that is full, or as a queue that is too short. `path-loss` says that it is one of them where \
         4.2 % and more is lost, and a policer or a short queue where no queue stood",
    ),
    (
        "C28",
        "the sending application has nothing to send",
        "it is no fault of TCP, and any idle connection has it: [the account](account.md) says how long connections were \
         idle, and `slow-application` and `slow-peer` who kept whom waiting",
    ),
    (
        "C29",
        "the congestion window begins anew after a pause (`net.ipv4.tcp_slow_start_after_idle`)",
        "the kernel lowers it as the next write is sent, and it has grown again some round trips later: samples a second \
         apart do not see it, and a record of each packet's window would cost too much",
    ),
    (
        "C42",
        "hosts share a bottleneck that is used to the full",
        "that is what a bottleneck is for; what of it hurts is `bufferbloat` (the queue) or `path-loss` (what is lost \
         while none stands, or 4.2 % and more), and whose senders fill it one host cannot know: `tcpwhy-fleet blame` \
         compares hosts",
    ),
];

#[cfg(test)]
pub(crate) use local_firewall_drop::tests::each_drop_of_retransmissions;
#[cfg(test)]
pub(crate) use slow_accept::tests as late_to_accept;

#[cfg(test)]
pub(crate) mod testing {
    //! What the tests of several causes share.

    use crate::{Advice, Change, Finding, Number, explain};
    use recording::tables::Cpu;
    use synth::{Fixture, START_NS};

    /// The findings of a recording; none may have been withheld.
    pub(crate) fn found(f: &Fixture) -> Vec<Finding> {
        let explanation = explain(&f.write().unwrap()).expect("a recording of our own reads");
        let notes = explanation.summary.health.iter();
        let withheld: Vec<_> = notes
            .filter(|n| n.says.contains("internal error"))
            .collect();
        assert!(withheld.is_empty(), "{withheld:?}");
        for finding in &explanation.findings {
            assert!(finding.title.ends_with('.') && finding.fix.ends_with('.'));
            finding.advice.iter().for_each(cannot_hurt);
            let first = finding.advice.first().expect("there is advice");
            assert!(
                first.change.is_some(),
                "the best advice can be applied: {first:?}"
            );
        }
        explanation.findings
    }

    /// The queue of a CPU took 10,000 packets and dropped some.
    pub(crate) fn softnet(f: &mut Fixture, dropped: u64) {
        let row = |second: u64, processed: u64, dropped: u64| Cpu {
            time_ns: START_NS + second * 1_000_000_000,
            softnet_processed: Some(processed),
            softnet_dropped: Some(dropped),
            softnet_squeezed: Some(0),
            ..Cpu::default()
        };
        f.cpus.extend([row(0, 0, 0), row(9, 10_000, dropped)]);
    }

    /// What changes something when it is pasted.
    const CHANGES: &[&str] = &[
        "sysctl -w",
        "chrt ",
        "renice ",
        "taskset --all-tasks",
        "nft 'add",
        "tc qdisc add",
        "> /sys",
        ">> /etc",
        "ndd -set",
        "ipadm set-prop",
        "kill ",
    ];
    /// What stops each call of a process that is already too slow.
    const STOPS: &[&str] = &["strace", "gdb", "ltrace", "perf trace"];

    /// Advice says where it acts and what it risks, and how to undo what it changes.
    fn cannot_hurt(advice: &Advice) {
        assert!(!advice.r#where.is_empty(), "no scope: {advice:?}");
        assert!(!advice.risk.is_empty(), "no risk: {advice:?}");
        assert!(!advice.expected.is_empty(), "no effect: {advice:?}");
        let command = advice.command.as_deref().unwrap_or("");
        let has = |words: &[&str]| words.iter().any(|word| command.contains(word));
        assert!(!has(STOPS), "it stops what is slow: {advice:?}");
        assert!(
            !has(CHANGES) || advice.undo.is_some(),
            "it cannot be taken back: {advice:?}"
        );
    }

    /// The only finding of a recording, which must be of this cause.
    pub(crate) fn only(f: &Fixture, cause: &str) -> Finding {
        let mut found = found(f);
        let ids: Vec<_> = found.iter().map(|f| f.cause).collect();
        assert_eq!(ids, [cause]);
        found.remove(0)
    }

    /// A number of the evidence.
    pub(crate) fn number<'a>(finding: &'a Finding, name: &str) -> &'a Number {
        let mut numbers = finding.evidence.iter().flat_map(|s| &s.numbers.0);
        let (_, number) = numbers.find(|(n, _)| *n == name).expect(name);
        number
    }

    /// The sysctls that the advice sets, as `name=value` in a namespace.
    pub(crate) fn sysctls(finding: &Finding) -> Vec<(u32, String)> {
        let changes = finding.advice.iter().filter_map(|a| a.change.as_ref());
        let sysctls = changes.filter_map(|c| match c {
            Change::Sysctl { netns, name, value } => Some((*netns, format!("{name}={value}"))),
            _ => None,
        });
        sysctls.collect()
    }

    /// Why a look-alike is ruled out.
    pub(crate) fn ruled_out<'a>(finding: &'a Finding, cause: &str) -> &'a str {
        let out = finding.ruled_out.iter().find(|r| r.cause == cause);
        &out.expect(cause).because
    }
}
