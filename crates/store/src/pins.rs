//! Copies of what was recorded around findings: they stay when the recordings that they are of have gone.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use recording::Writer;

use crate::error::Error;
use crate::keeper::on_disk;
use crate::layout::{MERGING, Stretch, pins, stretches};
use crate::window::Store;

const S: i64 = 1_000_000_000;
/// So much before and after is kept, ns.
const AROUND_NS: i64 = 30 * S;
/// No copy holds more, ns: what lasts for hours shows in minutes.
const MOST_NS: i64 = 300 * S;

/// Copies around findings, within a quota of their own.
#[derive(Debug)]
pub struct Pins {
    store: PathBuf,
    most: u64,
    serial: u64,
    /// Times that are to be copied, ns since 1970: those that meet are one, as long as that is not too long.
    wanted: Vec<(i64, i64)>,
    /// Bytes of copies that went, as there were more than may be.
    pub removed: u64,
}

impl Pins {
    /// Those beside the findings of a store, of at most so many bytes. What a killed process left unfinished goes.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or read.
    pub fn open(store: &Path, most: u64) -> Result<Pins, Error> {
        let dir = pins(store);
        match DirBuilder::new().mode(0o750).create(&dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(Error::io(&dir)(e)),
            _ => {}
        }
        for entry in fs::read_dir(&dir).map_err(Error::io(&dir))?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == MERGING) {
                fs::remove_dir_all(&path).map_err(Error::io(&path))?;
            }
        }
        Ok(Pins {
            serial: stretches(&dir)?.last().map_or(0, |s| s.serial),
            store: store.to_path_buf(),
            most,
            wanted: Vec::new(),
            removed: 0,
        })
    }

    /// What was recorded from one moment to another (ns since 1970), and around it, is to be kept.
    pub fn want(&mut self, from_ns: i64, to_ns: i64) {
        let from = from_ns.saturating_sub(AROUND_NS);
        let to = to_ns
            .saturating_add(AROUND_NS)
            .min(from.saturating_add(MOST_NS));
        let (mut from, mut to) = (from, to);
        self.wanted.retain(|(a, b)| {
            let both = to.max(*b).saturating_sub(from.min(*a));
            let meets = *a <= to && *b >= from && both <= MOST_NS;
            if meets {
                (from, to) = (from.min(*a), to.max(*b));
            }
            !meets
        });
        self.wanted.push((from, to));
    }

    /// Copies what is wanted and over now, ns since 1970: one time at each call.
    ///
    /// # Errors
    ///
    /// Nothing was recorded then, or it cannot be copied. It is not tried again.
    pub fn copy(&mut self, now_ns: i64) -> Result<(), Error> {
        let over = self.wanted.iter().position(|(_, to)| *to < now_ns);
        let Some(at) = over else {
            return Ok(());
        };
        let (from, to) = self.wanted.swap_remove(at);
        let recording = Store::open(&self.store)?.window(from, to)?.recording;
        self.serial += 1;
        let pin = Stretch::new(&pins(&self.store), self.serial, from / S);
        let open = pin.path.with_extension(MERGING);
        let copied = Writer::create(&open, &recording.manifest).and_then(|writer| {
            recording.copy_into(&writer)?;
            writer.manifest(&recording.manifest)
        });
        if let Err(why) = copied {
            let _ = fs::remove_dir_all(&open);
            return Err(why.into());
        }
        fs::rename(&open, &pin.path).map_err(Error::io(&pin.path))?;
        self.keep_small(&pin)
    }

    /// The oldest copies go where all of them are more than may be, and never the one that was made now.
    fn keep_small(&mut self, new: &Stretch) -> Result<(), Error> {
        let all = stretches(&pins(&self.store))?;
        let mut sizes: Vec<(Stretch, u64)> = all
            .into_iter()
            .map(|pin| (pin.clone(), on_disk(&pin.path)))
            .collect();
        sizes.reverse();
        let mut bytes: u64 = sizes.iter().map(|(_, size)| size).sum();
        while bytes > self.most
            && let Some((pin, size)) = sizes.pop()
        {
            if pin == *new {
                break;
            }
            fs::remove_dir_all(&pin.path).map_err(Error::io(&pin.path))?;
            bytes -= size;
            self.removed += size;
        }
        Ok(())
    }
}
