//! Where a recording is kept that is being made: a directory, one file, standard output, or nowhere.

use std::cell::Cell;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, rename};
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use cli::Target;
use jiff::Timestamp;
use recording::{ASIDE, PACKED, Scratch, UNPACKED, is_recording, left, pack};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{signals, surroundings, unfinished};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Where it goes.
pub struct Kept {
    /// Where it is recorded.
    dir: PathBuf,
    /// What the user named.
    name: PathBuf,
    /// Where it is packed to.
    packed: Option<Target>,
    /// What `dir` is in, when the user did not name it.
    scratch: Option<Scratch>,
    replaced: Option<Replaced>,
}

impl Kept {
    /// Under this name: as one file if it ends in `.tcpw`, on standard output if it is `-`, else as a
    /// directory. What is there is replaced with `force`, if it is a recording, once the new one is whole.
    pub fn at(name: &Path, force: bool) -> Result<Kept> {
        let target = Target::of_any(name);
        let is_stdout = target.is_stdout();
        if is_stdout && io::stdout().is_terminal() {
            bail!(
                "-o {}: standard output is a terminal; pipe it, or name a file, such as x.{PACKED}",
                name.display()
            );
        }
        let is_packed = !target.is_file() || name.extension().is_some_and(|end| end == PACKED);
        let there = if target.is_file() {
            settle(name);
            fs::symlink_metadata(name).ok()
        } else {
            None
        };
        if there.is_some() {
            may_be_replaced(name, force)?;
        }
        if !is_packed {
            return Ok(Kept {
                dir: name.to_path_buf(),
                name: name.to_path_buf(),
                packed: None,
                scratch: None,
                replaced: there.map(|_| Replaced::of(name)).transpose()?,
            });
        }
        // Before the work: what cannot be written is said at once.
        target.try_beside()?;
        let is_dir = there.is_some_and(|there| there.is_dir());
        let kept = Kept::nowhere(UNPACKED)?;
        if let (Some(scratch), true) = (&kept.scratch, target.is_file()) {
            unfinished::note(scratch.path(), name)?;
        }
        Ok(Kept {
            packed: Some(target),
            name: name.to_path_buf(),
            replaced: is_dir.then(|| Replaced::of(name)).transpose()?,
            ..kept
        })
    }

    /// In a temporary directory, as long as this lives.
    pub fn nowhere(thing: &str) -> Result<Kept> {
        let scratch = surroundings::scratch(thing)?;
        Ok(Kept {
            dir: scratch.path().join(unfinished::LIVE),
            name: PathBuf::new(),
            packed: None,
            scratch: Some(scratch),
            replaced: None,
        })
    }

    /// Where it is recorded.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it is recorded in, when that goes with us.
    pub fn scratch(&self) -> Option<&Path> {
        self.scratch.as_ref().map(Scratch::path)
    }

    /// What the user named.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// What is to hold what is recorded.
    pub fn beside(&self) -> &Path {
        beside(&self.dir)
    }

    /// Whether it becomes one file where it is recorded, and is there twice for a while.
    pub fn is_twice(&self) -> bool {
        let device = |path: &Path| fs::metadata(path).ok().map(|m| m.dev());
        let packed = self.packed.as_ref().filter(|target| target.is_file());
        packed.is_some() && device(beside(&self.name)) == device(beside(&self.dir))
    }

    /// Recording has begun: the directory is there, and of our making.
    pub fn begun(&self) {
        if let (None, Some(replaced)) = (&self.packed, &self.replaced) {
            replaced.begun.set(true);
        }
    }

    /// Whether nothing else may be printed on standard output.
    pub fn takes_stdout(&self) -> bool {
        self.packed.as_ref().is_some_and(Target::is_stdout)
    }

    /// When whoever reads standard output has gone, as when a connection of ssh broke, recording stops.
    pub fn stops_with_reader(&self, stop: &Arc<AtomicBool>) -> Result<()> {
        if !self.takes_stdout() {
            return Ok(());
        }
        let stop = stop.clone();
        let watch = move || {
            while !stop.load(Ordering::Relaxed) {
                if has_no_reader() {
                    stop.store(true, Ordering::Relaxed)
                } else {
                    thread::sleep(LOOK_EVERY)
                }
            }
        };
        let thread = thread::Builder::new().name("reader".into());
        thread.spawn(watch).context("starting a thread")?;
        Ok(())
    }

    /// From now on a signal ends the process: nothing of this is left to be ended orderly.
    pub fn ends_with_signals(&self) -> Result<()> {
        signals::end_the_process(self.scratch.as_ref().map(Scratch::path))
    }

