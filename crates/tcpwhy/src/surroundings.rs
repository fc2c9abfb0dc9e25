//! What a verb that records owes to its surroundings: signals end it orderly, what it needs only for a
//! while is where nobody looks into it, and what was left by those that were killed is removed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use recording::{Scratch, sweep};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::unfinished;

/// Where a live recording is kept while it is needed: in memory, where there is such a place.
const IN_MEMORY: &[&str] = &["/dev/shm", "/run"];

/// A flag that Ctrl-C, SIGTERM and a terminal that hangs up set, in place of ending the process. Every
/// verb that records begins with it; it removes what killed runs left behind, and says what of it is the user's.
pub fn begin() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // Under nohup it is to go on when the terminal hangs up.
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register(signal, stop.clone()).context("installing signal handlers")?;
    }
    sweep_all();
    unfinished::tell();
    Ok(stop)
}

/// Removes what killed runs left behind.
pub fn sweep_all() {
    for place in places() {
        sweep(&place);
    }
}

/// The arguments of this process, as a recording keeps them; whatever bytes they hold.
pub fn command_line() -> Vec<String> {
    let args = env::args_os();
    args.map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// Where temporary directories are made: in this one while a process may make none elsewhere.
static ROOM: Mutex<Option<PathBuf>> = Mutex::new(None);

/// From now on temporary directories are made in this one.
pub fn stay_in(room: &Path) {
    *ROOM.lock().unwrap_or_else(PoisonError::into_inner) = Some(room.to_path_buf());
}

/// A directory for what is needed until the process ends.
pub fn scratch(thing: &str) -> Result<Scratch> {
    let room = ROOM.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let place = room.unwrap_or_else(env::temp_dir);
    Scratch::make(&place, thing).with_context(|| {
        format!(
            "making a temporary directory in {}; TMPDIR names another place",
            place.display()
        )
    })
}

/// The same in memory where there is such a place, else where temporary files go.
pub fn scratch_in_memory(thing: &str) -> Result<Scratch> {
    let made = |place: &&str| Scratch::make(Path::new(place), thing).ok();
    match IN_MEMORY.iter().find_map(made) {
        Some(dir) => Ok(dir),
        None => scratch(thing),
    }
}

/// Where directories of ours may have been left.
fn places() -> impl Iterator<Item = PathBuf> {
    let in_memory = IN_MEMORY.iter().map(PathBuf::from);
    in_memory.chain([env::temp_dir()])
}

/// Whether the process was started with a signal ignored.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The mask of ignored signals in /proc/PID/status; bit 0 is signal 1.
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn the_mask_is_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), Some(0x1001));
        assert_eq!(ignored("SigIgn:\tnone\n"), None);
        assert_eq!(ignored(""), None);
    }
}
