//! The thread that watches: drains the ring on a timer into the `event` table.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::time::Instant;

use recording::tables::Event;
use recording::{HealthKind, TableWriter};
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::error::Error;
use crate::events::{Decoder, EventOptions, Events, Lives, Losses, Step, Told, disturbs, place};
use crate::health::HealthLog;
use crate::kernel::{Callers, KernelBtf, Names};
use crate::ring::{DRAIN_EVERY, LOOK_FOR_LOSSES_EVERY, drain};
use crate::stacks::Stacks;
use crate::worker::{Control, Report};

/// Watches until told to stop; what happens before the recording begins is thrown away.
pub fn watch(
    options: &EventOptions,
    table: TableWriter<Event>,
    stacks: Stacks,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut objects = [MaybeUninit::uninit(), MaybeUninit::uninit()];
    let (mut events, names) = attach(&mut objects, options, &stacks.callers())?;
    // On a host that is short of CPU the ring must be drained all the same; this thread needs little.
    // Where it is not allowed, nothing is worse than before.
    let _ = setpriority_process(Some(gettid()), -10);
    let mut losses = Losses::default();
    let sink = RefCell::new(Sink {
        decoder: Decoder::new(names, stacks.clone()),
        table,
        lives: events.lives()?,
        stacks,
        steps: Vec::with_capacity(STEPS_AT_ONCE),
        from_ns: options.follows.then_some(0),
        records: 0,
        failed: None,
    });
    let ring = events.ring(|told| sink.borrow_mut().take(told))?;
    let from_ns = control.begin(|| drain(&ring).map(drop))?;
    sink.borrow_mut().from_ns.get_or_insert(from_ns);
    control.ready(Report {
        sources: events.sources.clone(),
        ..Report::default()
    });
    let mut looked = Instant::now();
    loop {
        let stopping = control.stopping(DRAIN_EVERY);
        if stopping {
            // Detach first, then drain: what happened before the end is not lost.
            events.detach();
        }
        let sealing = stopping || sink.borrow_mut().table.is_due();
        if sealing {
            // Before the ring: a life of which the end is in it is then whole.
            sink.borrow_mut().take_opened();
        }
        // What happened before the end is not lost.
        while drain(&ring)? && stopping {}
        let mut sink = sink.borrow_mut();
        if let Some(failed) = sink.failed.take() {
            return Err(failed.into());
        }
        if stopping || looked.elapsed() >= LOOK_FOR_LOSSES_EVERY {
            looked = Instant::now();
            let records = std::mem::take(&mut sink.records);
            for (source, count, why) in events.newly_lost(&mut losses, records)? {
                health.say(source, HealthKind::Lost, count, why)?;
            }
        }
        if sealing {
            sink.seal()?;
        }
        if stopping {
            return Ok(Report {
                sources: events.sources_with(&losses),
                ..Report::default()
            });
        }
    }
}

/// Records made columns at a time: few enough (24 KiB) to stay in the CPU's first cache while each
/// column is picked from them.
const STEPS_AT_ONCE: usize = 128;

/// Records within which a life that is given up follows what disturbed it: the program that gives it up
/// runs a moment later, and other CPUs have records of their own.
const LATE: usize = 16;

struct Sink {
    decoder: Decoder,
    table: TableWriter<Event>,
    lives: Option<Lives>,
    stacks: Stacks,
    steps: Vec<Step>,
    /// From when on what happens is told, ns; `None` as long as the recording has not begun.
    from_ns: Option<u64>,
    /// Records taken since losses were last looked for.
    records: u64,
    failed: Option<recording::Error>,
}

impl Sink {
    fn take(&mut self, told: Told) {
        self.records += 1;
        let Some(from_ns) = self.from_ns.filter(|from_ns| told.time_ns() >= *from_ns) else {
            return;
        };
        match told {
            Told::Life(life) => {
                let at = place(life, &self.steps);
                self.steps.splice(at..at, Step::of_life(life, from_ns));
            }
            Told::Event(event) | Told::Reset(event, _) if self.decoder.knows(event) => {
                if disturbs(event) {
                    // How it began comes first: then its owner is known.
                    let life = self
                        .lives
                        .as_ref()
                        .and_then(|l| l.take(event.sock, event.slot));
                    self.steps
                        .extend(life.iter().flat_map(|life| Step::of_life(life, from_ns)));
                }
                self.steps.push((*event).into());
                if let Told::Reset(_, frames) = told
                    && !frames.is_empty()
                {
                    self.stack(frames);
                }
            }
            // Of a kind that we do not know.
            Told::Event(_) | Told::Reset(..) => {}
        }
        if self.steps.len() >= STEPS_AT_ONCE && self.failed.is_none() {
            self.failed = self.write(LATE).err();
        }
    }

    /// Gives the row just added its stack.
    fn stack(&mut self, frames: &[u64]) {
        match (self.stacks.kernel(frames), self.steps.last_mut()) {
            (Ok(stack), Some(step)) => step.stack = stack.id,
            (Err(e), _) => self.failed = self.failed.take().or(Some(e)),
            (Ok(_), None) => {}
        }
    }

    /// Writes all but the last `kept`.
    fn write(&mut self, kept: usize) -> Result<(), recording::Error> {
        // No row may refer to a stack that a live reader sees later.
        self.stacks.hand_over()?;
        let ripe = self.steps.len().saturating_sub(kept);
        let (decoder, steps) = (&mut self.decoder, &self.steps[..ripe]);
        let written = self
            .table
            .extend(steps.len(), |to| decoder.append(steps, to));
        self.steps.drain(..ripe);
        written
    }

    /// Of the connections that wait for their end, what is known so far.
    fn take_opened(&mut self) {
        let lives = self.lives.iter().flat_map(Lives::take_all);
        let from_ns = self.from_ns.unwrap_or(u64::MAX);
        self.steps
            .extend(lives.flat_map(|life| Step::of_life(&life, from_ns)));
    }

    fn seal(&mut self) -> Result<(), recording::Error> {
        self.write(0)?;
        self.stacks.seal()?;
        self.table.seal()
    }
}

/// Attaches the tracepoints of the running kernel.
pub fn attach<'o>(
    objects: &'o mut [MaybeUninit<libbpf_rs::OpenObject>; 2],
    options: &EventOptions,
    callers: &Callers,
) -> Result<(Events<'o>, Names), Error> {
    let btf = KernelBtf::load().map_err(Error::Kernel)?;
    let names = Names::load(&btf);
    let events = Events::attach(objects, options, &btf, &names, callers)?;
    Ok((events, names))
}