    /// Puts what was recorded where it goes. It is whole then, and what had its name before goes.
    pub fn end(&mut self) -> Result<()> {
        if let Some(target) = &self.packed {
            if !target.is_file() {
                // Whoever reads a pipe may stall for ever. Without it, it is written all the same.
                let _ = self.ends_with_signals();
            }
            self.pack(target)?;
        }
        if let Some(replaced) = self.replaced.take() {
            replaced.end();
        }
        Ok(())
    }

    fn pack(&self, target: &Target) -> Result<()> {
        let written = target.write_private(|out| Ok(pack(&self.dir, out)?));
        match written {
            Ok(_) => Ok(()),
            Err(_) if self.takes_stdout() && has_no_reader() => Err(anyhow!(
                "standard output: the reader has gone; the recording is not kept"
            )),
            Err(e) => Err(match self.save() {
                Ok(at) => e.context(format!("the recording is left in {}", at.display())),
                Err(_) => e,
            }),
        }
    }

    /// Takes it out of the directory that goes with us.
    fn save(&self) -> io::Result<PathBuf> {
        let at = env::temp_dir().join(default_name(false));
        rename(&self.dir, &at)?;
        Ok(at)
    }
}

/// Whether standard output is a pipe that nobody reads, or a socket whose other end is closed.
fn has_no_reader() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().intersects(gone)
}

fn may_be_replaced(name: &Path, force: bool) -> Result<()> {
    let shown = name.display();
    if !force {
        bail!("{shown}: exists already; --force replaces it, or choose another name with -o");
    }
    if !is_recording(name) {
        bail!("{shown}: is not a tcpwhy recording, and --force replaces nothing else");
    }
    Ok(())
}

/// What was there before: out of the way while the new one is made. It goes when there is a whole new one, else
/// it comes back.
struct Replaced {
    at: PathBuf,
    aside: PathBuf,
    /// What it is in, as long as it may come back.
    scratch: Option<Scratch>,
    /// What is at the place now is of our making.
    begun: Cell<bool>,
}

impl Replaced {
    fn of(at: &Path) -> Result<Replaced> {
        let moved = Scratch::make(beside(at), ASIDE).and_then(|scratch| {
            let aside = scratch.path().join(name_aside(at));
            rename(at, &aside)?;
            Ok(Replaced {
                at: at.to_path_buf(),
                aside,
                scratch: Some(scratch),
                begun: Cell::new(false),
            })
        });
        moved.with_context(|| format!("{}: moving it out of the way", at.display()))
    }

    /// There is a whole new one: the older goes.
    fn end(mut self) {
        drop(self.scratch.take());
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let Some(scratch) = self.scratch.take() else {
            return;
        };
        if self.begun.get() {
            // A thread that has not ended yet may make something in it meanwhile.
            let remove = || fs::remove_dir_all(&self.at);
            let _ = remove().or_else(|_| remove());
        }
        let is_free = fs::symlink_metadata(&self.at).is_err();
        if !is_free || rename(&self.aside, &self.at).is_err() {
            // Better left where it is than removed; and what others made at its place is theirs.
            std::mem::forget(scratch);
            cli::error(&left_in(&self.at, &self.aside));
        }
    }
}

/// Puts back what a killed run moved out of the way of `name`; where something has that name, says where it lies.
pub fn settle(name: &Path) {
    for dir in left(beside(name), ASIDE) {
        let aside = dir.join(name_aside(name));
        if fs::symlink_metadata(&aside).is_err() {
            continue;
        }
        let is_free = fs::symlink_metadata(name).is_err();
        if is_free && rename(&aside, name).is_ok() {
            // Nothing else is in it; else it stays.
            let _ = fs::remove_dir(&dir);
            cli::say(&format!(
                "tcpwhy: {}: is back; a killed run had moved it out of the way",
                name.display()
            ));
        } else {
            cli::say(&left_in(name, &aside));
        }
    }
}

fn left_in(name: &Path, aside: &Path) -> String {
    format!(
        "tcpwhy: {}: the recording that was to be replaced is left in {}; move it back, or remove it",
        name.display(),
        aside.display()
    )
}

