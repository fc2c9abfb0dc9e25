//! The thread that watches threads: drains the ring on a timer, looks at all threads every interval.

use std::mem::MaybeUninit;
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::MapCore;
use recording::{HealthKind, SourceName, Verdict, Writer, monotonic_ns};

use super::driver::{Losses, TaskOptions, Tasks};
use super::epolls::Epolls;
use super::signals::Signals;
use super::threads::Threads;
use super::waits::Waits;
use crate::error::Error;
use crate::health::HealthLog;
use crate::kernel::{KernelBtf, Names};
use crate::pace::{Allowance, Pace};
use crate::ring::DRAIN_EVERY;
use crate::ring_source::{RingSource, run};
use crate::stacks::Stacks;
use crate::wire::{read, tw_task_kind, tw_thread};
use crate::worker::{Control, Report};

/// Threads that stay asleep have a row only every so many intervals.
const ALL_EVERY: u64 = 10;

/// To look at all threads may use one part in so many of a CPU: hosts have tens of thousands.
const MOST: u32 = 50;

/// Who follows waits wants to know soon what was waited on; each set is read less often.
const EPOLLS_EVERY: Duration = Duration::from_secs(1);

/// The last look at the threads is repeated so often while some could not be read.
const LAST_TRIES: u32 = 20;

/// Watches until told to stop; ready once attached.
pub fn watch(
    options: &TaskOptions,
    allowance: Allowance,
    writer: &Writer,
    stacks: Stacks,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let btf = KernelBtf::load().map_err(Error::Kernel)?;
    let mut objects = [const { MaybeUninit::uninit() }; 4];
    let callers = stacks.callers();
    let tasks = Tasks::attach(&mut objects, options, &btf, &callers)?;
    let names = Names::load(&btf);
    drop(btf); // megabytes
    let watched = Watched {
        options,
        tasks,
        symbols: callers.verdict,
        stacks: stacks.clone(),
        rows: Rows {
            waits: if options.waits {
                Some(Waits::new(writer.table()?, stacks, names))
            } else {
                None
            },
            threads: if options.threads {
                Some(Threads::new(writer.table()?, writer.table()?))
            } else {
                None
            },
            epolls: Epolls::new(writer.table()?),
            signals: Signals::new(writer.table()?),
        },
        losses: Losses::default(),
        pace: Pace::new(options.interval, MOST, allowance),
        round: Instant::now(),
        rounds: 0,
        last_round: 0,
        epolls_read: Instant::now(),
    };
    run(watched, health, control)
}

struct Watched<'o> {
    options: &'o TaskOptions,
    tasks: Tasks<'o>,
    /// Whether functions of the kernel have names.
    symbols: Verdict,
    stacks: Stacks,
    rows: Rows,
    losses: Losses,
    pace: Pace,
    /// When all threads were last looked at, so many times so far, and from when on, ns.
    round: Instant,
    rounds: u64,
    last_round: u64,
    epolls_read: Instant,
}

