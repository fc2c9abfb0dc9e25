//! Recordings as one file: whole they read as the directory does, cut short as far as they are whole, and
//! with anything in them that no recording has they are refused, in one line.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use recording::tables::{Counter, Event};
use recording::{Error, FORMAT, Manifest, Recording, Scratch, Table, Writer, is_recording, pack};
use tar::{Builder, EntryType, Header};

const S: u64 = 1_000_000_000;
const SEGMENTS: u64 = 4;

/// A recording of two tables, a segment of each every 3 s.
fn make(dir: &Path) -> PathBuf {
    let path = dir.join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        complete: true,
        end_ns: SEGMENTS * 3 * S,
        ..Manifest::default()
    };
    let writer = Writer::create(&path, &manifest).unwrap();
    let mut events = writer.table::<Event>().unwrap();
    let mut counters = writer.table::<Counter>().unwrap();
    for i in 0..SEGMENTS {
        for n in 0..20 {
            let time_ns = i * 3 * S + n;
            events
                .push(Event {
                    time_ns,
                    ..Event::default()
                })
                .unwrap();
            counters
                .push(Counter {
                    time_ns,
                    ..Counter::default()
                })
                .unwrap();
        }
        events.seal().unwrap();
        counters.seal().unwrap();
        for table in ["event", "counter"] {
            let file = path.join(format!("{table}/{:06}.parquet", i + 1));
            sealed(&file, (i + 1) * 3);
        }
    }
    sealed(&path.join("manifest.json"), SEGMENTS * 3);
    path
}

fn sealed(file: &Path, second: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second);
    File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

fn packed(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(&make(dir), &mut bytes).unwrap();
    bytes
}

fn unpack(bytes: &[u8], dir: &Path) -> Result<Recording, Error> {
    let scratch = Scratch::make(dir, "unpack").unwrap();
    Recording::unpack(bytes, Path::new("x.tcpw"), scratch)
}

fn rows<T: Table>(recording: &Recording) -> Result<usize, Error> {
    recording
        .scan::<T>()?
        .try_fold(0, |n, batch| Ok(n + batch?.len()))
}

/// What is in the directory in which recordings are unpacked.
fn left(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn what_is_packed_reads_as_it_was() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = packed(from.path());
    for bytes in [bytes.clone(), gzip(&bytes)] {
        let recording = unpack(&bytes, to.path()).unwrap();
        let whole = Recording::open(&from.path().join("r.tcpwhy"));
        assert_eq!(recording.manifest, whole.unwrap().manifest);
        assert!(!recording.is_cut_short());
        assert_eq!(rows::<Event>(&recording).unwrap(), 80);
        assert_eq!(rows::<Counter>(&recording).unwrap(), 80);
        let mode = fs::metadata(recording.dir()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let segment = recording.dir().join("event/000001.parquet");
        let mode = fs::metadata(segment).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let part = recording.within(0, S);
        drop(recording);
        assert_eq!(rows::<Event>(&part).unwrap(), 20, "kept while it is read");
        drop(part);
        assert_eq!(left(to.path()), 0);
        fs::remove_dir_all(from.path().join("r.tcpwhy")).unwrap();
        packed(from.path());
    }
}

#[test]
fn what_other_programs_pack_reads_too() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = make(from.path());
    fs::write(dir.join("event/000009.open"), "never sealed").unwrap();
    fs::create_dir(dir.join("later_table")).unwrap();
    fs::write(dir.join("later_table/000001.parquet"), "?").unwrap();
    let ways: &[&[&str]] = &[
        &["-cf", "-", "r.tcpwhy"],
        &["-czf", "-", "r.tcpwhy"],
        &["--format=posix", "-cf", "-", "./r.tcpwhy"],
        &["-cf", "-", "-C", "r.tcpwhy", "."],
    ];
    for way in ways {
        let mut tar = std::process::Command::new("tar");
        let output = tar.args(*way).current_dir(from.path()).output().unwrap();
        assert!(output.status.success());
        let recording = unpack(&output.stdout, to.path());
        let recording = recording.unwrap_or_else(|e| panic!("{way:?}: {e}"));
        assert_eq!(rows::<Event>(&recording).unwrap(), 80, "{way:?}");
        assert!(!recording.is_cut_short(), "{way:?}");
        assert!(!recording.dir().join("later_table").exists());
    }
}

