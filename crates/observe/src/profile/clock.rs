//! A clock on a CPU that ticks many times a second, and what a tick costs on this machine.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::Error;

/// Those that were asked for, if they are online; or all that are.
pub(super) fn cpus(asked: &[u32]) -> Result<Vec<u32>, Error> {
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
pub(super) fn clock(cpu: u32, hz: u32) -> Result<OwnedFd, Error> {
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

/// Samples per second and CPU, the most first. Not in step with anything that happens every so many
/// milliseconds.
const RATES: [u32; 5] = [997, 499, 251, 149, 97];

/// The most samples per second whose ticks take no more than one part in four hundred of each CPU (a
/// sample with its stacks takes about twice as much again); the least there is where all take more, the
/// most where it is not known.
pub fn affordable_hz(tick: Option<Duration>) -> u32 {
    const MOST: Duration = Duration::from_micros(2500);
    let tick = tick.unwrap_or_default();
    let affordable = RATES.into_iter().find(|hz| tick * *hz <= MOST);
    affordable.unwrap_or(RATES[RATES.len() - 1])
}

/// What a tick of the fastest clock takes from whoever runs: some µs on metal, up to 100 in a virtual
/// machine, whose hypervisor has to act on every interrupt. `None` when it cannot be measured.
///
/// A thread that only looks at the time is interrupted once a tick: it takes a tenth of a second.
pub fn tick_cost() -> Option<Duration> {
    let hz = RATES[0];
    // Another thread, as it keeps to one CPU from now on.
    let gaps = thread::spawn(move || {
        let cpu = *cpus(&[]).ok()?.first()?;
        let mut only = CpuSet::new();
        if cpu as usize >= CpuSet::MAX_CPU {
            return None;
        }
        only.set(cpu as usize);
        sched_setaffinity(None, &only).ok()?;
        let _clock = clock(cpu, hz).ok()?;
        Some(interruptions(WATCHED))
    });
    let ticks = hz as usize * WATCHED.as_millis() as usize / 1000;
    median_of_longest(gaps.join().ok()??, ticks)
}

/// Time in which ticks are looked for.
const WATCHED: Duration = Duration::from_millis(100);

/// For how long, each time, the calling thread did not run in so much time.
fn interruptions(watched: Duration) -> Vec<Duration> {
    /// Looking at the time takes less; an interrupt takes more.
    const LEAST: Duration = Duration::from_nanos(500);
    /// More than anything that interrupts so often.
    const MOST: usize = 100_000;
    let begin = Instant::now();
    let mut last = begin;
    let mut gaps = Vec::new();
    while last - begin < watched && gaps.len() < MOST {
        let now = Instant::now();
        if now - last > LEAST {
            gaps.push(now - last);
        }
        last = now;
    }
    gaps
}

/// The median of the `n` longest: a few other tasks that ran meanwhile do not move it.
fn median_of_longest(mut gaps: Vec<Duration>, n: usize) -> Option<Duration> {
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    gaps.truncate(n);
    gaps.get(gaps.len() / 2).copied()
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

    #[test]
    fn dear_ticks_come_less_often() {
        let hz = |us: u64| affordable_hz(Some(Duration::from_micros(us)));
        assert_eq!(
            [1, 2, 3, 5, 9, 16, 25, 94].map(hz),
            [997, 997, 499, 499, 251, 149, 97, 97]
        );
        assert_eq!(hz(5_000), 97, "the least there is");
        assert_eq!(affordable_hz(None), 997);
    }

    #[test]
    fn ticks_are_the_longest_interruptions() {
        let us = |n: u64| Duration::from_nanos(n * 1000);
        // Ten ticks of 3 us, one of them beside another task, among many short interruptions.
        let mut gaps = vec![us(1); 30];
        gaps.extend([us(3); 9]);
        gaps.push(us(4000));
        assert_eq!(median_of_longest(gaps, 10), Some(us(3)));
        assert_eq!(median_of_longest(vec![us(2)], 10), Some(us(2)));
        assert_eq!(median_of_longest(Vec::new(), 10), None);
    }
}