/// The directory that holds what has this name.
fn beside(name: &Path) -> &Path {
    match name.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

/// What it is called while it is out of the way.
fn name_aside(at: &Path) -> &OsStr {
    at.file_name().unwrap_or(OsStr::new("older"))
}

/// A name for who gives none.
pub fn default_name(redacted: bool) -> PathBuf {
    let host = if redacted {
        "redacted".into()
    } else {
        plain(&rustix::system::uname().nodename().to_string_lossy())
    };
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    format!("{host}-{now}.tcpwhy").into()
}

/// A host's name as a part of a file's: whoever set it may have put anything into it.
fn plain(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain = host.trim_start_matches(['.', '-']).chars();
    let plain: String = plain.map(|c| if is_plain(c) { c } else { '-' }).collect();
    if plain.is_empty() {
        "host".into()
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{FORMAT, Manifest, Recording, Writer};

    fn make(dir: &Path, label: &str) {
        let manifest = Manifest {
            format: FORMAT,
            labels: vec![label.into()],
            ..Manifest::default()
        };
        drop(Writer::create(dir, &manifest).unwrap());
    }

    fn label(path: &Path) -> String {
        let recording = if path.is_dir() {
            Recording::open(path).unwrap()
        } else {
            let scratch = Scratch::make(path.parent().unwrap(), "test").unwrap();
            Recording::unpack(fs::File::open(path).unwrap(), path, scratch).unwrap()
        };
        recording.manifest.labels.join(" ")
    }

    #[test]
    fn any_host_gives_a_file_name() {
        assert_eq!(plain("db-1.example"), "db-1.example");
        assert_eq!(plain("../etc\x1b[2J$(x)"), "-etc--2J--x-");
        assert_eq!(plain("-rf"), "rf");
        assert_eq!(plain(".."), "host");
    }

    #[test]
    fn a_recording_is_replaced_by_a_whole_one_only() {
        let place = tempfile::tempdir().unwrap();
        for name in ["r.tcpwhy", "r.tcpw"] {
            let at = place.path().join(name);
            let record = |label: &str, force| -> Result<()> {
                let mut kept = Kept::at(&at, force)?;
                make(kept.dir(), label);
                kept.begun();
                kept.end()
            };
            record("first", false).unwrap();
            let refused = record("second", false).unwrap_err().to_string();
            assert!(refused.contains("exists already; --force"), "{refused}");
            // Nothing was recorded: the older one is there again.
            drop(Kept::at(&at, true).unwrap());
            assert_eq!(label(&at), "first", "{name}");
            // What was recorded is not whole: the same.
            let failed = Kept::at(&at, true).unwrap();
            make(failed.dir(), "half");
            failed.begun();
            drop(failed);
            assert_eq!(label(&at), "first", "{name}");
            record("second", true).unwrap();
            assert_eq!(label(&at), "second", "{name}");
        }
        // One kind by the other.
        let (dir, file) = (place.path().join("r.tcpwhy"), place.path().join("r.tcpw"));
        fs::remove_file(&file).unwrap();
        rename(&dir, &file).unwrap();
        let mut kept = Kept::at(&file, true).unwrap();
        make(kept.dir(), "third");
        kept.end().unwrap();
        drop(kept);
        assert!(file.is_file());
        assert_eq!(label(&file), "third");
        assert_eq!(
            fs::read_dir(place.path()).unwrap().count(),
            1,
            "nothing beside it"
        );
    }

    #[test]
    fn what_others_made_meanwhile_stays_and_so_does_the_older() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("r.tcpwhy");
        make(&at, "first");
        let kept = Kept::at(&at, true).unwrap();
        // Of another run, so that ours does not begin.
        make(&at, "another");
        drop(kept);
        assert_eq!(label(&at), "another");
        let aside = left(place.path(), ASIDE);
        assert!(aside.is_empty(), "this process lives: {aside:?}");
        let dirs = fs::read_dir(place.path()).unwrap().map(|e| e.unwrap());
        let mut older = dirs.map(|e| e.path().join("r.tcpwhy"));
        let older = older.find(|older| older.exists()).unwrap();
        assert_eq!(label(&older), "first");
    }

    #[test]
    fn what_a_killed_run_moved_away_comes_back() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("r.tcpwhy");
        // One more than the largest pid that Linux gives.
        let dir = place.path().join("tcpwhy-4194304-1-1-replaced-x");
        fs::create_dir(&dir).unwrap();
        make(&dir.join("r.tcpwhy"), "first");
        settle(&place.path().join("other.tcpwhy"));
        assert!(!at.exists());
        settle(&at);
        assert_eq!(label(&at), "first");
        assert!(!dir.exists());
        // Something has the name: both stay.
        fs::create_dir(&dir).unwrap();
        make(&dir.join("r.tcpwhy"), "second");
        settle(&at);
        assert_eq!(label(&at), "first");
        assert_eq!(label(&dir.join("r.tcpwhy")), "second");
    }

    #[test]
    fn what_is_no_recording_is_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (file, dir, link) = (
            place.path().join("notes.tcpw"),
            place.path().join("home"),
            place.path().join("link.tcpwhy"),
        );
        fs::write(&file, "precious").unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("precious"), "x").unwrap();
        make(&place.path().join("r.tcpwhy"), "first");
        std::os::unix::fs::symlink("r.tcpwhy", &link).unwrap();
        for at in [&file, &dir, &link] {
            let refused = Kept::at(at, true).err().unwrap().to_string();
            assert!(refused.contains("is not a tcpwhy recording"), "{refused}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        assert!(dir.join("precious").exists() && link.is_symlink());
    }
}
