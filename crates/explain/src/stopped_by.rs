//! Who stopped a process, and what to do about that.

use analysis::Story;
use analysis::words::duration;
use recording::Word;

use crate::finding::Step;

/// What to do about a process that is stopped, or was: by who sent the signal, where that was recorded.
pub(crate) fn fix(story: &Story, who: &str, pid: Option<u32>, still: bool) -> String {
    match (sender(story, pid), still) {
        (Some((sender, signal)), true) => {
            format!("Resume {who}, and see why {sender} sent it {signal}.")
        }
        (Some((sender, signal)), false) => {
            format!("See why {sender} sent {signal} to {who}.")
        }
        (None, true) => format!("Resume {who}, and find out who sent SIGSTOP."),
        (None, false) => format!("Find out who sent SIGSTOP to {who}."),
    }
}

/// The sender and the signal.
fn sender(story: &Story, pid: Option<u32>) -> Option<(String, String)> {
    let (_, stop) = story.signals.stop_of(pid?)?;
    let sender = match (stop.sender_pid, &stop.sender_comm) {
        (Some(pid), Some(comm)) => format!("{comm} (pid {pid})"),
        (Some(pid), None) => format!("pid {pid}"),
        (None, _) => "the kernel, for its terminal,".into(),
    };
    Some((sender, stop.signal.text().to_string()))
}

/// The signal as a step of the evidence.
pub(crate) fn step(story: &Story, pid: Option<u32>) -> Option<Step> {
    let (row, stop) = story.signals.stop_of(pid?)?;
    let (sender, signal) = sender(story, pid)?;
    let after = stop.time_ns.saturating_sub(story.start_ns);
    Some(
        Step::new(format!(
            "{sender} sent {signal} to {} (pid {}) {} after the start.",
            stop.comm,
            stop.pid,
            duration(after)
        ))
        .rows([row]),
    )
}

#[cfg(test)]
mod tests {
    use recording::SignalName;
    use recording::tables::Signal;
    use synth::{START_NS, cases};

    use crate::causes::testing::only;

    #[test]
    fn who_sent_the_signal_is_named_where_it_was_recorded() {
        let unknown = only(&cases::stopped_worker(), "accept-queue-overflow");
        assert!(
            unknown.fix.ends_with("and find out who sent SIGSTOP."),
            "{}",
            unknown.fix
        );
        let mut told = cases::stopped_worker();
        let signal = |pid: u32, at_ms: u64, signal: SignalName| Signal {
            time_ns: START_NS + at_ms * 1_000_000,
            signal,
            pid,
            comm: "nginx".into(),
            sender_pid: Some(77),
            sender_comm: Some("bash".into()),
        };
        // Another's, and one that lets it go on, say nothing of it.
        told.signals.push(signal(100, 200, SignalName::Stop));
        told.signals.push(signal(101, 300, SignalName::Continue));
        let other = only(&told, "accept-queue-overflow");
        assert_eq!(other.fix, unknown.fix);
        told.signals.push(signal(101, 400, SignalName::Stop));
        let f = only(&told, "accept-queue-overflow");
        assert!(
            f.fix
                .ends_with("and see why bash (pid 77) sent it SIGSTOP."),
            "{}",
            f.fix
        );
        let says = "bash (pid 77) sent SIGSTOP to nginx (pid 101) 400 ms after the start.";
        let step = f
            .evidence
            .iter()
            .find(|s| s.says == says)
            .expect("the step");
        assert_eq!(step.rows.len(), 1);
        assert!(
            f.advice[0].action.contains("bash (pid 77)"),
            "{}",
            f.advice[0].action
        );
        // A terminal has no process that sends.
        if let Some(last) = told.signals.last_mut() {
            (last.signal, last.sender_pid, last.sender_comm) =
                (SignalName::TerminalStop, None, None);
        }
        let f = only(&told, "accept-queue-overflow");
        assert!(
            f.fix
                .ends_with("and see why the kernel, for its terminal, sent it SIGTSTP."),
            "{}",
            f.fix
        );
    }
}
