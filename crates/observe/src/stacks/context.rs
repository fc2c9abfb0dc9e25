//! What a kernel stack says of its context: on whose behalf it ran, and for a TCP packet or not.

/// On whose behalf the kernel ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Kernel symbols cannot be read.
    #[default]
    Unknown,
    /// A task: its system call, or its own work in the kernel.
    Task,
    /// A softirq.
    Softirq,
    /// A hardware interrupt.
    Irq,
    /// A timer that ran out, in whatever context.
    Timer,
}

/// What a kernel stack says of its context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The innermost that the stack tells.
    pub by: By,
    /// A TCP packet was being handled, and nothing had interrupted that.
    pub tcp_packet: bool,
    /// The same of a datagram of UDP.
    pub udp_packet: bool,
    /// The CPU was in a softirq, at any depth.
    pub softirq: bool,
}

/// What a function tells of the context of the frames above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Timer,
    Softirq,
    Irq,
    TcpPacket,
    UdpPacket,
    Tracing,
    Other,
}

impl Role {
    /// Of the kernel's functions; what it says of others means nothing.
    pub(super) fn of(function: &str) -> Role {
        let is = |list: &[&str]| list.contains(&function);
        let begins = |prefixes: &[&str]| prefixes.iter().any(|p| function.starts_with(p));
        if is(TIMER) {
            Role::Timer
        } else if is(SOFTIRQ) {
            Role::Softirq
        } else if is(IRQ) || begins(IRQ_PREFIXES) {
            Role::Irq
        } else if is(TCP_PACKET) {
            Role::TcpPacket
        } else if is(UDP_PACKET) {
            Role::UdpPacket
        } else if begins(TRACING) {
            Role::Tracing
        } else {
            Role::Other
        }
    }
}

/// Functions below which a timer has run out.
const TIMER: &[&str] = &[
    "hrtimer_wakeup",
    "process_timeout",
    "__hrtimer_run_queues",
    "hrtimer_run_softirq",
    "call_timer_fn",
    "expire_timers",
    "__run_timers",
    "__run_timer_base",
    "run_timer_base",
    "run_timer_softirq",
];
/// Functions that handle one TCP packet: from the wire, or from the backlog of a socket in use.
const TCP_PACKET: &[&str] = &["tcp_v4_rcv", "tcp_v6_rcv", "tcp_v4_do_rcv", "tcp_v6_do_rcv"];
/// Functions that put one datagram into the queue of its socket.
const UDP_PACKET: &[&str] = &[
    "udp_queue_rcv_skb",
    "udp_queue_rcv_one_skb",
    "udp_unicast_rcv_skb",
    "__udp4_lib_rcv",
    "udp_rcv",
    "udpv6_queue_rcv_skb",
    "udpv6_queue_rcv_one_skb",
    "udp6_unicast_rcv_skb",
    "__udp6_lib_rcv",
    "udpv6_rcv",
];
/// Packets are received in softirqs; a TUN device does so on its writer's time, softirqs held off.
const SOFTIRQ: &[&str] = &[
    "netif_receive_skb",
    "netif_receive_skb_core",
    "netif_receive_skb_list_internal",
    "__netif_receive_skb_one_core",
    "__netif_receive_skb_list_core",
    "handle_softirqs",
    "__do_softirq",
    "do_softirq",
    "run_ksoftirqd",
];
/// How interrupts enter the kernel.
const IRQ: &[&str] = &[
    "handle_irq_event",
    "handle_irq_event_percpu",
    "__handle_irq_event_percpu",
    "common_interrupt",
    "asm_common_interrupt",
    "irq_work_run",
    "flush_smp_call_function_queue",
    "__flush_smp_call_function_queue",
    "el1_interrupt",
    "el0_interrupt",
    "generic_handle_domain_irq",
];
const IRQ_PREFIXES: &[&str] = &["sysvec_", "__sysvec_", "asm_sysvec_"];

