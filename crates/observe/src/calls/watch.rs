//! The thread that watches calls: drains the ring on a timer into the `call` table.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::time::Instant;

use libbpf_rs::skel::Skel;
use recording::tables::Call;
use recording::{HealthKind, Source, SourceName, TableWriter, Verdict};

use super::decode::Decoder;
use super::driver::{CallOptions, Calls, obstacle, sources};
use crate::error::Error;
use crate::health::HealthLog;
use crate::kernel::{KernelBtf, MISSED, Missed};
use crate::ring::{Count, DRAIN_EVERY, LOOK_FOR_LOSSES_EVERY, drain, ring};
use crate::wire::{tw_call, tw_call_loss};
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
    run(calls, table, health, control)
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

fn run(
    mut calls: Calls,
    table: TableWriter<Call>,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut links = std::mem::take(&mut calls.links);
    control.ready(Report {
        sources: calls.sources.clone(),
        ..Report::default()
    });
    let sink = RefCell::new(Sink {
        decoder: Decoder::new(),
        table,
        failed: None,
    });
    let ring = ring(&calls.skel.maps.ring, |c| sink.borrow_mut().take(c))?;
    let mut lost: [Count; LOSSES.len()] = Default::default();
    let mut missed = Missed::default();
    let mut looked = Instant::now();
    loop {
        let stopping = control.stopping(DRAIN_EVERY);
        if stopping {
            // Detach first, then drain: what returned before the end is not lost. In reverse: a
            // call that is seen to begin is seen to end.
            while links.pop().is_some() {}
        }
        drain(&ring)?;
        let mut sink = sink.borrow_mut();
        if let Some(failed) = sink.failed.take() {
            return Err(failed.into());
        }
        if stopping || looked.elapsed() >= LOOK_FOR_LOSSES_EVERY {
            looked = Instant::now();
            let map = &calls.skel.maps.lost;
            for ((why, detail), count) in LOSSES.iter().zip(&mut lost) {
                let n = count.news(map, why.0)?;
                if n > 0 {
                    health.say(SourceName::Calls, HealthKind::Lost, n, *detail)?;
                }
            }
            // Most of them are of no interest, as most system calls are; a call whose end was
            // passed over is counted as one whose return was not seen.
            for (program, n) in missed.news(calls.skel.object()) {
                if program == "on_enter" {
                    let detail = format!("system calls of any kind not looked at: {MISSED}");
                    health.say(SourceName::Calls, HealthKind::Partial, n, detail)?;
                }
            }
        }
        if stopping {
            sink.table.seal()?;
            calls.sources[0].lost = lost.iter().map(|c| c.total).sum();
            return Ok(Report {
                sources: calls.sources.clone(),
                ..Report::default()
            });
        }
        sink.table.seal_if_due()?;
    }
}

struct Sink {
    decoder: Decoder,
    table: TableWriter<Call>,
    failed: Option<recording::Error>,
}

impl Sink {
    fn take(&mut self, call: &tw_call) {
        if self.failed.is_none()
            && let Some(row) = self.decoder.row(call)
        {
            self.failed = self.table.push(row).err();
        }
    }
}
