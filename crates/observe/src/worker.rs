//! A thread of the recorder: starts, says that it is ready, works until it is told to stop.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use recording::{Namespace, Source};

use crate::error::Error;
use crate::patience::{Moments, Patience};
use crate::rights;

/// What a thread tells when it is ready, and again at the end.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its sources with their verdicts and losses.
    pub sources: Vec<Source>,
    /// Every namespace it has seen so far.
    pub namespaces: Vec<Namespace>,
    /// The longest so far of what takes time.
    pub longest: Longest,
}

/// The longest of what takes time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longest {
    /// A round of samples over all namespaces.
    pub round: Duration,
    /// A snapshot of the sockets of one namespace, read and decoded.
    pub snapshot: Duration,
}

/// The thread's side: how it answers and learns that it shall stop.
pub struct Control {
    ready: SyncSender<Report>,
    stop: Receiver<()>,
    moments: Moments,
}

impl Control {
    /// Says that everything from now on is recorded. Say it once.
    pub fn ready(&self, report: Report) {
        rights::shed(false);
        // The starter waits for exactly this answer.
        let _ = self.ready.send(report);
    }

    /// For a part that this kernel does not allow: says why, and waits for the end.
    pub fn idle(&self, sources: Vec<Source>) -> Result<Report, Error> {
        let report = Report {
            sources,
            ..Report::default()
        };
        self.ready(report.clone());
        self.wait();
        Ok(report)
    }

    /// How long the first round may go on.
    pub fn beginning(&self) -> Patience<'_> {
        self.moments.beginning()
    }

    /// The moments of the recording.
    pub fn moments(&self) -> Moments {
        self.moments.clone()
    }

    /// How long the next round may go on: the last one, when it was told to stop, no longer than the end.
    pub fn round(&self, stopping: bool) -> Patience<'_> {
        if stopping {
            self.moments.ending()
        } else {
            self.moments.between()
        }
    }

    /// Sleeps until told to stop.
    pub fn wait(&self) {
        while !self.stopping(Duration::from_secs(3600)) {}
    }

    /// Sleeps for `time` or until told to stop; whether it was.
    pub fn stopping(&self, time: Duration) -> bool {
        self.stop.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }
}

/// The recorder's side of a running thread.
pub struct Worker {
    /// `None` once it was told to stop.
    stop: Option<SyncSender<()>>,
    thread: JoinHandle<Result<Report, Error>>,
    name: &'static str,
}

impl Worker {
    /// Starts a thread and waits until it is ready; its error when it ends before that.
    pub fn start(
        name: &'static str,
        moments: &Moments,
        run: impl FnOnce(Control) -> Result<Report, Error> + Send + 'static,
    ) -> Result<(Worker, Report), Error> {
        let (stop, stopped) = sync_channel(1);
        let (ready, is_ready) = sync_channel(1);
        let control = Control {
            ready,
            stop: stopped,
            moments: moments.clone(),
        };
        // In a flame graph or in top one sees whose it is. The kernel keeps 15 bytes.
        let thread = thread::Builder::new().name(format!("tcpwhy:{name}"));
        let thread = thread
            .spawn(move || {
                rights::shed(true);
                run(control)
            })
            .map_err(|why| Error::System {
                what: format!("starting the {name} thread"),
                why,
            })?;
        let worker = Worker {
            stop: Some(stop),
            thread,
            name,
        };
        match is_ready.recv() {
            Ok(report) => Ok((worker, report)),
            Err(_) => Err(worker.finish().err().unwrap_or(Error::Thread(name))),
        }
    }

    /// Whether the thread has ended by itself, which only an error makes it do.
    pub fn ended(&self) -> bool {
        self.stop.is_some() && self.thread.is_finished()
    }

    /// Tells the thread to stop: it seals what it has, and ends.
    pub fn stop(&mut self) {
        // Hanging up is the signal.
        self.stop = None;
    }

    /// One that was told to stop.
    pub fn told_to_stop(mut self) -> Worker {
        self.stop();
        self
    }

    /// Tells the thread to stop and waits for its last report.
    pub fn finish(mut self) -> Result<Report, Error> {
        self.stop();
        self.thread.join().map_err(|_| Error::Thread(self.name))?
    }
}
