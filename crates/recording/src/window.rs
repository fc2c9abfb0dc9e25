//! The last seconds of a recording that is being followed: what is older is removed from the disk,
//! and what is in them can be read as a recording of its own.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{file_name, make_dir, make_file};
use crate::span::ONCE;
use crate::{Error, Manifest, Recording, Segment};

/// What such tables may take on disk, bytes; a host that runs for weeks makes new sockets all the
/// time.
const MOST_KEPT: u64 = 64 << 20;
/// The first sample of counters says what each was, and no rise.
const BASELINE: &str = "counter";

/// The segments of a followed recording that are still wanted.
pub struct Window {
    dir: PathBuf,
    tables: BTreeMap<&'static str, VecDeque<Sealed>>,
    /// Bytes of the tables that are kept whole.
    kept: u64,
    /// Segments of those tables that had to go.
    dropped: u64,
}

struct Sealed {
    number: u32,
    last_ns: u64,
    bytes: u64,
}

impl Window {
    /// Of the recording in `dir`, whose segments are [`add`](Window::add)ed as they come.
    pub fn of(dir: &Path) -> Window {
        Window {
            dir: dir.to_path_buf(),
            tables: BTreeMap::new(),
            kept: 0,
            dropped: 0,
        }
    }

    /// Notes a segment that the feed gave.
    pub fn add(&mut self, segment: &Segment) {
        let (Some(number), Some(last_ns)) = (segment.number(), segment.last_ns()) else {
            return;
        };
        let table = segment.table();
        let known = self.tables.entry(table).or_default();
        if let Some(last) = known.back_mut().filter(|last| last.number == number) {
            last.last_ns = last.last_ns.max(last_ns);
            return;
        }
        let once = ONCE.contains(&table);
        let size = || fs::metadata(path(&self.dir, table, number)).map_or(0, |m| m.len());
        let bytes = if once { size() } else { 0 };
        self.kept += bytes;
        known.push_back(Sealed {
            number,
            last_ns,
            bytes,
        });
    }

    /// Removes segments that hold nothing since `since_ns`, ns of CLOCK_MONOTONIC; of tables that say
    /// things once, only the oldest of too many.
    ///
    /// # Errors
    ///
    /// A file that cannot be removed.
    pub fn forget(&mut self, since_ns: u64) -> Result<(), Error> {
        for (table, segments) in &mut self.tables {
            if ONCE.contains(table) {
                while self.kept > MOST_KEPT
                    && let Some(oldest) = segments.pop_front()
                {
                    remove(&path(&self.dir, table, oldest.number))?;
                    self.kept -= oldest.bytes;
                    self.dropped += 1;
                }
                continue;
            }
            let first_kept = usize::from(*table == BASELINE);
            while let Some(oldest) = segments.get(first_kept)
                && oldest.last_ns < since_ns
            {
                remove(&path(&self.dir, table, oldest.number))?;
                segments.remove(first_kept);
            }
        }
        Ok(())
    }

    /// Segments of tables that say things once which had to go, as there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Makes `to`, a recording of what happened since `since_ns`, beside this one on the same file
    /// system: its segments are links, so it costs nothing and stays when this one forgets them.
    ///
    /// # Errors
    ///
    /// A file that cannot be linked or written.
    pub fn link(&self, since_ns: u64, manifest: &Manifest, to: &Path) -> Result<Recording, Error> {
        make_dir(to).map_err(Error::io(to))?;
        self.put(since_ns, manifest, to, |from, to| fs::hard_link(from, to))
    }

    /// The same anywhere, as copies that are this user's alone.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written, or something that has this name already: that stays as it is.
    pub fn write(&self, since_ns: u64, manifest: &Manifest, to: &Path) -> Result<Recording, Error> {
        make_dir(to).map_err(Error::io(to))?;
        let copy = |from: &Path, to: &Path| {
            let mut copied = make_file(to)?;
            io::copy(&mut File::open(from)?, &mut copied).map(drop)
        };
        let written = self.put(since_ns, manifest, to, copy);
        if written.is_err() {
            // Half a recording is none; what cannot be removed either is on a disk that is in trouble.
            let _ = fs::remove_dir_all(to);
        }
        written
    }

