//! What the reader of `top` asks to be kept: the window as a recording, and its report. Each has a new name
//! in the directory where he is, and says in a line what came of it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use cli::Target;
use jiff::Zoned;
use recording::{Manifest, Recording, Window};
use view::report::{self, Report};

/// A name of this moment.
fn name(extension: &str) -> PathBuf {
    let now = Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    format!("tcpwhy-top-{now}.{extension}").into()
}

/// Writes what a window holds as a recording.
pub fn recording(window: &Window, manifest: &Manifest, (from_ns, end_ns): (u64, u64)) -> String {
    let path = name("tcpwhy");
    let manifest = Manifest {
        end_ns,
        ..manifest.clone()
    };
    match window.write(from_ns, &manifest, &path) {
        Ok(kept) => {
            let ns = end_ns.saturating_sub(kept.manifest.start_ns);
            format!(
                "wrote {}: the last {} s",
                path.display(),
                ns / 1_000_000_000
            )
        }
        Err(why) => format!("no recording was written: {why}"),
    }
}

/// A report that is being written in a thread of its own: that may take seconds.
#[derive(Default)]
pub struct Reports {
    running: Option<(Receiver<String>, JoinHandle<()>)>,
}

impl Reports {
    /// Begins to write one of what `open` gives, unless one is being written. What to say meanwhile.
    pub fn begin(&mut self, open: impl FnOnce() -> Result<(Recording, Option<PathBuf>)>) -> String {
        if self.running.is_some() {
            return "one report at a time: another is being written".into();
        }
        let path = name("html");
        let begun = || -> Result<_> {
            let target = Target::new_private(&path)?;
            let (recording, remove) = open()?;
            let (tell, told) = sync_channel(1);
            let named = thread::Builder::new().name("report".into());
            let named = named.stack_size(cli::STACK);
            let work = {
                let path = path.clone();
                move || {
                    // Nothing that anyone waits for is kept waiting.
                    let _ = rustix::process::setpriority_process(None, 19);
                    let done = write(&path, &target, recording);
                    if let Some(dir) = remove {
                        // A leftover goes with the directory that it is in.
                        let _ = std::fs::remove_dir_all(dir);
                    }
                    let _ = tell.send(match done {
                        Ok(()) => format!("wrote {}", path.display()),
                        Err(why) => format!("no report was written: {why:#}"),
                    });
                }
            };
            let thread = named.spawn(work).context("starting a thread")?;
            Ok((told, thread))
        };
        match begun() {
            Ok(running) => {
                self.running = Some(running);
                format!("writing {} …", path.display())
            }
            Err(why) => format!("no report was written: {why:#}"),
        }
    }

    /// What came of it, once.
    pub fn done(&mut self) -> Option<String> {
        let (told, _) = self.running.as_ref()?;
        let says = match told.try_recv() {
            Ok(says) => says,
            Err(TryRecvError::Empty) => return None,
            // A bug of ours: the rest of the screen goes on.
            Err(TryRecvError::Disconnected) => {
                "no report was written: writing it ended unexpectedly; please report this".into()
            }
        };
        self.running = None;
        Some(says)
    }
}

impl Drop for Reports {
    /// Waits for the one that was asked for.
    fn drop(&mut self) {
        if let Some((_, thread)) = self.running.take() {
            // It panicked: that was said when it did.
            let _ = thread.join();
        }
    }
}

fn write(path: &Path, target: &Target, recording: Recording) -> Result<()> {
    let report = Report::of(&[(report::name_of(path), recording)])?;
    target.write(|mut out| Ok(report.html(&mut out)?))?;
    Ok(())
}
