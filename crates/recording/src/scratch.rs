//! Directories for what is needed only while a process runs, and what killed processes left of them.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::Owner;

/// The `thing` of a [`Scratch`] that holds what is the user's, out of the way for a while: it is never swept.
pub const ASIDE: &str = "replaced";
/// The `thing` of a [`Scratch`] that holds a recording on its way into one file: it is the user's and never swept.
pub const UNPACKED: &str = "record";

/// A directory of this process that nobody else may look into, removed with its value. Of a process
/// that was killed it stays behind until [`sweep`] finds it.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    /// Held as long as the directory is used: a sign of life that other pid namespaces see, too.
    _lock: File,
}

impl Scratch {
    /// Makes one in `place`, which may be open to everybody; `thing` says in its name what for.
    ///
    /// # Errors
    ///
    /// No directory could be made there.
    pub fn make(place: &Path, thing: &str) -> io::Result<Scratch> {
        // The end of the name is random: nobody can make it before us.
        let dir = tempfile::Builder::new()
            .prefix(&format!("{}-", Owner::new_run().name(thing)))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(place)?;
        let lock = open(dir.path())?;
        // Some network file systems know no locks: there the owner's name must do.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok(Scratch { dir, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes what killed processes left in `place`, and says what it was. Only real directories that
/// are ours are removed, of owners that run no more, here or in another pid namespace. What cannot be
/// removed stays: that is no reason not to do what one came for. So does what is the user's: see [`left`].
pub fn sweep(place: &Path) -> Vec<PathBuf> {
    let of_users = |thing: &str| [ASIDE, UNPACKED].contains(&thing);
    let left = dead(place, move |thing| !of_users(thing));
    left.filter(|dir| fs::remove_dir_all(dir).is_ok()).collect()
}

/// What killed processes left in `place` of this `thing`, which is the user's: [`ASIDE`] or [`UNPACKED`].
pub fn left(place: &Path, thing: &'static str) -> Vec<PathBuf> {
    dead(place, move |is| is == thing).collect()
}

fn dead(place: &Path, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let named = entries.filter(move |entry| {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        wanted(thing(name)) && Owner::of(name).is_some_and(|owner| !owner.lives())
    });
    named.map(|entry| entry.path()).filter(|dir| is_left(dir))
}

/// What it is for: `replaced` of `tcpwhy-PID-STARTED-RUN-replaced-…`.
fn thing(name: &str) -> &str {
    name.split('-').nth(4).unwrap_or_default()
}

/// Whether a directory is our own, and nobody uses it.
fn is_left(dir: &Path) -> bool {
    let Ok(open) = open(dir) else { return false };
    let ours = open
        .metadata()
        .is_ok_and(|m| m.uid() == rustix::process::geteuid().as_raw());
    ours && flock(&open, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

/// Never through a link, which anybody may have made.
fn open(dir: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(dir, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of something whose process has ended.
    fn dead(thing: &str) -> String {
        // One more than the largest pid that Linux gives.
        format!("tcpwhy-4194304-1-1-{thing}")
    }

    #[test]
    fn it_is_ours_alone_and_goes_with_its_value() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(place.path(), "test").unwrap();
        let path = scratch.path().to_path_buf();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        fs::write(path.join("file"), "x").unwrap();
        assert!(sweep(place.path()).is_empty(), "it is in use");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_the_dead_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join(dead("explain"));
        fs::create_dir_all(left.join("live.tcpwhy/event")).unwrap();
        assert_eq!(sweep(place.path()), std::slice::from_ref(&left));
        assert!(!left.exists());
    }

    #[test]
    fn what_is_the_users_is_never_removed() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join(dead("replaced-x1y2z3"));
        fs::create_dir_all(left.join("r.tcpwhy")).unwrap();
        let live = Scratch::make(place.path(), ASIDE).unwrap();
        let unpacked = place.path().join(dead("record-a1b2c3"));
        fs::create_dir(&unpacked).unwrap();
        assert!(sweep(place.path()).is_empty());
        assert_eq!(super::left(place.path(), ASIDE), [left.as_path()]);
        assert_eq!(super::left(place.path(), UNPACKED), [unpacked]);
        assert!(left.join("r.tcpwhy").exists() && live.path().exists());
    }

    #[test]
    fn what_is_held_elsewhere_stays() {
        let place = tempfile::tempdir().unwrap();
        // As another pid namespace sees it: nobody has the pid, but somebody holds the lock.
        let held = place.path().join(dead("explain"));
        fs::create_dir(&held).unwrap();
        let lock = open(&held).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(sweep(place.path()).is_empty());
        drop(lock);
        assert_eq!(sweep(place.path()), [held]);
    }

    #[test]
    fn links_files_and_what_others_named_stay() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("target");
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, place.path().join(dead("link"))).unwrap();
        fs::write(place.path().join(dead("file")), "x").unwrap();
        fs::create_dir(place.path().join("tcpwhy-x-1-1-a")).unwrap();
        assert!(sweep(place.path()).is_empty());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4);
        assert!(sweep(Path::new("/nonexistent")).is_empty());
    }
}
