//! What this kernel allows: tries every source as a recording would, and lets go again.

use std::mem::MaybeUninit;
use std::time::Duration;

use recording::{Host, Source, SourceName, Verdict};

use crate::calls::{self, CallOptions};
use crate::error::{Error, quiet_libbpf};
use crate::events::EventOptions;
use crate::filter::Filter;
use crate::heartbeats::{self, HeartbeatOptions};
use crate::holders::{Holders, Of};
use crate::host;
use crate::kernel::{Callers, KernelBtf, Names, Symbols, defects, hz};
use crate::packets::{self, PacketOptions};
use crate::part::Part;
use crate::profile::{self, Profile, ProfileOptions, affordable_hz};
use crate::requests::{self, RequestOptions};
use crate::rights::Lack;
use crate::sampled::sources;
use crate::sockets::{Decoder, Sockets};
use crate::tasks::{self, Losses, TaskOptions, Tasks};
use crate::watcher::attach;
use crate::{census, limits, rights, usage};

/// The result.
#[derive(Debug, serde::Serialize)]
pub struct Checkup {
    /// The host.
    pub host: Host,
    /// Why nothing can be recorded; `None` when it can.
    pub obstacle: Option<String>,
    /// Capabilities that this process lacks; empty when there is an obstacle.
    pub lacks: Vec<Lack>,
    /// Every source with its verdict; empty when there is an obstacle.
    pub sources: Vec<Source>,
    /// What a tick of the profiler's clock takes from whoever runs, ns; `None` when not measured.
    pub tick_ns: Option<u64>,
}

/// Enough to try.
const RING_BYTES: u32 = 1 << 16;

/// Tries every source.
pub fn checkup() -> Checkup {
    // Without root there is no clock, and no source either.
    let tick = profile::tick_cost();
    let (sources, obstacle) = match try_sources(tick).map_err(Error::or_files) {
        Ok(sources) => (sources, None),
        Err(e) => (Vec::new(), Some(e.reason())),
    };
    Checkup {
        host: host::host(hz()),
        lacks: match obstacle {
            None => rights::lacking(),
            Some(_) => Vec::new(),
        },
        obstacle,
        sources,
        tick_ns: tick.map(|t| t.as_nanos() as u64),
    }
}

fn try_sources(tick: Option<Duration>) -> Result<Vec<Source>, Error> {
    rights::require()?;
    defects::check(&Part::ALL.iter().map(|p| p.0).collect())?;
    limits::raise();
    quiet_libbpf();
    let sock_key = host::sock_key()?;
    let options = EventOptions {
        filter: Filter::default(),
        ring_bytes: RING_BYTES,
        all_states: false,
        sock_key,
        follows: false,
    };
    let mut objects = [MaybeUninit::uninit(), MaybeUninit::uninit()];
    let symbols = Callers::of(&Symbols::load());
    let mut found = attach(&mut objects, &options, &symbols)?.0.sources;
    let (mut sockets, mut holders) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let btf = KernelBtf::load().map_err(Error::Kernel)?;
    let decoder = Decoder::new(Names::load(&btf), hz().unwrap_or(250));
    let looks = Sockets::load(&mut sockets, sock_key, &btf, Duration::ZERO, decoder)?.may_look();
    let holders = match Holders::load(&mut holders, Of::Streams) {
        Ok(_) => Verdict::Attached,
        Err(e) => Verdict::Failed(e.reason()),
    };
    found.extend(sources(looks, holders));
    found.extend(usage::checkup());
    found.extend(census::checkup());
    found.extend(calls_and_packets(sock_key)?);
    found.extend(try_tasks(sock_key, &btf, &symbols));
    found.extend(requests::checkup(&RequestOptions {
        filter: Filter::default(),
        ring_bytes: RING_BYTES,
        sock_key,
    }));
    found.extend(heartbeats::checkup(&HeartbeatOptions {
        filter: Filter::default(),
        sock_key,
    }));
    found.extend(try_profile(affordable_hz(tick), &symbols.verdict));
    found.push(Source::optional(
        SourceName::Hz,
        "durations that the kernel keeps in ticks",
        match hz() {
            Some(_) => Verdict::Attached,
            None => Verdict::Unsupported(
                "no configuration of this kernel can be read (/proc/config.gz, /boot/config-*, \
                 /lib/modules/*/config); 250 is assumed"
                    .into(),
            ),
        },
    ));
    Ok(found)
}

fn calls_and_packets(sock_key: [u64; 2]) -> Result<Vec<Source>, Error> {
    let options = CallOptions {
        filter: Filter::default(),
        ring_bytes: 1 << 16,
        over: Duration::MAX,
        only: &[],
        sock_key,
    };
    let mut objects = [MaybeUninit::uninit(), MaybeUninit::uninit()];
    let mut found = match calls::try_attach(&mut objects, &options)? {
        Ok(calls) => calls.sources,
        Err(sources) => sources,
    };
    let options = PacketOptions {
        filter: Filter::default(),
        ring_bytes: 1 << 16,
        interval: Duration::MAX,
    };
    found.extend(packets::checkup(&options)?);
    Ok(found)
}

fn try_tasks(sock_key: [u64; 2], btf: &KernelBtf, symbols: &Callers) -> Vec<Source> {
    let options = TaskOptions {
        filter: Filter::default(),
        waits: true,
        threads: true,
        wait_over: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        ring_bytes: RING_BYTES,
        sock_key,
    };
    let mut objects = [const { MaybeUninit::uninit() }; 4];
    let attached = Tasks::attach(&mut objects, &options, btf, symbols);
    match attached {
        Ok(tasks) => tasks.sources(&Losses::default(), symbols.verdict.clone()),
        Err(e) => tasks::failed_sources(&e),
    }
}

fn try_profile(hz: u32, symbols: &Verdict) -> Vec<Source> {
    let how = ProfileOptions {
        hz: Some(hz),
        ..ProfileOptions::default()
    };
    let mut object = MaybeUninit::uninit();
    let attached = Profile::attach(&mut object, &how, &Filter::default(), RING_BYTES);
    let verdict = match attached {
        Ok(_) => Verdict::Attached,
        Err(e) => Verdict::Failed(e.to_string()),
    };
    profile::sources(verdict, Some(hz), symbols.clone(), 0)
}
