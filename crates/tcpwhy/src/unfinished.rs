//! Recordings that a killed run was to put into one file: told, and packed by who asks for it.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cli::Target;
use recording::{Recording, UNPACKED, left, pack};

/// A recording in a temporary directory is called so.
pub const LIVE: &str = "live.tcpwhy";
/// Beside the recording: the file that it is to be.
const MEANT_FOR: &str = "meant-for";
/// No path is longer.
const MOST: u64 = 4_096;

/// What a killed run left.
struct Unfinished {
    /// What holds it.
    scratch: PathBuf,
    /// What it was to be called; `None` where that cannot be read.
    name: Option<PathBuf>,
}

/// Notes in `scratch` which file its recording is to be.
pub fn note(scratch: &Path, name: &Path) -> Result<()> {
    let name = std::path::absolute(name).unwrap_or_else(|_| name.to_path_buf());
    let at = scratch.join(MEANT_FOR);
    fs::write(&at, name.as_os_str().as_bytes()).with_context(|| format!("writing {}", at.display()))
}

/// Says of each what it is, and how it is kept.
pub fn tell() {
    for unfinished in find() {
        let what = match unfinished.open() {
            Ok(recording) => format!("{:.1} s", recording.manifest.length().as_secs_f64()),
            Err(_) => "what cannot be read".into(),
        };
        cli::say(&format!(
            "tcpwhy: a killed run left {what}{} in {}; `tcpwhy record --recover` makes a file of it, or remove it",
            unfinished.meant_for(),
            unfinished.scratch.display()
        ));
    }
}

/// Makes a file of each, of the only one under another `name`. What is not asked for is left.
pub fn recover(name: Option<&Path>) -> Result<()> {
    let all = find();
    if all.is_empty() {
        bail!(
            "--recover: no killed run left a recording in {}; TMPDIR names another place",
            env::temp_dir().display()
        );
    }
    if name.is_some() && all.len() > 1 {
        bail!(
            "-o: {} recordings were left; without -o each gets the name that it was to have",
            all.len()
        );
    }
    let mut failed = Ok(());
    for unfinished in all {
        match unfinished.recover(name) {
            Ok(says) => cli::say(&says),
            Err(e) => {
                if let Err(before) = std::mem::replace(&mut failed, Err(e)) {
                    cli::error(&format!("tcpwhy: {before:#}"));
                }
            }
        }
    }
    failed
}

fn find() -> Vec<Unfinished> {
    let left = left(&env::temp_dir(), UNPACKED).into_iter();
    let all = left.map(|scratch| Unfinished {
        name: meant_for(&scratch),
        scratch,
    });
    // Of one that was killed before it began nothing is left.
    let (begun, empty): (Vec<_>, Vec<_>) = all.partition(|u| u.scratch.join(LIVE).exists());
    for nothing in empty {
        let _ = fs::remove_dir_all(nothing.scratch);
    }
    begun
}

fn meant_for(scratch: &Path) -> Option<PathBuf> {
    let mut name = Vec::new();
    let file = File::open(scratch.join(MEANT_FOR)).ok()?;
    file.take(MOST).read_to_end(&mut name).ok()?;
    (!name.is_empty()).then(|| OsString::from_vec(name).into())
}

impl Unfinished {
    fn open(&self) -> Result<Recording, recording::Error> {
        Recording::open(&self.scratch.join(LIVE))
    }

    fn meant_for(&self) -> String {
        let name = self.name.as_ref();
        name.map_or(String::new(), |name| format!(" for {}", name.display()))
    }

    fn recover(&self, name: Option<&Path>) -> Result<String> {
        let from = self.scratch.display();
        let Some(name) = name.or(self.name.as_deref()) else {
            bail!("--recover: what was left in {from} has no name; give one with -o NAME.tcpw");
        };
        let recording = self.open()?;
        if fs::symlink_metadata(name).is_ok() {
            bail!(
                "{}: is there already; -o names another file for what was left in {from}",
                name.display()
            );
        }
        let target = Target::of_any(name);
        target.write_private(|out| Ok(pack(recording.dir(), out)?))?;
        let seconds = recording.manifest.length().as_secs_f64();
        // It is in the file now.
        fs::remove_dir_all(&self.scratch).with_context(|| format!("removing {from}"))?;
        Ok(format!(
            "recovered {seconds:.1} s into {0}; `tcpwhy explain {0}` says what it shows",
            name.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_remembered_whatever_bytes_it_has() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(meant_for(scratch.path()), None);
        let name = Path::new("/tmp/x \u{1b}.tcpw");
        note(scratch.path(), name).unwrap();
        assert_eq!(meant_for(scratch.path()).as_deref(), Some(name));
    }
}