    /// Fills a directory with the segments that are not older, each put there by `place`.
    fn put(
        &self,
        since_ns: u64,
        manifest: &Manifest,
        to: &Path,
        place: impl Fn(&Path, &Path) -> io::Result<()>,
    ) -> Result<Recording, Error> {
        for (table, segments) in &self.tables {
            let dir = to.join(table);
            make_dir(&dir).map_err(Error::io(&dir))?;
            for (i, segment) in segments.iter().enumerate() {
                let always = ONCE.contains(table) || *table == BASELINE && i == 0;
                if always || segment.last_ns >= since_ns {
                    let link = path(to, table, segment.number);
                    place(&path(&self.dir, table, segment.number), &link)
                        .map_err(Error::io(&link))?;
                }
            }
        }
        let manifest = Manifest {
            start_ns: manifest.start_ns.max(since_ns),
            complete: true,
            ..manifest.clone()
        };
        manifest.write(to)?;
        Ok(Recording::new(to, manifest))
    }
}

fn path(dir: &Path, table: &str, number: u32) -> PathBuf {
    dir.join(table).join(file_name(number))
}

fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Counter, Event, Holder};
    use crate::{Feed, Next, Table, TableWriter, Writer};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::time::Duration;

    const S: u64 = 1_000_000_000;

    fn rows<T: Table>(recording: &Recording) -> Vec<u64> {
        let batches = recording.scan::<T>().unwrap().map(Result::unwrap);
        let times = batches.flat_map(|b| b.rows().map(|(_, r)| r.time_ns()).collect::<Vec<_>>());
        times.collect()
    }

    fn push<T: Table>(table: &mut TableWriter<T>, row: T) {
        table.push(row).unwrap();
        table.seal().unwrap();
    }

    fn drain(feed: &Feed, window: &mut Window) -> usize {
        let mut n = 0;
        while let Next::Segment(segment) = feed.next(Duration::ZERO) {
            window.add(&segment);
            n += 1;
        }
        n
    }

    /// Ten seconds of events, counters and holders, a segment each second.
    fn ten_seconds(dir: &Path) -> (Window, Manifest) {
        let manifest = Manifest {
            format: crate::FORMAT,
            ..Manifest::default()
        };
        let (writer, feed) = Writer::followed(dir, &manifest).unwrap();
        let mut window = Window::of(dir);
        let mut events = writer.table::<Event>().unwrap();
        let mut counters = writer.table::<Counter>().unwrap();
        let mut holders = writer.table::<Holder>().unwrap();
        for i in 1..=10 {
            let time_ns = i * S;
            push(
                &mut events,
                Event {
                    time_ns,
                    ..Event::default()
                },
            );
            push(
                &mut counters,
                Counter {
                    time_ns,
                    ..Counter::default()
                },
            );
            push(
                &mut holders,
                Holder {
                    time_ns,
                    ..Holder::default()
                },
            );
        }
        assert_eq!(drain(&feed, &mut window), 30);
        (window, manifest)
    }

    #[test]
    fn a_window_holds_its_time_and_what_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut window, manifest) = ten_seconds(&dir.path().join("whole"));
        let linked = window
            .link(8 * S, &manifest, &dir.path().join("window"))
            .unwrap();
        window.forget(9 * S).unwrap();
        let copied = dir.path().join("copied");
        let written = window.write(9 * S, &manifest, &copied).unwrap();
        assert_eq!(rows::<Event>(&written), [9 * S, 10 * S]);
        for (path, mode) in [(copied.clone(), 0o700), (path(&copied, "event", 9), 0o600)] {
            let meta = fs::metadata(&path).unwrap();
            assert_eq!(meta.permissions().mode() & 0o7777, mode, "{path:?}");
            assert!(meta.is_dir() || meta.nlink() == 1, "a copy, no link");
        }
        // What has the name stays as it is.
        assert!(window.write(0, &manifest, &copied).is_err());
        assert_eq!(rows::<Event>(&written), [9 * S, 10 * S]);
        // What the whole one has forgotten is still there.
        assert_eq!(rows::<Event>(&linked), [8 * S, 9 * S, 10 * S]);
        assert_eq!(rows::<Counter>(&linked), [S, 8 * S, 9 * S, 10 * S]);
        assert_eq!(rows::<Holder>(&linked).len(), 10);
        assert_eq!(linked.manifest.start_ns, 8 * S);
        let whole = Recording::open(&dir.path().join("whole")).unwrap();
        assert_eq!(rows::<Event>(&whole), [9 * S, 10 * S]);
        assert_eq!(rows::<Counter>(&whole), [S, 9 * S, 10 * S]);
        assert_eq!(window.dropped(), 0);
    }

    #[test]
    fn a_window_of_nothing_is_a_recording() {
        let dir = tempfile::tempdir().unwrap();
        let (window, manifest) = ten_seconds(&dir.path().join("whole"));
        let linked = window.link(99 * S, &manifest, &dir.path().join("window"));
        assert_eq!(rows::<Event>(&linked.unwrap()), [0; 0]);
    }
}
