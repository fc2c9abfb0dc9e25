//! A clock on every CPU, and the program that it runs.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, RingBuffer};
use recording::{Source, Verdict};

use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::ring::{Count, ring_of_bytes};
use crate::wire::profile::{ProfileSkel, ProfileSkelBuilder};
use crate::wire::same;

/// How the CPUs are sampled.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Samples per second and CPU.
    pub hz: u32,
    /// Only these CPUs; empty means all.
    pub cpus: Vec<u32>,
    /// Only the kernel: no samples of user mode, no user stacks.
    pub kernel_only: bool,
    /// Only samples taken in a softirq.
    pub softirq_only: bool,
}

impl Default for ProfileOptions {
    /// 997: not in step with anything that happens every so many milliseconds.
    fn default() -> Self {
        ProfileOptions {
            hz: 997,
            cpus: Vec::new(),
            kernel_only: false,
            softirq_only: false,
        }
    }
}

/// The loaded program with its clocks.
pub struct Profile<'o> {
    skel: ProfileSkel<'o>,
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
            .set_max_entries(ring_bytes(cpus.len(), options.hz, most_ring_bytes))
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
            let clock = clock(cpu, options.hz)?;
            let link = skel.progs.on_sample.attach_perf_event(clock.as_raw_fd());
            links.push(link.map_err(|e| failed("attaching", e))?);
            // The link closes it.
            let _ = clock.into_raw_fd();
        }
        Ok(Profile { skel, links })
    }

    /// The ring; each `drain` hands the records that are in it to `each`.
    pub fn ring<'r>(&self, each: impl FnMut(&[u8]) + 'r) -> Result<RingBuffer<'r>, Error> {
        ring_of_bytes(&self.skel.maps.ring, each)
    }

    /// Samples that found the ring full since the last call.
    pub fn newly_lost(&self, lost: &mut Count) -> Result<u64, Error> {
        lost.news(&self.skel.maps.lost, 0)
    }
}

/// The sources with what was lost. `symbols` tells whether functions of the kernel have names.
pub fn sources(profile: Verdict, symbols: Verdict, lost: u64) -> Vec<Source> {
    vec![
        Source::optional("profile", "what each CPU is at", profile).with_lost(lost),
        Source::optional(
            "profile-symbols",
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

/// Those that were asked for, if they are online; or all that are.
fn cpus(asked: &[u32]) -> Result<Vec<u32>, Error> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).map_err(|why| Error::System {
        what: format!("reading {path}"),
        why,
    })?;
    let online = parse_cpus(&text);
    if let Some(missing) = asked.iter().find(|cpu| !online.contains(cpu)) {
        return Err(Error::Usage(format!(
            "CPU {missing} is not online; these are: {}",
            text.trim()
        )));
    }
    Ok(match asked {
        [] => online,
        asked => asked.to_vec(),
    })
}

/// The kernel's notation: `0-3,8`.
fn parse_cpus(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// A clock of one CPU that ticks `hz` times a second, busy or not.
fn clock(cpu: u32, hz: u32) -> Result<OwnedFd, Error> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        ..perf_event_attr::default()
    };
    attr.set_freq(1);
    attr.__bindgen_anon_1.sample_freq = hz.into();
    // SAFETY: `attr` is a whole perf_event_attr that says its size, and lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            -1,
            cpu,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        let why = std::io::Error::last_os_error();
        return Err(Error::Bpf {
            what: format!("starting a clock of {hz} Hz on CPU {cpu}"),
            why: match why.raw_os_error() {
                Some(libc::EINVAL) => {
                    format!("{why} (is it more than sysctl kernel.perf_event_max_sample_rate?)")
                }
                _ => why.to_string(),
            },
        });
    }
    // SAFETY: the call just gave it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpus("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_cpus("7"), [7]);
        assert!(parse_cpus("").is_empty());
    }
}
