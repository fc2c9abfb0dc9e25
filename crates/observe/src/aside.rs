//! A thread for what may never return, and who asks it, who never waits for long.
//!
//! Whatever is read of a process that is watched can be made to take for ever by whoever owns it: by a
//! file system that does not answer, by memory that cannot be looked at. Sampling goes on without it.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::rights;

/// Answers questions about processes; belongs to the thread.
pub type Answers<Q, A> = Box<dyn FnMut(u32, Q) -> A>;

/// Asks such a thread.
pub struct Aside<Q, A> {
    name: &'static str,
    make: fn() -> Answers<Q, A>,
    thread: Option<Channels<Q, A>>,
    /// Processes that a question was about that had no answer: never asked about again.
    shunned: HashSet<u32>,
    patience: Duration,
    give_up: Duration,
}

struct Channels<Q, A> {
    questions: SyncSender<(u32, Q)>,
    answers: Receiver<A>,
    /// A question that waits for its answer: of which process, since when.
    waiting: Option<(u32, Instant)>,
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Said<A> {
    /// The answer.
    Answer(A),
    /// It takes longer than we wait: it may come later.
    Late,
    /// This process is not asked about any more.
    Never,
}

/// Threads that are left behind, each perhaps for ever; then none is asked any more.
const MOST_LEFT: usize = 4;

impl<Q: Send + 'static, A: Send + 'static> Aside<Q, A> {
    /// A thread of this name is started when something is asked, and runs what `make` gives. Whoever asks waits so long
    /// for an answer. It keeps no rights but to read what processes have of their own.
    pub fn new(name: &'static str, patience: Duration, make: fn() -> Answers<Q, A>) -> Self {
        Aside {
            name,
            make,
            thread: None,
            shunned: HashSet::new(),
            patience,
            give_up: Duration::from_secs(10),
        }
    }

    /// Asks about a process, and waits for the answer as long as the patience lasts.
    pub fn ask(&mut self, pid: u32, question: Q) -> Said<A> {
        if self.shunned.contains(&pid) || self.shunned.len() >= MOST_LEFT {
            return Said::Never;
        }
        if let Some(asked) = &mut self.thread
            && let Some((about, since)) = asked.waiting
        {
            match asked.answers.try_recv() {
                // Of another question: what it was asked for has gone by.
                Ok(_) => asked.waiting = None,
                Err(_) if since.elapsed() < self.give_up => return Said::Late,
                Err(_) => {
                    self.shunned.insert(about);
                    self.thread = None;
                    return self.ask(pid, question);
                }
            }
        }
        let Some(asked) = self.thread.take().or_else(|| start(self.name, self.make)) else {
            return Said::Late;
        };
        let asked = self.thread.insert(asked);
        let sent = asked.questions.send((pid, question)).is_ok();
        match asked.answers.recv_timeout(self.patience) {
            Ok(answer) => Said::Answer(answer),
            Err(RecvTimeoutError::Timeout) if sent => {
                asked.waiting = Some((pid, Instant::now()));
                Said::Late
            }
            // It has ended, which only a bug makes it do; this question shall not do so twice.
            Err(_) => {
                self.thread = None;
                self.shunned.insert(pid);
                Said::Never
            }
        }
    }

    /// Processes that are not asked about any more.
    pub fn shunned(&self) -> &HashSet<u32> {
        &self.shunned
    }
}

fn start<Q: Send + 'static, A: Send + 'static>(
    name: &str,
    make: fn() -> Answers<Q, A>,
) -> Option<Channels<Q, A>> {
    let (questions, asked) = sync_channel::<(u32, Q)>(1);
    let (answer, answers) = sync_channel(1);
    let thread = thread::Builder::new().name(format!("tcpwhy:{name}"));
    // It ends when nobody asks any more, and nobody waits for that.
    let thread = thread.spawn(move || {
        rights::keep_only(rights::OF_PROCESSES);
        let mut answering = make();
        for (pid, question) in asked {
            if answer.send(answering(pid, question)).is_err() {
                return;
            }
        }
    });
    thread.ok().map(|_| Channels {
        questions,
        answers,
        waiting: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers all but process 13, of which it thinks until it is told to stop, and 14, which ends it.
    fn doubling() -> Answers<Receiver<()>, u32> {
        Box::new(|pid, told| {
            if pid == 13 {
                let _ = told.recv();
            }
            assert_ne!(pid, 14);
            pid * 2
        })
    }

    fn hurried() -> Aside<Receiver<()>, u32> {
        Aside::new("test", Duration::from_millis(20), doubling)
    }

    /// Asks until it is not late: a loaded machine may be slow to answer at all.
    fn insist(aside: &mut Aside<Receiver<()>, u32>, pid: u32) -> Said<u32> {
        loop {
            match aside.ask(pid, sync_channel(1).1) {
                Said::Late => thread::sleep(Duration::from_millis(1)),
                said => return said,
            }
        }
    }

    #[test]
    fn what_never_answers_is_left_behind_and_never_asked_again() {
        let mut aside = hurried();
        assert_eq!(insist(&mut aside, 1), Said::Answer(2));
        let (never, waits) = sync_channel(1);
        assert_eq!(aside.ask(13, waits), Said::Late);
        assert_eq!(
            aside.ask(2, sync_channel(1).1),
            Said::Late,
            "it still thinks"
        );
        aside.give_up = Duration::ZERO;
        let said = aside.ask(3, sync_channel(1).1);
        aside.give_up = Duration::from_secs(60);
        assert_ne!(said, Said::Never);
        assert_eq!(insist(&mut aside, 3), Said::Answer(6));
        assert_eq!(aside.ask(13, sync_channel(1).1), Said::Never);
        assert!(aside.shunned().contains(&13));
        drop(never);
    }

    #[test]
    fn a_late_answer_lets_the_next_question_through() {
        let mut aside = hurried();
        aside.give_up = Duration::from_secs(60);
        let (tell, waits) = sync_channel(1);
        assert_eq!(aside.ask(13, waits), Said::Late);
        tell.send(()).unwrap();
        assert_eq!(insist(&mut aside, 4), Said::Answer(8));
        assert!(aside.shunned().is_empty());
    }

    #[test]
    fn a_thread_that_ends_is_replaced() {
        let mut aside = hurried();
        aside.patience = Duration::from_secs(60);
        assert_eq!(aside.ask(14, sync_channel(1).1), Said::Never);
        assert_eq!(aside.ask(5, sync_channel(1).1), Said::Answer(10));
    }
}
