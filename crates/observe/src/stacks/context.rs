//! What a kernel stack says of its context: on whose behalf it ran, and for a TCP packet or not.

use super::Place;

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
    /// The CPU was in a softirq, at any depth.
    pub softirq: bool,
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

/// Removes the innermost frames, those of the tracing itself.
pub fn strip(places: &mut Vec<Place>) {
    let within = &places[..places.len().min(TRACING_FRAMES)];
    let last = within
        .iter()
        .rposition(|p| TRACING.iter().any(|t| p.function.starts_with(t)));
    if let Some(last) = last {
        places.drain(..=last);
    }
}

impl Context {
    /// Whether an interrupt or softirq was handled: the idle task is busy then.
    pub fn busy(self) -> bool {
        !matches!(self.by, By::Task | By::Unknown)
    }

    /// Of a stack, innermost frame first.
    pub fn of(places: &[Place]) -> Context {
        let mut context = Context {
            by: By::Task,
            ..Context::default()
        };
        for place in places {
            let function = &*place.function;
            let is = |list: &[&str]| list.contains(&function);
            if context.by == By::Task {
                if is(TIMER) {
                    context.by = By::Timer;
                } else if is(SOFTIRQ) {
                    context.by = By::Softirq;
                } else if is(IRQ) || IRQ_PREFIXES.iter().any(|p| function.starts_with(p)) {
                    context.by = By::Irq;
                } else if is(TCP_PACKET) {
                    context.tcp_packet = true;
                }
            }
            context.softirq |= is(SOFTIRQ);
        }
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &str) -> Vec<Place> {
        let place = |f: &str| Place {
            function: f.into(),
            module: "kernel".into(),
            offset: 0,
        };
        functions.split_whitespace().map(place).collect()
    }

    #[test]
    fn the_innermost_tells_who_it_was() {
        let packet = stack(
            "try_to_wake_up sock_def_readable tcp_v4_rcv net_rx_action handle_softirqs \
             __irq_exit_rcu sysvec_apic_timer_interrupt",
        );
        let c = Context::of(&packet);
        assert_eq!((c.by, c.tcp_packet, c.softirq), (By::Softirq, true, true));

        // A timer's interrupt in the middle of a packet wakes for its own reasons.
        let timer = stack(
            "try_to_wake_up hrtimer_wakeup __hrtimer_run_queues \
             sysvec_apic_timer_interrupt tcp_ack tcp_v4_rcv handle_softirqs",
        );
        let c = Context::of(&timer);
        assert_eq!((c.by, c.tcp_packet, c.softirq), (By::Timer, false, true));

        let irq = stack("try_to_wake_up virtio_done handle_irq_event_percpu tcp_v4_rcv");
        let c = Context::of(&irq);
        assert_eq!((c.by, c.tcp_packet), (By::Irq, false));

        let tun = stack("try_to_wake_up tcp_v4_rcv __netif_receive_skb_one_core tun_get_user");
        assert_eq!(Context::of(&tun).by, By::Softirq);

        let backlog = stack("try_to_wake_up tcp_v6_do_rcv __release_sock release_sock tcp_sendmsg");
        let c = Context::of(&backlog);
        assert_eq!((c.by, c.tcp_packet, c.softirq), (By::Task, true, false));
    }

    #[test]
    fn frames_of_the_tracing_are_removed() {
        let mut places = stack(
            "bpf_prog_12_on_waking bpf_trace_run1 __traceiter_sched_waking \
             try_to_wake_up wake_up_q",
        );
        strip(&mut places);
        assert_eq!(places, stack("try_to_wake_up wake_up_q"));
        strip(&mut places);
        assert_eq!(places.len(), 2);
        strip(&mut Vec::new());
    }
}
