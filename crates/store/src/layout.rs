//! Names within a store: which of its directories are recordings, in which order, and when each began.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::Error;

/// Makes a directory a store, and holds its notes.
pub(crate) const NOTES: &str = "store.json";
/// Held by who writes.
pub(crate) const LOCK: &str = "lock";
/// A copy that is being made, and what a whole copy replaces.
pub(crate) const MERGING: &str = "merging";
pub(crate) const MERGED: &str = "merged";

/// A file in a recording that was merged.
pub(crate) const IS_MERGED: &str = "merged";

const TIME: &str = "%Y%m%dT%H%M%SZ";

/// A recording of a store, by its name: `000042-20261201T030700Z.tcpwhy`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stretch {
    /// They are counted: the clock may be set back.
    pub(crate) serial: u64,
    /// When it began, s since 1970.
    pub(crate) start_s: i64,
    pub(crate) path: PathBuf,
}

/// Where who explains a store keeps what is his own: findings, and what is pinned around them.
pub fn findings(store: &Path) -> PathBuf {
    store.join("findings")
}

/// Where what was recorded around findings is kept.
pub(crate) fn pins(store: &Path) -> PathBuf {
    findings(store).join("pins")
}

/// Whether there is a store.
pub fn is_store(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(NOTES)).is_ok_and(|m| m.is_file())
}

impl Stretch {
    /// The one of this number, which begins now, s since 1970.
    pub(crate) fn new(dir: &Path, serial: u64, start_s: i64) -> Stretch {
        let time = Timestamp::from_second(start_s).unwrap_or_default();
        let name = format!("{serial:06}-{}.tcpwhy", time.strftime(TIME));
        Stretch {
            serial,
            start_s,
            path: dir.join(name),
        }
    }

    fn of(dir: &Path, name: &str) -> Option<Stretch> {
        let (serial, time) = name.strip_suffix(".tcpwhy")?.split_once('-')?;
        let time = jiff::civil::DateTime::strptime(TIME, time).ok()?;
        let start = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        let stretch = Stretch::new(dir, serial.parse().ok()?, start.as_second());
        // Only what we would call it: no other name of the same number.
        (stretch.path.file_name()?.to_str()? == name).then_some(stretch)
    }
}

/// All recordings of a store, the oldest first. What else is in the directory is passed over.
pub(crate) fn stretches(dir: &Path) -> Result<Vec<Stretch>, Error> {
    let failed = Error::io(dir);
    let entries = fs::read_dir(dir).map_err(|why| match why.kind() {
        ErrorKind::NotFound => Error::Missing(dir.to_path_buf()),
        _ => failed(why),
    })?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(&failed)?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if let Some(name) = entry.file_name().to_str().filter(|_| is_dir) {
            found.extend(Stretch::of(dir, name));
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (b, a) = (
            Stretch::new(dir, 7, 1_796_000_000),
            Stretch::new(dir, 1_000_000, 0),
        );
        assert_eq!(b.path, dir.join("000007-20261130T005320Z.tcpwhy"));
        assert_eq!(a.path, dir.join("1000000-19700101T000000Z.tcpwhy"));
        for stretch in [&a, &b] {
            fs::create_dir(&stretch.path).unwrap();
        }
        for other in [
            "7-20261129T185320Z.tcpwhy",
            "000008-20261329T185320Z.tcpwhy",
            "000009.tcpwhy",
            "000010-20261129T185320Z.merging",
            "x",
        ] {
            fs::create_dir(dir.join(other)).unwrap();
        }
        fs::write(dir.join("000011-20261129T185320Z.tcpwhy"), "a file").unwrap();
        let link = dir.join("000012-20261129T185320Z.tcpwhy");
        std::os::unix::fs::symlink("/etc", link).unwrap();
        assert_eq!(stretches(dir).unwrap(), [b, a]);
        let none = dir.join("none");
        assert!(matches!(stretches(&none), Err(Error::Missing(_))));
    }
}