/// What runs our programs: part of every stack taken inside a tracepoint, and of no interest.
const TRACING: &[&str] = &[
    "bpf_trace_run",
    "__bpf_trace_",
    "__traceiter_",
    "__bpf_prog_",
];
/// How deep these can be.
const TRACING_FRAMES: usize = 8;

/// How many of the innermost frames are those of the tracing itself.
pub(super) fn tracing(roles: impl Iterator<Item = Role>) -> usize {
    let tracing = roles.take(TRACING_FRAMES).zip(1..);
    let last = tracing.filter(|(role, _)| *role == Role::Tracing).last();
    last.map_or(0, |(_, frames)| frames)
}

impl Context {
    /// Whether an interrupt or softirq was handled: the idle task is busy then.
    pub fn busy(self) -> bool {
        !matches!(self.by, By::Task | By::Unknown)
    }

    /// Of a stack, innermost frame first.
    pub(super) fn of(roles: impl IntoIterator<Item = Role>) -> Context {
        let mut context = Context {
            by: By::Task,
            ..Context::default()
        };
        for role in roles {
            let innermost = context.by == By::Task;
            match role {
                Role::Timer if innermost => context.by = By::Timer,
                Role::Softirq if innermost => context.by = By::Softirq,
                Role::Irq if innermost => context.by = By::Irq,
                Role::TcpPacket if innermost => context.tcp_packet = true,
                Role::UdpPacket if innermost => context.udp_packet = true,
                _ => {}
            }
            context.softirq |= role == Role::Softirq;
        }
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &str) -> Vec<Role> {
        functions.split_whitespace().map(Role::of).collect()
    }

    #[test]
    fn the_innermost_tells_who_it_was() {
        let packet = stack(
            "try_to_wake_up sock_def_readable tcp_v4_rcv net_rx_action handle_softirqs \
             __irq_exit_rcu sysvec_apic_timer_interrupt",
        );
        let c = Context::of(packet);
        assert_eq!((c.by, c.tcp_packet, c.softirq), (By::Softirq, true, true));

        // A timer's interrupt in the middle of a packet wakes for its own reasons.
        let timer = stack(
            "try_to_wake_up hrtimer_wakeup __hrtimer_run_queues \
             sysvec_apic_timer_interrupt tcp_ack tcp_v4_rcv handle_softirqs",
        );
        let c = Context::of(timer);
        assert_eq!((c.by, c.tcp_packet, c.softirq), (By::Timer, false, true));

        let irq = stack("try_to_wake_up virtio_done handle_irq_event_percpu tcp_v4_rcv");
        let c = Context::of(irq);
        assert_eq!((c.by, c.tcp_packet), (By::Irq, false));

        let tun = stack("try_to_wake_up tcp_v4_rcv __netif_receive_skb_one_core tun_get_user");
        assert_eq!(Context::of(tun).by, By::Softirq);

        let datagram =
            stack("try_to_wake_up sock_def_readable udp_queue_rcv_one_skb ip_rcv do_softirq");
        let c = Context::of(datagram);
        assert_eq!(
            (c.by, c.udp_packet, c.tcp_packet),
            (By::Softirq, true, false)
        );

        let backlog = stack("try_to_wake_up tcp_v6_do_rcv __release_sock release_sock tcp_sendmsg");
        let c = Context::of(backlog);
        assert_eq!((c.by, c.tcp_packet, c.softirq), (By::Task, true, false));
    }

    #[test]
    fn frames_of_the_tracing_are_the_innermost() {
        let of = |functions: &str| tracing(stack(functions).into_iter());
        let traced = "bpf_prog_12_on_waking bpf_trace_run1 __traceiter_sched_waking";
        assert_eq!(of(&format!("{traced} try_to_wake_up wake_up_q")), 3);
        assert_eq!(of("try_to_wake_up wake_up_q"), 0);
        assert_eq!(
            of(&format!("{} bpf_trace_run1", "f ".repeat(8))),
            0,
            "deeper"
        );
        assert_eq!(of(""), 0);
    }
}
