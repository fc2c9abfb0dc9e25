//! Who writes a store: where the next recording goes, and what goes so that it stays within its bounds.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::bounds::Bounds;
use crate::error::Error;
use crate::layout::{LOCK, Stretch, findings, is_store, stretches};
use crate::merge::{is_read, settle, unmerged};
use crate::notes::{Gap, Notes};

/// When a recording begins, no more than so many go for their age: a clock that jumps ahead takes no week with it.
const AGED: usize = 2;
/// What is made in it is its group's to read, and nobody else's.
const SHARED: u32 = 0o2750;
/// What `st_blocks` counts in, bytes.
const BLOCK: u64 = 512;

/// A store that is written.
#[derive(Debug)]
pub struct Keeper {
    dir: PathBuf,
    bounds: Bounds,
    notes: Notes,
    /// Of the recording that began last.
    serial: u64,
    /// Bytes on disk of recordings that have ended.
    sizes: HashMap<PathBuf, u64>,
    /// What the store had when the disk began to have little left: it does not grow until there is more.
    short_at: Option<u64>,
    /// Held as long as it is written.
    _lock: File,
}

/// Why a recording goes.
#[derive(Clone, Copy)]
enum For {
    Age,
    Size,
    Room,
}

impl Keeper {
    /// Opens a store for writing, or makes one where there is nothing. What a killed process left is put in order.
    ///
    /// # Errors
    ///
    /// Another process writes it, there is something else, or the directory cannot be written.
    pub fn open(dir: &Path, bounds: Bounds) -> Result<Keeper, Error> {
        let failed = Error::io(dir);
        // A service finds its directory made.
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(e)),
        }
        let is_empty =
            || fs::read_dir(dir).map(|mut all| all.all(|e| e.is_ok_and(|e| e.file_name() == LOCK)));
        if !is_store(dir) && !is_empty().map_err(&failed)? {
            return Err(Error::Foreign(dir.to_path_buf()));
        }
        let path = dir.join(LOCK);
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = lock.open(&path).map_err(Error::io(&path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::Locked(dir.to_path_buf()))?;
        settle(dir)?;
        let mut keeper = Keeper {
            dir: dir.to_path_buf(),
            bounds,
            notes: Notes::read(dir),
            serial: stretches(dir)?.last().map_or(0, |s| s.serial),
            sizes: HashMap::new(),
            short_at: None,
            _lock: lock,
        };
        keeper.notes.write(dir)?;
        Ok(keeper)
    }

    /// Lets a group read all that is recorded from now on, and gives its user, who has no rights, a directory in it to write.
    ///
    /// # Errors
    ///
    /// The file system refuses.
    pub fn share(&self, uid: u32, gid: u32) -> Result<(), Error> {
        let failed = Error::io(&self.dir);
        chown(&self.dir, None, Some(gid)).map_err(&failed)?;
        // Last: without rights a change of the group takes its bit away.
        fs::set_permissions(&self.dir, Permissions::from_mode(SHARED)).map_err(&failed)?;
        let own = findings(&self.dir);
        match DirBuilder::new().mode(0o750).create(&own) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(Error::io(&own)(e)),
            _ => {}
        }
        lchown(&own, Some(uid), Some(gid)).map_err(Error::io(&own))
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The recordings that were not [merged](crate::merge) before the recorder ended or was killed: merged they take less room.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn unmerged(&self) -> Result<Vec<PathBuf>, Error> {
        Ok(unmerged(&self.dir)?.into_iter().map(|s| s.path).collect())
    }

    /// Where the recording goes that begins now, ns since 1970.
    pub fn begin(&mut self, now_ns: i64) -> PathBuf {
        self.serial += 1;
        Stretch::new(&self.dir, self.serial, now_ns / 1_000_000_000).path
    }

    /// A recording has another size now: it has ended, or was merged.
    pub fn changed(&mut self, path: &Path) {
        self.sizes.remove(path);
    }

    /// Nothing was recorded for a while.
    ///
    /// # Errors
    ///
    /// It cannot be written down.
    pub fn gap(&mut self, gap: Gap) -> Result<(), Error> {
        self.notes.gaps.push(gap);
        self.notes.write(&self.dir)
    }

    /// Removes what is older than may be, at this moment, ns since 1970. Call it when a recording begins.
    ///
    /// # Errors
    ///
    /// A recording that cannot be removed.
    pub fn keep_young(&mut self, now_ns: i64) -> Result<(), Error> {
        let keep = i64::try_from(self.bounds.keep.as_secs()).unwrap_or(i64::MAX);
        let before_s = (now_ns / 1_000_000_000).saturating_sub(keep);
        let old: Vec<Stretch> = stretches(&self.dir)?;
        // It ended when the next one began.
        let ended = old.windows(2).filter(|two| two[1].start_s < before_s);
        for two in ended.take(AGED) {
            self.remove(&two[0].path, For::Age)?;
        }
        Ok(())
    }

    /// Removes the oldest of what is more than may be, but never the recording `current`, which has so many bytes. Where the
    /// disk is short of room the store does not grow, and it does not shrink either: whoever fills a disk takes no evidence
    /// away with it.
    ///
    /// # Errors
    ///
    /// A recording that cannot be removed.
    pub fn keep_small(&mut self, current: Option<(&Path, u64)>, short: bool) -> Result<(), Error> {
        let (path, open) = current.unzip();
        let mut ended = stretches(&self.dir)?;
        ended.retain(|s| Some(s.path.as_path()) != path);
        let mut all = open.unwrap_or(0);
        for stretch in &ended {
            all += self.size(&stretch.path);
        }
        self.short_at = short.then(|| self.short_at.unwrap_or(all));
        let most = self.bounds.most.min(self.short_at.unwrap_or(u64::MAX));
        let why = if most < self.bounds.most {
            For::Room
        } else {
            For::Size
        };
        for stretch in &ended {
            if all <= most {
                break;
            }
            // Whoever reads it has the time to, but keeps nothing for good.
            if is_read(&stretch.path) && all <= most + most / Bounds::PARTS {
                continue;
            }
            all = all.saturating_sub(self.size(&stretch.path));
            self.remove(&stretch.path, why)?;
        }
        Ok(())
    }

    fn size(&mut self, path: &Path) -> u64 {
        let known = self.sizes.get(path).copied();
        known.unwrap_or_else(|| {
            let size = on_disk(path);
            self.sizes.insert(path.to_path_buf(), size);
            size
        })
    }

    fn remove(&mut self, path: &Path, why: For) -> Result<(), Error> {
        let size = self.size(path);
        fs::remove_dir_all(path).map_err(Error::io(path))?;
        self.sizes.remove(path);
        let removed = match why {
            For::Age => &mut self.notes.removed_for_age,
            For::Size => &mut self.notes.removed_for_size,
            For::Room => &mut self.notes.removed_for_room,
        };
        *removed += size;
        // On a full disk it cannot be written down now: the next time it can.
        let _ = self.notes.write(&self.dir);
        Ok(())
    }

    /// What the store remembers of itself.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Whether a recording that lasts so long, and has so many bytes, is to be followed by the next.
    pub fn is_full(&self, lasts: Duration, bytes: u64) -> bool {
        self.bounds.is_full(lasts, bytes)
    }
}

/// What a directory takes on disk, bytes.
pub(crate) fn on_disk(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => on_disk(&entry.path()),
        Ok(meta) => meta.blocks() * BLOCK,
        Err(_) => 0,
    });
    sizes.sum()
}
