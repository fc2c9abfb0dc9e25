//! A thread that merges recordings of the store that have ended.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use anyhow::{Context, Result, anyhow};

/// Recordings that wait to be merged; more are merged when it starts again.
const MAX_WAITING: usize = 64;

/// A thread that merges recordings that have ended, when the host has nothing better to do.
pub struct Merger {
    ended: SyncSender<PathBuf>,
    /// Those that have another size now.
    pub merged: Receiver<PathBuf>,
}

impl Merger {
    /// Starts it.
    pub fn start() -> Result<Merger> {
        let (ended, to_merge) = sync_channel::<PathBuf>(MAX_WAITING);
        let (done, merged) = channel();
        let merge = move || {
            // It is this thread's alone, on Linux.
            let _ = rustix::process::nice(19);
            for path in to_merge {
                if let Err(why) = store::merge(&path) {
                    let why = anyhow!(why).context(path.display().to_string());
                    cli::say(&format!("tcpwhy: {why:#}"));
                }
                // Nobody asks any more when the process ends.
                let _ = done.send(path);
            }
        };
        let thread = thread::Builder::new().name("tcpwhy:merger".into());
        thread.spawn(merge).context("starting a thread")?;
        Ok(Merger { ended, merged })
    }

    /// Merges it when there is time. What finds no place waits for the next start.
    pub fn take(&self, ended: PathBuf) {
        let _ = self.ended.try_send(ended);
    }
}