#[test]
fn what_is_cut_short_reads_as_one_that_ended_earlier() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = packed(from.path());
    // The manifest lies in the first blocks; the end is two blocks of zeros, of which one will do.
    let (mut least, mut refused) = (usize::MAX, 0);
    for length in (0..bytes.len() - 1024).step_by(509).rev() {
        let gzipped = gzip(&bytes[..length]);
        for bytes in [&bytes[..length], &gzipped] {
            let recording = match unpack(bytes, to.path()) {
                Ok(recording) => recording,
                Err(e) => {
                    let e = e.to_string();
                    assert!(length < 6 * 1024, "{length}: {e}");
                    assert!(e.starts_with("x.tcpw: "), "{e}");
                    refused += 1;
                    continue;
                }
            };
            assert!(recording.is_cut_short() && !recording.manifest.complete);
            let (events, counters) = (rows::<Event>(&recording), rows::<Counter>(&recording));
            let (events, counters) = (events.unwrap(), counters.unwrap());
            assert!(events.abs_diff(counters) <= 20, "{events} {counters}");
            // As long as its newest segment.
            let newest = events.max(counters) as u64 / 20;
            assert_eq!(recording.manifest.end_ns, newest * 3 * S, "{length}");
            assert!(events <= least);
            least = events;
        }
    }
    assert!(least == 0 && refused > 0, "{least} {refused}");
    assert_eq!(left(to.path()), 0);
    // gzip itself cut.
    let gzipped = gzip(&bytes);
    assert!(
        unpack(&gzipped[..gzipped.len() * 2 / 3], to.path())
            .unwrap()
            .is_cut_short()
    );
}

/// A tar of the manifest and one more entry, whose name is written as it is.
fn with(name: &str, spoil: impl Fn(&mut Header), data: &[u8]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let manifest = serde_json::to_vec(&Manifest {
        format: FORMAT,
        ..Manifest::default()
    });
    let manifest = manifest.unwrap();
    for (name, data, spoiled) in [("manifest.json", &manifest[..], false), (name, data, true)] {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(EntryType::Regular);
        header.set_size(data.len() as u64);
        header.set_mode(0o777);
        if spoiled {
            spoil(&mut header);
        }
        header.set_cksum();
        tar.append(&header, data).unwrap();
    }
    tar.into_inner().unwrap()
}

fn refused(bytes: &[u8], needle: &str) {
    let place = tempfile::tempdir().unwrap();
    let e = unpack(bytes, place.path()).unwrap_err().to_string();
    assert!(
        e.starts_with("x.tcpw: ") && e.contains(needle),
        "{needle}: {e}"
    );
    assert_eq!(left(place.path()), 0, "{needle}");
}

#[test]
fn what_no_recording_has_is_refused() {
    let none = |_: &mut Header| {};
    for name in [
        "/etc/passwd",
        "/manifest.json",
        "../manifest.json",
        "../../etc/cron.d/x",
        "event/../../x/000001.parquet",
        "../event/000001.parquet",
        "/event/000001.parquet",
        "a/b/event/000001.parquet",
        "event/1.parquet",
        "event/000001.parquet/",
        "event/000001.parquet\u{1b}[2J",
        "evil",
        "event",
        "EVENT/000001.parquet",
        "",
    ] {
        refused(&with(name, none, b"x"), "is not a file of a recording");
    }
    refused(&with("manifest.json", none, b"x"), "is in it twice");
    refused(&with("./manifest.json", none, b"x"), "is in it twice");
    refused(
        &with("x/event/000001.parquet", none, b"x"),
        "not in the same directory",
    );
    let segment = "event/000001.parquet";
    for (kind, needle) in [
        (EntryType::Symlink, "a symbolic link"),
        (EntryType::Link, "a hard link"),
        (EntryType::Char, "a device"),
        (EntryType::Block, "a device"),
        (EntryType::Fifo, "a FIFO"),
        (EntryType::GNUSparse, "a sparse file"),
        (EntryType::GNULongName, "longer than any name"),
        (EntryType::Continuous, "no regular file"),
        (EntryType::Directory, "a directory that no recording has"),
    ] {
        refused(&with(segment, |h| h.set_entry_type(kind), b"x"), needle);
    }
    for size in [1 << 40, u64::MAX >> 1, u64::MAX] {
        // Before anything is written.
        let bytes = with(segment, |h| h.set_size(size), b"x");
        let place = tempfile::tempdir().unwrap();
        let e = unpack(&bytes, place.path()).unwrap_err().to_string();
        assert!(e.starts_with("x.tcpw: refused: "), "{e}");
        assert_eq!(left(place.path()), 0);
    }
    refused(
        &with(segment, |h| h.set_size(1 << 40), b"x"),
        "MB are unpacked, and no more than half",
    );
    refused(b"", "it is empty");
    refused(b"notes", "too short to be a recording");
    refused(&[b'x'; 4096], "neither a recording's directory nor");
    refused(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0], "compressed by zstd");
    refused(&gzip(&[b'x'; 4096]), "neither a recording's directory nor");
    let mut torn = gzip(&with(segment, none, &[7; 4000]));
    let at = torn.len() - 6;
    torn[at] ^= 0xff;
    refused(&torn, "damaged");
}

