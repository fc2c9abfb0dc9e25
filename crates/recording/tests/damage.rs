//! Recordings that are missing, foreign, newer, cut or scribbled on: an error that names the file
//! and the reason, never a panic.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use recording::tables::{Counter, Event};
use recording::{
    Error, EventKind, FORMAT, Manifest, Recording, Scratch, Table, TableWriter, Writer, pack,
};

fn make(dir: &Path) -> PathBuf {
    let path = dir.join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        complete: true,
        ..Manifest::default()
    };
    let writer = Writer::create(&path, &manifest).unwrap();
    let mut events = writer.table::<Event>().unwrap();
    for i in 0..2_000 {
        events
            .push(Event {
                time_ns: i,
                kind: EventKind::State,
                reason: (i % 3 == 0).then(|| "NO_SOCKET".into()),
                ..Event::default()
            })
            .unwrap();
    }
    events.seal().unwrap();
    path
}

/// Reads everything; how many rows, or the first error.
fn read(path: &Path) -> Result<usize, Error> {
    let recording = Recording::open(path)?;
    let mut rows = 0;
    for batch in recording.scan::<Event>()? {
        rows += batch?.rows().count();
    }
    Ok(rows)
}

fn segment(path: &Path) -> PathBuf {
    path.join("event/000001.parquet")
}

#[test]
fn missing_and_foreign_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        read(&dir.path().join("none")),
        Err(Error::Missing(_))
    ));

    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    let e = read(&file).unwrap_err().to_string();
    assert!(e.contains("file") && e.contains("directory"), "{e}");

    let e = read(dir.path()).unwrap_err().to_string();
    assert!(e.contains("manifest.json"), "{e}");

    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("manifest.json"), "{\"name\": \"an app\"}").unwrap();
    assert!(matches!(read(&other), Err(Error::Foreign { .. })));
    fs::write(other.join("manifest.json"), "not json\nat all").unwrap();
    let e = read(&other).unwrap_err().to_string();
    assert!(e.contains("manifest.json") && !e.contains('\n'), "{e}");
}

#[test]
fn newer_formats_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = make(dir.path());
    let newer = format!("{{\"format\": {}, \"surprise\": []}}", FORMAT + 1);
    fs::write(path.join("manifest.json"), newer).unwrap();
    let e = read(&path).unwrap_err();
    assert!(matches!(e, Error::Newer { .. }));
    assert!(e.to_string().contains("update tcpwhy"), "{e}");
}

#[test]
fn a_recorder_that_was_killed_loses_only_its_open_segment() {
    let dir = tempfile::tempdir().unwrap();
    let path = make(dir.path());
    incomplete(&path);
    // What a kill leaves: an open segment, half a footer, a manifest of the start.
    fs::write(path.join("event/000002.open"), b"PAR1half").unwrap();
    fs::write(path.join("manifest.json.open"), b"{").unwrap();
    assert_eq!(read(&path).unwrap(), 2_000);
    assert!(!Recording::open(&path).unwrap().manifest.complete);
}

/// As before its recorder ended it.
fn incomplete(path: &Path) {
    let manifest = Manifest {
        complete: false,
        ..Manifest::read(path).unwrap()
    };
    manifest.write(path).unwrap();
}

/// Four segments of a table, a row each, at 1,000 to 4,000 ns.
fn fill<T: Table>(mut table: TableWriter<T>, row: impl Fn(u64) -> T) {
    for i in 1..=4 {
        table.push(row(i * 1_000)).unwrap();
        table.seal().unwrap();
    }
}

fn rows<T: Table>(recording: &Recording) -> Result<usize, Error> {
    recording
        .scan::<T>()?
        .try_fold(0, |n, batch| Ok(n + batch?.len()))
}

