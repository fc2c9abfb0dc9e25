//! Explains in a thread of its own, at low priority, as often as its budget allows.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use explain::Explanation;
use recording::Recording;
use rustix::time::{ClockId, clock_gettime};

use crate::confine::confine;

/// Between two beginnings, however cheap.
const LEAST: Duration = Duration::from_secs(2);
/// Share of a CPU that explaining may take in the long run.
const SHARE: f64 = 0.015;
/// The same when trouble has just begun: an answer is then worth more.
const SHARE_IN_TROUBLE: f64 = 0.2;
/// What is explained at a time, and the least of it when that costs too much.
const LONGEST: Duration = Duration::from_secs(15);
const SHORTEST: Duration = Duration::from_secs(6);
/// What explaining once should cost at most, s of CPU.
const ONCE: f64 = 0.15;
/// Nothing that anyone waits for is kept waiting.
const NICE: i32 = 19;

/// A recording to explain.
pub struct Job {
    /// The recording.
    pub recording: Recording,
    /// It is ours alone, and removed afterwards.
    pub remove: Option<PathBuf>,
    /// The time that it covers, ns of CLOCK_MONOTONIC.
    pub span: (u64, u64),
}

/// What came of it.
pub struct Done {
    /// The explanation, or why there is none.
    pub explained: Result<Explanation, String>,
    /// The time that was explained, ns of CLOCK_MONOTONIC.
    pub span: (u64, u64),
}

/// The thread that explains, and when it may next.
pub struct Explainer {
    /// `None` once it is to end.
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    done: Receiver<(Done, Duration)>,
    busy: bool,
    began: Instant,
    /// CPU time of the last one, s.
    cost: f64,
    length: Duration,
    /// Trouble that the last one saw, too.
    troubled: bool,
}

impl Explainer {
    /// Starts the thread, which has no rights but over what lies in `dir` where that is said; it ends with this.
    pub fn start(options: explain::Options, dir: Option<&Path>) -> Result<Explainer> {
        let dir = dir.map(Path::to_path_buf);
        let (jobs, take) = sync_channel::<Job>(1);
        let (tell, done) = sync_channel(1);
        let work = move || {
            // Where this is refused, explaining competes: then it costs what it may all the same.
            let _ = rustix::process::setpriority_process(None, NICE);
            if let Some(dir) = &dir {
                confine(&[], &[dir]);
            }
            for job in take {
                let before = cpu_time();
                let explained = explain::explain_with(&job.recording, &options);
                if let Some(dir) = &job.remove {
                    // A leftover goes with the directory that it is in.
                    let _ = fs::remove_dir_all(dir);
                }
                let done = Done {
                    explained: explained.map_err(|e| e.to_string()),
                    span: job.span,
                };
                if tell
                    .send((done, cpu_time().saturating_sub(before)))
                    .is_err()
                {
                    return;
                }
            }
        };
        let named = thread::Builder::new().name("explainer".into());
        // As much as where explaining is all that is done.
        let named = named.stack_size(cli::STACK);
        let thread = named.spawn(work).context("starting a thread")?;
        Ok(Explainer {
            jobs: Some(jobs),
            thread: Some(thread),
            done,
            busy: false,
            began: Instant::now(),
            cost: 0.0,
            length: LONGEST,
            troubled: false,
        })
    }

    /// Whether it may begin now; `trouble` is whether connections are in trouble now.
    pub fn is_due(&self, trouble: bool) -> bool {
        let share = if trouble && !self.troubled {
            SHARE_IN_TROUBLE
        } else {
            SHARE
        };
        let pause = LEAST.max(Duration::from_secs_f64(self.cost / share));
        !self.busy && self.began.elapsed() >= pause
    }

    /// How much to explain at a time.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Whether its cost makes it wait.
    pub fn is_paced(&self) -> bool {
        self.cost / SHARE > LEAST.as_secs_f64()
    }

    /// Begins; ask only when it is due.
    pub fn begin(&mut self, job: Job, trouble: bool) {
        self.began = Instant::now();
        self.troubled = trouble;
        self.busy = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.try_send(job).is_ok());
    }

    /// What came of it, once.
    pub fn done(&mut self) -> Option<Done> {
        let (done, cost) = match self.done.try_recv() {
            Ok(done) => done,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) if !self.busy => return None,
            // A bug of ours: the rest of the screen goes on.
            Err(TryRecvError::Disconnected) => {
                self.busy = false;
                return Some(Done {
                    explained: Err("explaining ended unexpectedly; please report this".into()),
                    span: (0, 0),
                });
            }
        };
        self.busy = false;
        self.cost = cost.as_secs_f64();
        // Cost goes with what happened, and so with time.
        let fits = self.length.mul_f64((ONCE / self.cost.max(1e-3)).min(2.0));
        self.length = fits.clamp(SHORTEST, LONGEST);
        Some(done)
    }
}

impl Drop for Explainer {
    /// Waits for what it is at: it removes its recording, within a directory that is removed next.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It panicked: that was said when it did.
            let _ = thread.join();
        }
    }
}

fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32)
}