#[test]
fn a_bomb_is_bounded_by_files() {
    let place = tempfile::tempdir().unwrap();
    let scratch = Scratch::make(place.path(), "unpack").unwrap();
    // Of a table that is not ours nothing is made, so that the test takes no disk.
    let names = (0..).map(|i| format!("none/{i:06}.open"));
    let entries = names.flat_map(|name| {
        let mut header = Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_size(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    });
    struct Bytes<I>(I);
    impl<I: Iterator<Item = u8>> Read for Bytes<I> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            to.iter_mut().for_each(|b| *b = self.0.next().unwrap_or(0));
            Ok(to.len())
        }
    }
    let unpacked = Recording::unpack(Bytes(entries), Path::new("x.tcpw"), scratch);
    let e = unpacked.unwrap_err().to_string();
    assert!(e.contains("at most 200000 files"), "{e}");
}

#[test]
fn a_tar_is_told_from_what_is_not_to_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = packed(dir.path());
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let whole = file("whole.tcpw", &bytes);
    assert!(is_recording(&whole));
    assert!(is_recording(&file("zipped.tgz", &gzip(&bytes))));
    assert!(is_recording(&file("cut.tcpw", &bytes[..4096])));
    assert!(is_recording(&dir.path().join("r.tcpwhy")));
    assert!(!is_recording(&file("notes.tcpw", b"precious")));
    assert!(!is_recording(&file("empty.tcpw", b"")));
    assert!(!is_recording(&file(
        "other.tar",
        &with("x", |_| {}, b"x")[1024..]
    )));
    assert!(!is_recording(dir.path()));
    assert!(!is_recording(&dir.path().join("none")));
    let link = dir.path().join("link.tcpw");
    std::os::unix::fs::symlink(&whole, &link).unwrap();
    assert!(!is_recording(&link));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is scribbled over: it reads, or is refused, in one line; nothing is made elsewhere.
    #[test]
    fn scribbles_never_get_out(
        scribbles in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_headers: bool,
        fix_sums: bool,
        zip: bool,
    ) {
        let from = tempfile::tempdir().unwrap();
        let mut bytes = packed(from.path());
        let headers: Vec<usize> = (0..bytes.len() / 512)
            .map(|block| block * 512)
            .filter(|at| &bytes[at + 257..at + 262] == b"ustar")
            .collect();
        for (at, byte) in &scribbles {
            let place = if in_headers { headers[at.index(headers.len())] + at.index(345) } else { at.index(bytes.len()) };
            bytes[place] = *byte;
        }
        for at in headers.iter().filter(|_| fix_sums) {
            let block = &mut bytes[*at..at + 512];
            let mut header = Header::new_ustar();
            header.as_mut_bytes().copy_from_slice(block);
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
        let bytes = if zip { gzip(&bytes) } else { bytes };
        let place = tempfile::tempdir().unwrap();
        match unpack(&bytes, place.path()) {
            Ok(recording) => {
                // What is damaged within is told with the name that the user gave.
                if let Err(e) = rows::<Event>(&recording) {
                    prop_assert!(e.to_string().starts_with("x.tcpw/event"), "{}", e);
                }
                let inside = fs::read_dir(recording.dir()).unwrap();
                for entry in inside.map(|e| e.unwrap().file_name()) {
                    let name = entry.to_str().unwrap();
                    prop_assert!(["manifest.json", "event", "counter"].contains(&name)
                        || recording::tables::ALL.iter().any(|t| t.name == name), "{}", name);
                }
                prop_assert_eq!(left(place.path()), 1);
            }
            Err(e) => prop_assert!(e.to_string().starts_with("x.tcpw"), "{}", e),
        }
        prop_assert_eq!(left(place.path()), 0);
    }
}