#[test]
fn what_never_got_to_the_disk_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        end_ns: 9_999,
        ..Manifest::default()
    };
    let writer = Writer::create(&path, &manifest).unwrap();
    fill(writer.table().unwrap(), |time_ns| Event {
        time_ns,
        ..Event::default()
    });
    fill(writer.table().unwrap(), |time_ns| Counter {
        time_ns,
        ..Counter::default()
    });
    let whole = Recording::open(&path).unwrap();
    assert_eq!((whole.torn(), whole.manifest.end_ns), (0, 9_999));
    // What a host leaves that loses power: half a file, none of it, and blocks that were never written.
    let at = |name: &str| path.join(name);
    let event = fs::read(at("event/000003.parquet")).unwrap();
    fs::write(at("event/000003.parquet"), &event[..event.len() / 2]).unwrap();
    fs::write(at("event/000004.parquet"), b"").unwrap();
    let counter = fs::read(at("counter/000004.parquet")).unwrap();
    fs::write(at("counter/000004.parquet"), vec![0_u8; counter.len()]).unwrap();
    let mut packed = Vec::new();
    pack(&path, &mut packed).unwrap();
    let scratch = Scratch::make(dir.path(), "unpack").unwrap();
    for recording in [
        Recording::open(&path).unwrap(),
        Recording::unpack(&packed[..], Path::new("x.tcpw"), scratch).unwrap(),
    ] {
        assert_eq!(recording.torn(), 3);
        assert_eq!(rows::<Event>(&recording).unwrap(), 2);
        assert_eq!(rows::<Counter>(&recording).unwrap(), 3);
        assert_eq!(recording.segments("event").unwrap(), [1, 2]);
        // It ended with the last row that is left.
        assert_eq!(recording.manifest.end_ns, 3_000);
    }
    // With whole ones behind it, it is damage.
    fs::write(at("counter/000002.parquet"), b"").unwrap();
    let recording = Recording::open(&path).unwrap();
    let e = rows::<Counter>(&recording).unwrap_err().to_string();
    assert!(e.contains("counter/000002.parquet: damaged"), "{e}");
    // So it is in one that its recorder ended.
    let complete = Manifest {
        complete: true,
        ..manifest
    };
    complete.write(&path).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!((recording.torn(), recording.manifest.end_ns), (0, 9_999));
    let e = rows::<Event>(&recording).unwrap_err().to_string();
    assert!(e.contains("event/000003.parquet: damaged"), "{e}");
}

#[test]
fn every_cut_gives_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = make(dir.path());
    let whole = fs::read(segment(&path)).unwrap();
    for keep in (0..whole.len()).step_by(97) {
        fs::write(segment(&path), &whole[..keep]).unwrap();
        let e = read(&path).unwrap_err();
        assert!(matches!(e, Error::Damaged { .. }), "{keep}: {e}");
        let e = e.to_string();
        assert!(
            e.contains("000001.parquet") && !e.contains('\n'),
            "{keep}: {e}"
        );
    }
}

#[test]
fn a_segment_of_another_table_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = make(dir.path());
    let recording = Recording::open(&path).unwrap();
    fs::rename(path.join("event"), path.join("socket")).unwrap();
    let mut scan = recording.scan::<recording::tables::Socket>().unwrap();
    let e = scan.next().unwrap().err().unwrap().to_string();
    assert!(e.contains("column"), "{e}");
    assert!(scan.next().is_none(), "nothing is read after damage");
}

#[test]
fn writing_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let path = make(dir.path());
    let again = Writer::create(&path, &Manifest::default());
    assert!(matches!(again, Err(Error::Exists(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Scribbling anywhere gives rows or an error; the library underneath may not take us down.
    #[test]
    fn scribbles_never_panic(at in 0.0..1.0f64, bytes in proptest::collection::vec(any::<u8>(), 1..16)) {
        let dir = tempfile::tempdir().unwrap();
        let path = make(dir.path());
        let mut segment_bytes = fs::read(segment(&path)).unwrap();
        let at = (at * segment_bytes.len() as f64) as usize;
        for (i, b) in bytes.iter().enumerate() {
            if let Some(slot) = segment_bytes.get_mut(at + i) {
                *slot = *b;
            }
        }
        fs::write(segment(&path), segment_bytes).unwrap();
        match read(&path) {
            Ok(rows) => prop_assert!(rows <= 1 << 20),
            Err(e) => prop_assert!(e.to_string().contains("000001.parquet")),
        }
    }
}
