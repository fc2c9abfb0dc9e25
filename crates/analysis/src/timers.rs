//! Which of the kernel's timers a stack ran for, in words.

use recording::{RetransmitKind, TcpState};

/// Functions that a timer calls when it is due, and whose it is.
const TIMERS: &[(&str, &str)] = &[
    ("tcp_write_timer", "the retransmission timer"),
    ("reqsk_timer_handler", "the timer of SYN-ACKs"),
    ("tcp_keepalive_timer", "the keepalive timer"),
    ("tcp_delack_timer", "the timer of delayed ACKs"),
    ("tcp_pace_kick", "the pacing timer"),
    ("tcp_compressed_ack_kick", "the timer of compressed ACKs"),
    ("tw_timer_handler", "the TIME_WAIT timer"),
    ("hrtimer_wakeup", "the time-out of its own sleep"),
    ("process_timeout", "the time-out of its own sleep"),
    ("timerfd_tmrproc", "a timerfd"),
    ("posix_timer_fn", "a POSIX timer"),
    ("it_real_fn", "the timer of setitimer()"),
    ("delayed_work_timer_fn", "the timer of delayed work"),
    ("qdisc_watchdog", "the timer of a queueing discipline"),
    ("neigh_timer_handler", "the timer of a neighbour entry"),
];

/// Functions by which an interrupt or softirq enters: what is below them ran for others.
const ENTERS: &[&str] = &[
    "handle_softirqs",
    "__do_softirq",
    "common_interrupt",
    "el1_interrupt",
    "el0_interrupt",
];

/// The timer that a stack ran for, with its function: `the retransmission timer (tcp_write_timer)`. The innermost
/// function comes first.
pub fn timer<'f>(functions: impl IntoIterator<Item = &'f str>) -> Option<String> {
    for function in functions {
        if let Some((_, whose)) = TIMERS.iter().find(|(name, _)| *name == function) {
            return Some(format!("{whose} ({function})"));
        }
        if ENTERS.contains(&function) || function.starts_with("sysvec_") {
            return None;
        }
    }
    None
}

/// What made the kernel retransmit in this state of the sender, in words that follow `sent … before`;
/// `None` where that is not one thing.
pub(crate) fn sent_by(kind: &RetransmitKind, state: Option<&TcpState>) -> Option<String> {
    let own = match state {
        Some(TcpState::NewSynRecv) => "reqsk_timer_handler",
        _ => "tcp_write_timer",
    };
    match kind {
        RetransmitKind::Rto => timer([own]).map(|timer| format!("by {timer}")),
        RetransmitKind::Tlp => Some(format!("as a tail loss probe ({own})")),
        RetransmitKind::Rack => Some(format!("by the reordering timer ({own})")),
        RetransmitKind::Fast => Some("on duplicate ACKs".into()),
        RetransmitKind::Other | RetransmitKind::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_names_the_timer_that_it_ran_for() {
        let of = |stack: &str| timer(stack.split_whitespace());
        assert_eq!(
            of("try_to_wake_up sock_def_error_report tcp_write_err tcp_write_timer call_timer_fn")
                .as_deref(),
            Some("the retransmission timer (tcp_write_timer)")
        );
        assert_eq!(
            of("try_to_wake_up hrtimer_wakeup __hrtimer_run_queues sysvec_apic_timer_interrupt")
                .as_deref(),
            Some("the time-out of its own sleep (hrtimer_wakeup)")
        );
        // The timer was interrupted by a packet that woke for its own reasons.
        assert_eq!(
            of("sock_def_readable handle_softirqs tcp_write_timer"),
            None
        );
        assert_eq!(
            of("ep_poll_callback sysvec_call_function tcp_write_timer"),
            None
        );
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_retransmission_says_what_sent_it() {
        let of = |kind: RetransmitKind, state| sent_by(&kind, Some(&state));
        assert_eq!(
            of(RetransmitKind::Rto, TcpState::SynSent).as_deref(),
            Some("by the retransmission timer (tcp_write_timer)")
        );
        assert_eq!(
            of(RetransmitKind::Rto, TcpState::NewSynRecv).as_deref(),
            Some("by the timer of SYN-ACKs (reqsk_timer_handler)")
        );
        assert_eq!(of(RetransmitKind::Other, TcpState::Established), None);
    }
}
