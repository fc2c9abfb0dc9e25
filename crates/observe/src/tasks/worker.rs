//! The thread that watches threads: drains the ring on a timer, looks at all threads every interval.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::thread::sleep;
use std::time::{Duration, Instant};

use recording::{HealthKind, SourceName, Writer, monotonic_ns};

use super::driver::{Losses, TaskOptions, Tasks};
use super::epolls::Epolls;
use super::threads::Threads;
use super::waits::Waits;
use crate::error::Error;
use crate::health::HealthLog;
use crate::kernel::{KernelBtf, Names};
use crate::pace::{Allowance, Pace};
use crate::ring::{DRAIN_EVERY, LOOK_FOR_LOSSES_EVERY, drain};
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
    let mut tasks = Tasks::attach(&mut objects, options, &btf, &callers)?;
    let told = stacks.clone();
    let names = Names::load(&btf);
    drop(btf); // megabytes
    let symbols = callers.verdict;
    let rows = RefCell::new(Rows {
        waits: match options.waits {
            true => Some(Waits::new(writer.table()?, stacks, names)),
            false => None,
        },
        threads: match options.threads {
            true => Some(Threads::new(writer.table()?, writer.table()?)),
            false => None,
        },
        epolls: Epolls::new(writer.table()?),
        failed: None,
    });
    let mut losses = Losses::default();
    control.ready(Report {
        sources: tasks.sources(&losses, symbols.clone()),
        ..Report::default()
    });

    let ring = tasks.ring(|record| rows.borrow_mut().take(record))?;
    let consume = || {
        drain(&ring)?;
        rows.borrow_mut().failed.take().map_or(Ok(()), Err)
    };
    let (mut looked, mut round) = (Instant::now(), Instant::now());
    let mut epolls_read = Instant::now();
    let (mut rounds, mut last_round) = (0u64, 0);
    let mut pace = Pace::new(options.interval, MOST, allowance);
    loop {
        let stopping = control.stopping(DRAIN_EVERY.min(options.interval));
        consume()?;
        if options.threads && (stopping || round.elapsed() >= pace.interval) {
            round = Instant::now();
            pace.begin();
            let began = monotonic_ns();
            let all = stopping || rounds % ALL_EVERY == 0;
            let mut rows = rows.borrow_mut();
            tasks.threads(if all { 0 } else { last_round }, |t| rows.thread(t))?;
            // There is no next row to cover what was skipped.
            let mut tries = 0;
            while stopping && tasks.skipped() > 0 && tries < LAST_TRIES {
                tries += 1;
                sleep(Duration::from_millis(1));
                tasks.threads(0, |t| rows.thread(t))?;
            }
            let complete = all && tasks.skipped() == 0;
            if let (true, Some(threads)) = (complete, &mut rows.threads) {
                threads.forget_before(began);
            }
            (last_round, rounds) = (began, rounds + 1);
            if let Some(detail) = pace.end() {
                let detail = format!("a look at all threads {detail}");
                health.say(SourceName::Threads, HealthKind::Slowed, 0, detail)?;
            }
        }
        if stopping || epolls_read.elapsed() >= options.interval.min(EPOLLS_EVERY) {
            epolls_read = Instant::now();
            rows.borrow_mut().epolls.read()?;
        }
        if stopping {
            tasks.links.clear();
            consume()?;
        }
        if stopping || looked.elapsed() >= LOOK_FOR_LOSSES_EVERY {
            looked = Instant::now();
            tasks.say_losses(&mut losses, health)?;
            rows.borrow_mut().epolls.say_left_out(health)?;
            told.say_dropped(health)?;
        }
        if stopping {
            rows.borrow_mut().finish()?;
            return Ok(Report {
                sources: tasks.sources(&losses, symbols.clone()),
                ..Report::default()
            });
        }
        rows.borrow_mut().seal_if_due()?;
    }
}

struct Rows {
    waits: Option<Waits>,
    threads: Option<Threads>,
    epolls: Epolls,
    failed: Option<Error>,
}

impl Rows {
    fn take(&mut self, record: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.try_take(record).err();
        }
    }

    fn try_take(&mut self, record: &[u8]) -> Result<(), Error> {
        let kind = record.first_chunk().map(|b| u32::from_ne_bytes(*b));
        match (kind.map(tw_task_kind), &mut self.waits) {
            (Some(tw_task_kind::TW_TASK_WAIT), Some(waits)) => {
                if let Some((pid, fd)) = waits.woken(record)? {
                    self.epolls.slept(pid, fd);
                }
                Ok(())
            }
            (Some(tw_task_kind::TW_TASK_ON), Some(waits)) => waits.runs(record),
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
        self.epolls.seal_if_due()
    }

    fn finish(&mut self) -> Result<(), Error> {
        if let Some(waits) = &mut self.waits {
            waits.finish()?;
        }
        if let Some(threads) = &mut self.threads {
            threads.finish()?;
        }
        self.epolls.finish()
    }
}
