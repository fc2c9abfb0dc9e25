//! A table that is derived from a recording, written into it once the recording has ended.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::table::Table;
use crate::write::{Place, Writer};
use crate::{Error, Manifest};

/// Writes these rows as the table of the recording in `dir`, in place of those that it had.
///
/// # Errors
///
/// There is no recording in `dir`, or it cannot be written.
pub fn replace<T: Table>(dir: &Path, rows: impl IntoIterator<Item = T>) -> Result<(), Error> {
    Manifest::read(dir)?;
    let table = dir.join(T::INFO.name);
    // Made beside it first: who reads meanwhile finds the old table, the new one or none.
    let made = dir.join(format!("{}.new", T::INFO.name));
    remove(&made)?;
    let mut writer = Writer::to(Place::Dir(Arc::new(dir.to_path_buf()))).table_in::<T>(&made)?;
    rows.into_iter().try_for_each(|row| writer.push(row))?;
    writer.seal()?;
    remove(&table)?;
    fs::rename(&made, &table).map_err(Error::io(&table))
}

/// Removes a directory; of a link in its place the link alone, wherever it leads.
fn remove(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(dir)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;
    use crate::tables::Episode;

    fn rows(dir: &Path) -> Vec<u32> {
        let recording = Recording::open(dir).unwrap();
        let batches = recording.scan::<Episode>().unwrap().map(Result::unwrap);
        let rows = |batch: crate::Batch<Episode>| {
            (0..batch.len()).map(move |row| batch.row(row).1.finding)
        };
        batches.flat_map(rows).collect()
    }

    fn episode(finding: u32) -> Episode {
        Episode {
            finding,
            ..Episode::default()
        }
    }

    #[test]
    fn rows_take_the_place_of_those_before() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("x.tcpwhy");
        let manifest = Manifest {
            format: crate::FORMAT,
            ..Manifest::default()
        };
        Writer::create(&dir, &manifest).unwrap();
        replace(&dir, [episode(1), episode(2)]).unwrap();
        assert_eq!(rows(&dir), [1, 2]);
        replace(&dir, [episode(7)]).unwrap();
        assert_eq!(rows(&dir), [7]);
        replace::<Episode>(&dir, []).unwrap();
        assert!(rows(&dir).is_empty());
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (dir, elsewhere) = (place.path().join("x.tcpwhy"), place.path().join("else"));
        let manifest = Manifest {
            format: crate::FORMAT,
            ..Manifest::default()
        };
        Writer::create(&dir, &manifest).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("kept"), "").unwrap();
        for name in ["episode", "episode.new"] {
            std::os::unix::fs::symlink(&elsewhere, dir.join(name)).unwrap();
            replace(&dir, [episode(1)]).unwrap();
            assert_eq!(rows(&dir), [1]);
            let there = fs::read_dir(&elsewhere).unwrap().map(|e| e.unwrap());
            assert_eq!(there.map(|e| e.file_name()).collect::<Vec<_>>(), ["kept"]);
            fs::remove_dir_all(dir.join("episode")).unwrap();
        }
        // Not into what is no recording.
        assert!(replace(&elsewhere, [episode(1)]).is_err());
    }
}
