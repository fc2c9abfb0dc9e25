//! Loads and attaches the program that knows the rhythm of flows; reads gaps and what has not come.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, OpenObject};
use recording::{HealthKind, Source, SourceName, Verdict};

use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::health::HealthLog;
use crate::kernel::{KernelBtf, MISSED, Missed, hz};
use crate::noted::{self, Noted};
use crate::ring::{Count, RING_FULL};
use crate::wire::heartbeats::{HeartbeatsSkel, HeartbeatsSkelBuilder};
use crate::wire::{same, tied, tw_beat_count, tw_gap};

/// What to watch.
#[derive(Clone, Debug)]
pub struct HeartbeatOptions {
    /// Which flows: namespaces, ports, addresses.
    pub filter: Filter,
    /// Random numbers behind the ids of sockets.
    pub sock_key: [u64; 2],
}

/// It fires where data is queued to a socket; Linux 6.3.
const TRACEPOINT: &str = "sk_data_ready";
/// Some hundred gaps at once: when a CPU stood still, all that it receives are late.
const RING_BYTES: u32 = 1 << 16;
const LOSSES: usize = 3;

/// The loaded program.
pub struct Heartbeats<'o> {
    skel: HeartbeatsSkel<'o>,
    /// Drop it to stop watching; what is in the ring stays.
    pub link: Option<Link>,
    dump: Noted,
    losses: [Count; LOSSES],
    regular: Count,
    missed: Missed,
    lost: u64,
}

impl<'o> Heartbeats<'o> {
    /// Loads and attaches it; `Err` says why this kernel has no heartbeats to tell.
    pub fn attach(
        object: &'o mut MaybeUninit<OpenObject>,
        options: &HeartbeatOptions,
    ) -> Result<Result<Heartbeats<'o>, Verdict>, Error> {
        let hz = hz().unwrap_or(250);
        let btf = KernelBtf::load().map_err(Error::Kernel)?;
        if btf.tracepoint_args(TRACEPOINT) < Some(1) {
            let why = format!("this kernel has no tracepoint {TRACEPOINT} (Linux 6.3)");
            return Ok(Err(Verdict::Unsupported(why)));
        }
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "opening the program that knows the rhythm of flows".into(),
            why: bpf_error(&e),
        };
        let mut open = HeartbeatsSkelBuilder::default()
            .open(object)
            .map_err(failed)?;
        open.maps.ring.set_max_entries(RING_BYTES).map_err(failed)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.sock_key = options.sock_key;
            rodata.second_ticks = hz;
            // 10 ms and at least one tick: of two moments that far apart.
            rodata.apart_ticks = (hz / 100).max(1) + 1;
            rodata.filter = same(&options.filter.wire().map_err(Error::Usage)?);
        }
        for mut program in open.open_object_mut().progs_mut() {
            noted::choose(&mut program);
        }
        match loaded(open, &options.filter.netns) {
            Ok(heartbeats) => Ok(Ok(heartbeats)),
            Err(e) => Ok(Err(Verdict::Failed(bpf_error(&e)))),
        }
    }

    /// The ring of gaps.
    pub fn ring(&self) -> &dyn MapCore {
        &self.skel.maps.ring
    }

    /// Hands every message that should have come, and has not, to `each`.
    pub fn pending(&self, mut each: impl FnMut(&tw_gap)) -> Result<(), Error> {
        // Processes may share a socket.
        let mut told = BTreeSet::new();
        let each = |gap: &tw_gap| {
            if told.insert((gap.sock, gap.remote_addr, gap.remote_port)) {
                each(gap);
            }
            Ok(())
        };
        self.dump.each("the iterator over heartbeats", each)
    }

    /// Flows that were found to be regular since the last call.
    pub fn newly_regular(&mut self) -> Result<u64, Error> {
        let key = tw_beat_count::TW_BEAT_REGULAR.0;
        self.regular.news(&self.skel.maps.counts, key)
    }

    /// Says what was lost since the last call.
    pub fn say_losses(&mut self, health: &HealthLog) -> Result<(), Error> {
        let why = tied!(from 0;
            tw_beat_count::TW_BEAT_LOST_RING => RING_FULL,
            tw_beat_count::TW_BEAT_LOST_SOCKET => "the kernel had no memory for the notes on a socket",
            tw_beat_count::TW_BEAT_LOST_PEER => "messages of more regular senders to one socket than are followed",
        );
        let mut news = Vec::new();
        for ((key, why), count) in why.iter().enumerate().zip(&mut self.losses) {
            news.push((count.news(&self.skel.maps.counts, key as u32)?, *why));
        }
        let missed = self.missed.news(self.skel.object());
        news.push((missed.iter().map(|(_, n)| n).sum(), MISSED));
        for (count, why) in news.into_iter().filter(|(n, _)| *n > 0) {
            self.lost += count;
            health.say(SourceName::Heartbeats, HealthKind::Lost, count, why)?;
        }
        Ok(())
    }

    /// The source, with what was lost.
    pub fn source(&self) -> Source {
        source(Verdict::Attached).with_lost(self.lost)
    }
}

fn loaded<'o>(
    open: crate::wire::heartbeats::OpenHeartbeatsSkel<'o>,
    netns: &[u32],
) -> Result<Heartbeats<'o>, libbpf_rs::Error> {
    let mut skel = open.load()?;
    let dump = Noted::attach(skel.object_mut().progs_mut(), netns)?;
    let link = skel.progs.on_data_ready.attach()?;
    Ok(Heartbeats {
        skel,
        link: Some(link),
        dump,
        losses: Default::default(),
        regular: Count::default(),
        missed: Missed::default(),
        lost: 0,
    })
}

/// The source with this verdict.
pub fn source(verdict: Verdict) -> Source {
    Source::optional(
        SourceName::Heartbeats,
        "messages that came at regular intervals and then were delayed, and the CPU that received them",
        verdict,
    )
}

/// Tries everything and lets go again.
pub fn checkup(options: &HeartbeatOptions) -> Vec<Source> {
    let mut object = MaybeUninit::uninit();
    vec![source(match Heartbeats::attach(&mut object, options) {
        Ok(Ok(_)) => Verdict::Attached,
        Ok(Err(verdict)) => verdict,
        Err(e) => Verdict::Failed(e.reason()),
    })]
}
