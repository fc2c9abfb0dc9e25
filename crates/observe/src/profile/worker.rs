//! The thread that profiles: drains the ring on a timer into `sample`, finds the names of functions.

use std::mem::{MaybeUninit, offset_of};

use libbpf_rs::MapCore;
use recording::tables::Sample;
use recording::{HealthKind, SourceName, TableWriter, Verdict};

use super::driver::{Profile, ProfileOptions, sources};
use crate::error::Error;
use crate::filter::Filter;
use crate::health::HealthLog;
use crate::ring::{Count, RING_FULL};
use crate::ring_source::{RingSource, run};
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
    let watched = Watched {
        profile: Profile::attach(&mut object, options, filter, ring_bytes)?,
        symbols: stacks.callers().verdict,
        table,
        stacks,
        user: UserSymbols::default(),
        softirq_only: options.softirq_only,
        lost: Count::default(),
    };
    run(watched, health, control)
}

struct Watched<'o> {
    profile: Profile<'o>,
    /// Whether functions of the kernel have names.
    symbols: Verdict,
    table: TableWriter<Sample>,
    stacks: Stacks,
    user: UserSymbols,
    softirq_only: bool,
    lost: Count,
}

impl RingSource for Watched<'_> {
    fn ring(&self) -> &dyn MapCore {
        self.profile.ring()
    }

    fn report(&self) -> Report {
        let (hz, symbols) = (Some(self.profile.hz), self.symbols.clone());
        Report {
            sources: sources(Verdict::Attached, hz, symbols, self.lost.total),
            ..Report::default()
        }
    }

    fn take(&mut self, record: &[u8]) -> Result<(), Error> {
        match read_partly::<tw_sample>(record, offset_of!(tw_sample, frames)) {
            Some(sample) => Ok(self.push(&sample)?),
            None => Ok(()),
        }
    }

    fn stop(&mut self, _: &HealthLog) -> Result<(), Error> {
        self.profile.links.clear();
        Ok(())
    }

    fn look(&mut self, health: &HealthLog, _: bool) -> Result<(), Error> {
        match self.profile.newly_lost(&mut self.lost)? {
            0 => {}
            n => health.say(SourceName::Profile, HealthKind::Lost, n, RING_FULL)?,
        }
        self.stacks.say_dropped(health)?;
        Ok(self.user.say_notes(health)?)
    }

    // Rows refer to stacks: these come first.
    fn seal_if_due(&mut self) -> Result<(), Error> {
        self.stacks.hand_over()?;
        Ok(self.table.seal_if_due()?)
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.stacks.seal()?;
        Ok(self.table.seal()?)
    }
}

impl Watched<'_> {
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