impl RingSource for Watched<'_> {
    fn ring(&self) -> &dyn MapCore {
        self.tasks.ring()
    }

    fn drain_every(&self) -> Duration {
        DRAIN_EVERY.min(self.options.interval)
    }

    fn report(&self) -> Report {
        Report {
            sources: self.tasks.sources(&self.losses, self.symbols.clone()),
            ..Report::default()
        }
    }

    fn begin(&mut self, from_ns: u64) -> Result<(), Error> {
        if let Some(waits) = &mut self.rows.waits {
            waits.from(from_ns);
        }
        if let Some(threads) = &mut self.rows.threads {
            self.round = Instant::now();
            self.tasks.threads(0, |t| {
                threads.begin(t, from_ns);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn take(&mut self, record: &[u8]) -> Result<(), Error> {
        self.rows.take(record)
    }

    fn stop(&mut self, health: &HealthLog) -> Result<(), Error> {
        if self.options.threads {
            self.look_at_threads(health, true)?;
        }
        self.rows.epolls.read()?;
        self.tasks.links.clear();
        Ok(())
    }

    fn drained(&mut self, health: &HealthLog, stopped: bool) -> Result<(), Error> {
        if stopped {
            return Ok(());
        }
        if self.options.threads && self.round.elapsed() >= self.pace.interval {
            self.look_at_threads(health, false)?;
        }
        if self.epolls_read.elapsed() >= self.options.interval.min(EPOLLS_EVERY) {
            self.epolls_read = Instant::now();
            self.rows.epolls.read()?;
        }
        Ok(())
    }

    fn look(&mut self, health: &HealthLog, _: bool) -> Result<(), Error> {
        self.tasks.say_losses(&mut self.losses, health)?;
        self.rows.epolls.say_left_out(health)?;
        Ok(self.stacks.say_dropped(health)?)
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        self.rows.seal_if_due()
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.rows.finish()
    }
}

impl Watched<'_> {
    /// A row of each thread that did something, now and then of all; of all that are there at last.
    fn look_at_threads(&mut self, health: &HealthLog, last: bool) -> Result<(), Error> {
        self.round = Instant::now();
        self.pace.begin();
        let (tasks, rows) = (&mut self.tasks, &mut self.rows);
        let began = monotonic_ns();
        let all = last || self.rounds.is_multiple_of(ALL_EVERY);
        tasks.threads(if all { 0 } else { self.last_round }, |t| rows.thread(t))?;
        // There is no next row to cover what was skipped.
        let mut tries = 0;
        while last && tasks.skipped() > 0 && tries < LAST_TRIES {
            tries += 1;
            sleep(Duration::from_millis(1));
            tasks.threads(0, |t| rows.thread(t))?;
        }
        let complete = all && tasks.skipped() == 0;
        if let (true, Some(threads)) = (complete, &mut rows.threads) {
            threads.forget_before(began);
        }
        (self.last_round, self.rounds) = (began, self.rounds + 1);
        if let Some(detail) = self.pace.end() {
            let detail = format!("a look at all threads {detail}");
            health.say(SourceName::Threads, HealthKind::Slowed, 0, detail)?;
        }
        Ok(())
    }
}

struct Rows {
    waits: Option<Waits>,
    threads: Option<Threads>,
    epolls: Epolls,
    signals: Signals,
}

impl Rows {
    fn take(&mut self, record: &[u8]) -> Result<(), Error> {
        let kind = record.first_chunk().map(|b| u32::from_ne_bytes(*b));
        match (kind.map(tw_task_kind), &mut self.waits) {
            (Some(tw_task_kind::TW_TASK_WAIT), Some(waits)) => {
                if let Some((pid, fd)) = waits.woken(record)? {
                    self.epolls.slept(pid, fd);
                }
                Ok(())
            }
            (Some(tw_task_kind::TW_TASK_ON), Some(waits)) => waits.runs(record),
            (Some(tw_task_kind::TW_TASK_SIGNAL), _) => self.signals.sent(record),
            (Some(tw_task_kind::TW_TASK_THREAD), _) => match read::<tw_thread>(record) {
                Some(thread) => self.thread(&thread),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn thread(&mut self, thread: &tw_thread) -> Result<(), Error> {
        let Some(threads) = &mut self.threads else {
            return Ok(());
        };
        for fd in threads.take(thread)? {
            self.epolls.slept(thread.pid, fd);
        }
        Ok(())
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        if let Some(waits) = &mut self.waits {
            waits.seal_if_due()?;
        }
        if let Some(threads) = &mut self.threads {
            threads.seal_if_due()?;
        }
        self.signals.seal_if_due()?;
        self.epolls.seal_if_due()
    }

    fn finish(&mut self) -> Result<(), Error> {
        if let Some(waits) = &mut self.waits {
            waits.finish()?;
        }
        if let Some(threads) = &mut self.threads {
            threads.finish()?;
        }
        self.signals.finish()?;
        self.epolls.finish()
    }
}
