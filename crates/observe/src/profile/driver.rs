//! A clock on every CPU, and the program that it runs.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, OpenObject};
use recording::{Source, SourceName, Verdict};

use super::clock::{affordable_hz, clock, cpus, tick_cost};
use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::ring::Count;
use crate::wire::profile::{ProfileSkel, ProfileSkelBuilder};
use crate::wire::same;

/// How the CPUs are sampled.
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    /// Samples per second and CPU; `None` for as many as are cheap here
    /// ([`affordable_hz`](super::affordable_hz)).
    pub hz: Option<u32>,
    /// Only these CPUs; empty means all.
    pub cpus: Vec<u32>,
    /// Only the kernel: no samples of user mode, no user stacks.
    pub kernel_only: bool,
    /// Only samples taken in a softirq.
    pub softirq_only: bool,
}

/// The loaded program with its clocks.
pub struct Profile<'o> {
    skel: ProfileSkel<'o>,
    /// Samples per second and CPU.
    pub hz: u32,
    /// Drop them to stop sampling; what is in the ring stays.
    pub links: Vec<Link>,
}

impl<'o> Profile<'o> {
    /// Loads the program and starts the clocks.
    pub fn attach(
        object: &'o mut MaybeUninit<OpenObject>,
        options: &ProfileOptions,
        filter: &Filter,
        most_ring_bytes: u32,
    ) -> Result<Profile<'o>, Error> {
        let cpus = cpus(&options.cpus)?;
        let hz = options.hz.unwrap_or_else(|| affordable_hz(tick_cost()));
        let failed = |what: &str, e: libbpf_rs::Error| Error::Bpf {
            what: format!("{what} the profiler's program"),
            why: bpf_error(&e),
        };
        let opening = |e| failed("opening", e);
        let mut open = ProfileSkelBuilder::default()
            .open(object)
            .map_err(opening)?;
        open.maps
            .ring
            .set_max_entries(ring_bytes(cpus.len(), hz, most_ring_bytes))
            .map_err(opening)?;
        // It shares a header with the programs that keep state per thread; it keeps none.
        open.maps.by_task.set_autocreate(false).map_err(opening)?;
        open.maps.by_tid.set_autocreate(false).map_err(opening)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.filter = same(&filter.wire().map_err(Error::Usage)?);
            rodata.kernel_only = options.kernel_only;
        }
        let skel = open.load().map_err(|e| failed("loading", e))?;
        let mut links = Vec::new();
        for cpu in cpus {
            let clock = clock(cpu, hz)?;
            let link = skel.progs.on_sample.attach_perf_event(clock.as_raw_fd());
            links.push(link.map_err(|e| failed("attaching", e))?);
            // The link closes it.
            let _ = clock.into_raw_fd();
        }
        Ok(Profile { skel, hz, links })
    }

    /// The ring of samples.
    pub fn ring(&self) -> &dyn MapCore {
        &self.skel.maps.ring
    }

    /// Samples that found the ring full since the last call.
    pub fn newly_lost(&self, lost: &mut Count) -> Result<u64, Error> {
        lost.news(&self.skel.maps.lost, 0)
    }
}

/// The sources with what was lost. `symbols` tells whether functions of the kernel have names; without
/// `hz` it is not known how often.
pub fn sources(profile: Verdict, hz: Option<u32>, symbols: Verdict, lost: u64) -> Vec<Source> {
    let gives = match hz {
        Some(hz) => &*format!("what each CPU is at, {hz} times a second"),
        None => "what each CPU is at",
    };
    vec![
        Source::optional(SourceName::Profile, gives, profile).with_lost(lost),
        Source::optional(
            SourceName::ProfileSymbols,
            "functions of the kernel by name",
            symbols,
        ),
    ]
}

/// Room for half a second of samples with stacks of middling depth: they are read every 50 ms.
fn ring_bytes(cpus: usize, hz: u32, most: u32) -> u32 {
    const SAMPLE: u32 = 1024;
    let wanted = (cpus as u32).saturating_mul(hz).saturating_mul(SAMPLE / 2);
    let wanted = wanted.clamp(4096, 1 << 30).next_power_of_two();
    wanted.min(most)
}
