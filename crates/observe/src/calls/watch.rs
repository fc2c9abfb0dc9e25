//! The thread that watches calls: drains the ring on a timer into the `call` table.

use std::mem::MaybeUninit;

use libbpf_rs::MapCore;
use libbpf_rs::skel::Skel;
use recording::tables::Call;
use recording::{HealthKind, Source, SourceName, TableWriter, Verdict};

use super::decode::Decoder;
use super::driver::{CallOptions, Calls, obstacle, sources};
use crate::error::Error;
use crate::health::HealthLog;
use crate::kernel::{KernelBtf, MISSED, Missed};
use crate::ring::Count;
use crate::ring_source::{RingSource, run};
use crate::wire::{read, tw_call, tw_call_loss};
use crate::worker::{Control, Report};

/// Why calls are missing.
const LOSSES: [(tw_call_loss, &str); 3] = [
    (
        tw_call_loss::TW_CALL_LOST_RING,
        "the ring buffer was full; record with a larger --ring-kib or --call-over",
    ),
    (
        tw_call_loss::TW_CALL_LOST_NOTE,
        "the kernel had no memory at hand to note when a call began",
    ),
    (
        tw_call_loss::TW_CALL_LOST_RETURN,
        "calls whose return was not seen",
    ),
];

/// Watches until told to stop; ready once attached. A kernel that cannot do it gets a verdict.
pub fn watch(
    options: &CallOptions,
    table: TableWriter<Call>,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut objects = [MaybeUninit::uninit(), MaybeUninit::uninit()];
    let calls = match try_attach(&mut objects, options)? {
        Ok(calls) => calls,
        Err(sources) => return control.idle(sources),
    };
    let watched = Watched {
        calls,
        decoder: Decoder::new(),
        table,
        lost: Default::default(),
        missed: Missed::default(),
    };
    run(watched, health, control)
}

/// The attached programs, or their sources with the reason why they are not.
#[allow(clippy::type_complexity)]
pub fn try_attach<'o>(
    objects: &'o mut [MaybeUninit<libbpf_rs::OpenObject>; 2],
    options: &CallOptions,
) -> Result<Result<Calls<'o>, Vec<Source>>, Error> {
    let btf = KernelBtf::load().map_err(Error::Kernel)?;
    let verdict = match obstacle(&btf) {
        Some(why) => Verdict::Unsupported(why),
        None => match Calls::attach(objects, options) {
            Ok(calls) => return Ok(Ok(calls)),
            Err(Error::Usage(why)) => return Err(Error::Usage(why)),
            Err(e) => Verdict::Failed(e.reason()),
        },
    };
    Ok(Err(sources(verdict.clone(), verdict)))
}

struct Watched<'o> {
    calls: Calls<'o>,
    decoder: Decoder,
    table: TableWriter<Call>,
    lost: [Count; LOSSES.len()],
    missed: Missed,
}

impl RingSource for Watched<'_> {
    fn ring(&self) -> &dyn MapCore {
        &self.calls.skel.maps.ring
    }

    fn report(&self) -> Report {
        let mut sources = self.calls.sources.clone();
        sources[0].lost = self.lost.iter().map(|c| c.total).sum();
        Report {
            sources,
            ..Report::default()
        }
    }

    fn take(&mut self, record: &[u8]) -> Result<(), Error> {
        let call = read::<tw_call>(record);
        match call.and_then(|call| self.decoder.row(&call)) {
            Some(row) => Ok(self.table.push(row)?),
            None => Ok(()),
        }
    }

    fn stop(&mut self, _: &HealthLog) -> Result<(), Error> {
        // In reverse: a call that is seen to begin is seen to end.
        while self.calls.links.pop().is_some() {}
        Ok(())
    }

    fn look(&mut self, health: &HealthLog, _: bool) -> Result<(), Error> {
        let map = &self.calls.skel.maps.lost;
        for ((why, detail), count) in LOSSES.iter().zip(&mut self.lost) {
            let n = count.news(map, why.0)?;
            if n > 0 {
                health.say(SourceName::Calls, HealthKind::Lost, n, *detail)?;
            }
        }
        // Most of them are of no interest, as most system calls are; a call whose end was
        // passed over is counted as one whose return was not seen.
        for (program, n) in self.missed.news(self.calls.skel.object()) {
            if program == "on_enter" {
                let detail = format!("system calls of any kind not looked at: {MISSED}");
                health.say(SourceName::Calls, HealthKind::Partial, n, detail)?;
            }
        }
        Ok(())
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        Ok(self.table.seal_if_due()?)
    }

    fn seal(&mut self) -> Result<(), Error> {
        Ok(self.table.seal()?)
    }
}
