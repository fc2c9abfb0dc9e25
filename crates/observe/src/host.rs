//! Facts of the host and of this process that the manifest holds.

use std::fs;

use recording::{Host, OwnCost, monotonic_ns};
use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;
use crate::processes::Stat;
use crate::worker::Longest;

/// The host, as far as it can be read.
pub fn host(hz: Option<u32>) -> Host {
    let uname = rustix::system::uname();
    let online = fs::read_to_string("/proc/stat").unwrap_or_default();
    Host {
        name: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        machine: uname.machine().to_string_lossy().into_owned(),
        boot_id: boot_id(),
        hz,
        cpus: online
            .lines()
            .filter(|l| l.starts_with("cpu") && !l.starts_with("cpu "))
            .count() as u32,
    }
}

/// The running host's boot id; empty when it cannot be read.
fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_string()
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, ns.
pub fn clock_offset_ns() -> i64 {
    let wall = clock_gettime(ClockId::Realtime);
    let wall = wall.tv_sec * 1_000_000_000 + wall.tv_nsec;
    wall - monotonic_ns() as i64
}

/// What this process has used so far.
pub fn own_cost(ring_bytes: u32, longest: Longest) -> OwnCost {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let stat = Stat::parse(&stat);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let max_rss_kib = status.lines().find_map(|l| {
        let rest = l.strip_prefix("VmHWM:")?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    OwnCost {
        user_ms: stat.as_ref().map_or(0, |s| s.user_ms),
        system_ms: stat.as_ref().map_or(0, |s| s.system_ms),
        max_rss_bytes: max_rss_kib.unwrap_or(0).saturating_mul(1024),
        ring_bytes: ring_bytes.into(),
        longest_round_us: longest.round.as_micros() as u64,
        longest_snapshot_us: longest.snapshot.as_micros() as u64,
    }
}

/// Random numbers for the ids of sockets.
pub fn sock_key() -> Result<[u64; 2], Error> {
    let mut bytes = [0; 16];
    // Not from a file: there may be no /dev. So few bytes come at once, or not at all.
    // SAFETY: the kernel writes no more than the length of the array.
    let came = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if came != bytes.len() as isize {
        return Err(Error::System {
            what: "asking the kernel for random numbers".into(),
            why: std::io::Error::last_os_error(),
        });
    }
    let (a, b) = bytes.split_at(8);
    let number = |b: &[u8]| b.iter().fold(0, |n, &b| n << 8 | u64::from(b));
    // Odd, so that multiplying loses nothing.
    Ok([number(a), number(b) | 1])
}

/// Has all threads of the process share two heaps: each of a recorder's threads would keep one of its own, filled by
/// turns. What a batch of rows needed is kept for the next one: giving it back to the kernel, and touching it anew,
/// was a tenth of the recorder's work. What is larger goes back: without a bound of ours glibc keeps up to 64 MB,
/// and who compares recordings had a sixth more than one of them takes. A program calls it once, at its start.
/// Elsewhere than with glibc there is nothing to do.
pub fn share_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets parameters of malloc, which may be done at any time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 8 << 20);
    }
}

/// Gives pages of the heaps that hold nothing back to the kernel: texts that live longer than the batches around them
/// keep glibc from doing it, and a recorder of 36,000 new names a second grew by 6 MB a minute.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
