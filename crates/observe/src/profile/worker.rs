//! The thread that profiles: drains the ring on a timer into `sample`, finds the names of functions.

use std::cell::RefCell;
use std::mem::{MaybeUninit, offset_of};
use std::time::Instant;

use recording::tables::Sample;
use recording::{HealthKind, SourceName, TableWriter, Verdict};

use super::driver::{Profile, ProfileOptions, sources};
use crate::error::Error;
use crate::filter::Filter;
use crate::health::HealthLog;
use crate::ring::{Count, DRAIN_EVERY, LOOK_FOR_LOSSES_EVERY, RING_FULL, drain};
use crate::stacks::{Stacks, UserSymbols};
use crate::wire::{read_partly, text, tw_sample};
use crate::worker::{Control, Report};

/// Samples until told to stop; ready once the clocks tick.
pub fn watch(
    options: &ProfileOptions,
    filter: &Filter,
    ring_bytes: u32,
    table: TableWriter<Sample>,
    stacks: Stacks,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut object = MaybeUninit::uninit();
    let mut profile = Profile::attach(&mut object, options, filter, ring_bytes)?;
    let symbols = stacks.callers().verdict;
    let hz = profile.hz;
    let report = |lost| Report {
        sources: sources(Verdict::Attached, Some(hz), symbols.clone(), lost),
        ..Report::default()
    };
    control.ready(report(0));
    let sink = RefCell::new(Sink {
        table,
        stacks,
        user: UserSymbols::default(),
        softirq_only: options.softirq_only,
        failed: None,
    });
    let ring = profile.ring(|record| sink.borrow_mut().take(record))?;
    let (mut looked, mut lost) = (Instant::now(), Count::default());
    loop {
        let stopping = control.stopping(DRAIN_EVERY);
        if stopping {
            profile.links.clear();
        }
        drain(&ring)?;
        let mut sink = sink.borrow_mut();
        if let Some(failed) = sink.failed.take() {
            return Err(failed.into());
        }
        if stopping || looked.elapsed() >= LOOK_FOR_LOSSES_EVERY {
            looked = Instant::now();
            match profile.newly_lost(&mut lost)? {
                0 => {}
                n => health.say(SourceName::Profile, HealthKind::Lost, n, RING_FULL)?,
            }
            sink.stacks.say_dropped(health)?;
            sink.user.say_notes(health)?;
        }
        // Rows refer to stacks: these come first.
        if stopping {
            sink.stacks.seal()?;
            sink.table.seal()?;
            return Ok(report(lost.total));
        }
        sink.stacks.hand_over()?;
        sink.table.seal_if_due()?;
    }
}

struct Sink {
    table: TableWriter<Sample>,
    stacks: Stacks,
    user: UserSymbols,
    softirq_only: bool,
    failed: Option<recording::Error>,
}

impl Sink {
    fn take(&mut self, record: &[u8]) {
        if self.failed.is_none()
            && let Some(sample) = read_partly::<tw_sample>(record, offset_of!(tw_sample, frames))
        {
            self.failed = self.push(&sample).err();
        }
    }

    fn push(&mut self, s: &tw_sample) -> Result<(), recording::Error> {
        let n = (s.n_kernel as usize).min(s.frames.len() / 2);
        let (kernel, user) = s.frames.split_at(n);
        let user = &user[..(s.n_user as usize).min(user.len())];
        let kernel = match kernel {
            [] => None,
            kernel => Some(self.stacks.kernel(kernel)?),
        };
        let context = kernel.map(|k| k.context).unwrap_or_default();
        if (self.softirq_only || s.outside != 0) && !context.softirq {
            return Ok(());
        }
        // The idle task is on a CPU also while an interrupt is handled there.
        let idle = s.pid == 0 && !context.busy();
        let user_stack = match user {
            [] => None,
            user => self.user.stack(s.pid, user, &self.stacks)?,
        };
        self.table.push(Sample {
            time_ns: s.time_ns,
            cpu: s.cpu,
            pid: s.pid,
            tid: s.tid,
            comm: text(&s.comm).into(),
            softirq: context.softirq,
            kernel_stack: kernel.and_then(|k| k.id).filter(|_| !idle),
            user_stack,
        })
    }
}
