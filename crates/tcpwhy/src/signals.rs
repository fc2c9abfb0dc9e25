//! Signals where nothing is left to end cleanly: what is temporary goes, and the process with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{process, thread};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

use crate::surroundings;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// As [`CAME`] holds it.
const INTERRUPT: usize = SIGINT.unsigned_abs() as usize;

/// What goes with the process.
struct Temporary {
    /// Those that have gone are in it, too.
    dirs: Vec<PathBuf>,
    watched: bool,
}

static TEMPORARY: Mutex<Temporary> = Mutex::new(Temporary {
    dirs: Vec::new(),
    watched: false,
});
/// The signal that came; 0 for none.
static CAME: AtomicUsize = AtomicUsize::new(0);
static PAGING: AtomicBool = AtomicBool::new(false);
/// A signal ends the process: what is temporary goes just now.
static ENDING: AtomicBool = AtomicBool::new(false);

/// From now on a signal ends the process, whatever it waits for, and this directory goes with it.
pub fn end_the_process(with: Option<&Path>) -> Result<()> {
    let mut temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    temporary.dirs.extend(with.map(Path::to_path_buf));
    if std::mem::replace(&mut temporary.watched, true) {
        return Ok(());
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Under nohup it is to go on.
        if !surroundings::is_ignored(signal) {
            let flag = flag::register_usize(signal, &CAME, signal.unsigned_abs() as usize);
            flag.context("installing signal handlers")?;
        }
    }
    let thread = thread::Builder::new().name("signals".into());
    thread.spawn(wait).context("starting a thread")?;
    Ok(())
}

fn wait() {
    let signal = loop {
        match CAME.swap(0, Ordering::SeqCst) {
            0 => thread::sleep(LOOK_EVERY),
            INTERRUPT if PAGING.load(Ordering::SeqCst) => {}
            signal => break signal,
        }
    };
    ENDING.store(true, Ordering::SeqCst);
    let temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    for dir in &temporary.dirs {
        // Something may be made in it meanwhile; what stays goes with a later run.
        let _ = fs::remove_dir_all(dir).or_else(|_| fs::remove_dir_all(dir));
    }
    let signal = i32::try_from(signal).unwrap_or(SIGTERM);
    let _ = low_level::emulate_default_handler(signal);
    process::exit(128 + signal);
}

/// Lets a signal that has come end the process: what fails as its files go fails for that.
pub fn give_way() {
    while ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// While this lives, Ctrl-C is for a pager, which goes on.
pub struct Paging {
    ignored: Option<SigId>,
}

impl Paging {
    /// Begins it.
    pub fn begin() -> Paging {
        PAGING.store(true, Ordering::SeqCst);
        // Where nobody else minds it, the kernel would end us.
        let ignored = flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
        Paging {
            ignored: ignored.ok(),
        }
    }
}

impl Drop for Paging {
    fn drop(&mut self) {
        if let Some(id) = self.ignored.take() {
            low_level::unregister(id);
        }
        // One that nobody has looked at yet was the pager's, too.
        let _ = CAME.compare_exchange(INTERRUPT, 0, Ordering::SeqCst, Ordering::SeqCst);
        PAGING.store(false, Ordering::SeqCst);
    }
}
