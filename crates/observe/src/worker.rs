//! A thread of the recorder: attaches, waits for the recording to begin, works until it is told to stop.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use recording::{Namespace, Source};

use crate::error::Error;
use crate::patience::{Moments, Patience};
use crate::rights;
use crate::ring::DRAIN_EVERY;

/// Whoever presses Ctrl-C while parts attach waits no longer than this.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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

/// What a thread tells its starter before the recording has begun for it, in this order.
enum Told {
    /// All its programs are attached.
    Attached,
    /// It has made its first round.
    Ready(Report),
}

/// The thread's side: how it answers, and learns that the recording begins and that it shall stop.
pub struct Control {
    told: SyncSender<Told>,
    /// The moment at which the recording begins; hung up, it shall stop.
    word: Receiver<u64>,
    moments: Moments,
}

impl Control {
    /// Says that it is attached, and waits until all parts are and the recording begins: at which moment, ns. What comes
    /// `meanwhile`, which is called again and again, is no part of the recording.
    pub fn begin(&self, mut meanwhile: impl FnMut() -> Result<(), Error>) -> Result<u64, Error> {
        let _ = self.told.send(Told::Attached);
        loop {
            let word = self.word.recv_timeout(DRAIN_EVERY);
            match word {
                Ok(from_ns) => return Ok(from_ns),
                Err(RecvTimeoutError::Timeout) => meanwhile()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Stopped),
            }
        }
    }

    /// Says that everything from now on is recorded. Say it once.
    pub fn ready(&self, report: Report) {
        rights::shed(false);
        // The starter waits for exactly this answer.
        let _ = self.told.send(Told::Ready(report));
    }

    /// For a part that this kernel does not allow: says why, and waits for the end.
    pub fn idle(&self, sources: Vec<Source>) -> Result<Report, Error> {
        let report = Report {
            sources,
            ..Report::default()
        };
        self.begin(|| Ok(()))?;
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
        self.word.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }
}

/// The recorder's side of a running thread.
pub struct Worker {
    /// `None` once it was told to stop.
    word: Option<SyncSender<u64>>,
    told: Receiver<Told>,
    thread: JoinHandle<Result<Report, Error>>,
    name: &'static str,
}

impl Worker {
    /// Starts a thread, which attaches.
    pub fn start(
        name: &'static str,
        moments: &Moments,
        run: impl FnOnce(Control) -> Result<Report, Error> + Send + 'static,
    ) -> Result<Worker, Error> {
        let (say, word) = sync_channel(1);
        let (tell, told) = sync_channel(2);
        let control = Control {
            told: tell,
            word,
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
        Ok(Worker {
            word: Some(say),
            told,
            thread,
            name,
        })
    }

    /// Waits until it is attached, or somebody wants the end; `false` when it has ended instead.
    pub fn attached(&self, moments: &Moments) -> Result<bool, Error> {
        Ok(self.hears(moments)?.is_some())
    }

    /// Says that the recording begins, at this moment.
    pub fn begin(&self, from_ns: u64) {
        if let Some(word) = &self.word {
            // One that has ended is found out when it is asked whether it is ready.
            let _ = word.try_send(from_ns);
        }
    }

    /// Waits until it is ready, or somebody wants the end; `None` when it has ended instead.
    pub fn ready(&self, moments: &Moments) -> Result<Option<Report>, Error> {
        Ok(match self.hears(moments)? {
            Some(Told::Ready(report)) => Some(report),
            Some(Told::Attached) | None => None,
        })
    }

    fn hears(&self, moments: &Moments) -> Result<Option<Told>, Error> {
        loop {
            match self.told.recv_timeout(LOOK_EVERY) {
                Ok(told) => return Ok(Some(told)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if moments.is_stopped() => {
                    return Err(Error::Stopped);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Whether the thread has ended by itself, which only an error makes it do.
    pub fn ended(&self) -> bool {
        self.word.is_some() && self.thread.is_finished()
    }

    /// Tells the thread to stop: it seals what it has, and ends.
    pub fn stop(&mut self) {
        // Hanging up is the signal.
        self.word = None;
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

    /// Why it ended before it was told to.
    pub fn failed(self) -> Error {
        let name = self.name;
        self.finish().err().unwrap_or(Error::Thread(name))
    }
}
