//! Stores that hold what was recorded when, on made-up days.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recording::tables::{Counter, Event, Setting};
use recording::{FORMAT, Manifest, Recording, Table, Writer};

use crate::{Bounds, Error, Gap, Keeper, Pins, Store, Window, merge};

const S: u64 = 1_000_000_000;
/// The clock when the host was started.
const BOOT: i64 = 1_796_000_000_000_000_000;

fn unix(s: u64) -> i64 {
    BOOT + (s * S) as i64
}

fn manifest(from_s: u64, to_s: u64, offset_ns: i64) -> Manifest {
    let mut manifest = Manifest {
        format: FORMAT,
        complete: true,
        start_ns: from_s * S,
        end_ns: to_s * S,
        clock_offset_ns: offset_ns,
        ..Manifest::default()
    };
    manifest.host.boot_id = "one".into();
    manifest
}

/// A recording with an event, and a counter that rises, each second, a segment each; what is set is said once.
fn record(path: &Path, manifest: &Manifest) {
    let writer = Writer::create(path, manifest).unwrap();
    let mut events = writer.table::<Event>().unwrap();
    let mut counters = writer.table::<Counter>().unwrap();
    let mut settings = writer.table::<Setting>().unwrap();
    let start = manifest.start_ns;
    let setting = Setting {
        time_ns: start,
        ..Setting::default()
    };
    settings.push(setting).unwrap();
    settings.seal().unwrap();
    for time_ns in (start..=manifest.end_ns).step_by(S as usize) {
        let event = Event {
            time_ns,
            ..Event::default()
        };
        events.push(event).unwrap();
        events.seal().unwrap();
        let counter = Counter {
            time_ns,
            ..Counter::default()
        };
        counters.push(counter).unwrap();
        counters.seal().unwrap();
    }
}

fn seconds<T: Table>(recording: &Recording) -> Vec<u64> {
    let batches = recording.scan::<T>().unwrap().map(Result::unwrap);
    let times = batches.flat_map(|b| b.rows().map(|(_, r)| r.time_ns() / S).collect::<Vec<_>>());
    times.collect()
}

fn keeper(dir: &Path) -> Keeper {
    Keeper::open(dir, Bounds::default()).unwrap()
}

/// A store with recordings of these seconds; each goes on until a little after the next has begun.
fn store(dir: &Path, spans: &[(u64, u64)]) -> Vec<PathBuf> {
    let mut keeper = keeper(dir);
    let paths = spans.iter().map(|(from, to)| {
        let path = keeper.begin(unix(*from));
        record(&path, &manifest(*from, *to, BOOT));
        path
    });
    paths.collect()
}

fn window(dir: &Path, from: u64, to: u64) -> Result<Window, Error> {
    Store::open(dir).unwrap().window(unix(from), unix(to))
}

#[test]
fn a_time_is_one_recording_whatever_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("store");
    let paths = store(&dir, &[(1000, 1062), (1060, 1122), (1120, 1150)]);
    let check = || {
        let found = window(&dir, 1050, 1125).unwrap();
        assert!(found.gaps.is_empty() && !found.is_part, "{:?}", found.gaps);
        let recording = found.recording;
        assert_eq!(
            seconds::<Event>(&recording),
            (1050..=1125).collect::<Vec<_>>()
        );
        assert_eq!(recording.manifest.start_ns, 1050 * S);
        assert_eq!(recording.manifest.end_ns, 1125 * S);
        // Each said what is set; it stays true.
        assert_eq!(seconds::<Setting>(&recording), [1000, 1060, 1120]);
        // Each row has a name of its own, by which it is found again.
        let rows = recording.scan::<Event>().unwrap().map(Result::unwrap);
        let rows: Vec<_> = rows.flat_map(|b| b.rows().collect::<Vec<_>>()).collect();
        let picked = recording.pick(rows.iter().map(|(at, _)| *at)).unwrap();
        assert_eq!(picked.len(), rows.len());
        // A part of a part.
        let part = recording.within(1061 * S, 1062 * S);
        assert_eq!(seconds::<Event>(&part), [1061, 1062]);
    };
    check();
    let before = window(&dir, 1050, 1055).unwrap().recording;
    let old = paths[0].with_extension("merged");
    for path in &paths {
        merge(path).unwrap();
    }
    check();
    assert_eq!(
        Recording::open(&paths[0])
            .unwrap()
            .segments("event")
            .unwrap(),
        [1]
    );
    // What was opened is read on.
    assert_eq!(seconds::<Event>(&before), (1050..=1055).collect::<Vec<_>>());
    assert!(old.exists() && !paths[1].with_extension("merged").exists());
    // What goes in spite of it is missed.
    let removed = before.clone();
    drop(before);
    fs::remove_dir_all(&old).unwrap();
    assert!(removed.scan::<Event>().is_err());
    // A killed merge, at each of its steps.
    fs::rename(&paths[1], paths[1].with_extension("merged")).unwrap();
    fs::create_dir(paths[2].with_extension("merging")).unwrap();
    drop(keeper(&dir));
    check();
    assert_eq!(
        fs::read_dir(&dir).unwrap().count(),
        3 + 2,
        "lock, store.json"
    );
}

#[test]
fn what_was_not_recorded_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    store(dir, &[(1000, 1060), (1090, 1120)]);
    let gap = Gap {
        from_ns: unix(1060),
        to_ns: unix(1090),
        why: "the disk was full".into(),
    };
    keeper(dir).gap(gap.clone()).unwrap();
    let found = window(dir, 1050, 1130).unwrap();
    let later = Gap {
        from_ns: unix(1120),
        to_ns: unix(1130),
        why: "no recorder ran".into(),
    };
    assert_eq!(found.gaps, [gap, later]);
    let none = window(dir, 1070, 1080).unwrap_err().to_string();
    assert!(
        none.contains("nothing was recorded at that time; it holds"),
        "{none}"
    );
    assert!(window(dir, 10, 20).is_err());
}

#[test]
fn another_start_or_clock_is_not_mixed_in() {
    for (boot, offset) in [("two", BOOT), ("one", BOOT - 3_600 * S as i64)] {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = keeper(dir.path());
        record(&keeper.begin(unix(1000)), &manifest(1000, 1010, BOOT));
        // As long after, by the clock.
        let later = 1015 + (BOOT - offset) as u64 / S;
        let mut manifest = manifest(later, later + 15, offset);
        manifest.host.boot_id = boot.into();
        record(&keeper.begin(unix(1015)), &manifest);
        let found = window(dir.path(), 1005, 1020).unwrap();
        assert!(found.is_part);
        assert_eq!(
            seconds::<Event>(&found.recording),
            (later..=later + 5).collect::<Vec<_>>()
        );
    }
}

#[test]
fn what_is_too_old_or_too_much_goes_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let spans: Vec<_> = (0..6).map(|i| (1000 + i * 60, 1060 + i * 60)).collect();
    let paths = store(dir.path(), &spans);
    let there = || paths.iter().map(|p| p.exists()).collect::<Vec<_>>();
    let bounds = Bounds {
        keep: Duration::from_secs(170),
        most: u64::MAX,
    };
    let mut keeper = Keeper::open(dir.path(), bounds).unwrap();
    // A clock that jumps a week ahead takes two with it.
    keeper.keep_young(unix(700_000)).unwrap();
    assert_eq!(there(), [false, false, true, true, true, true]);
    let aged = keeper.notes().removed_for_age;
    assert!(aged > 100_000, "{aged}");
    keeper.keep_young(unix(1330)).unwrap();
    assert_eq!(there(), [false, false, true, true, true, true]);
    drop(keeper);
    let bounds = Bounds {
        most: aged + aged / 4,
        ..Bounds::default()
    };
    let mut keeper = Keeper::open(dir.path(), bounds).unwrap();
    let current = Some((paths[5].as_path(), 0));
    keeper.keep_small(current, false).unwrap();
    assert_eq!(there(), [false, false, false, true, true, true]);
    let notes = keeper.notes().clone();
    assert_eq!(notes.removed_for_age, aged);
    assert_eq!(notes.removed_for_size, aged / 2);
    // A disk that fills up takes nothing away; what grows goes.
    keeper.keep_small(current, true).unwrap();
    assert_eq!(there(), [false, false, false, true, true, true]);
    keeper
        .keep_small(Some((paths[5].as_path(), 4096)), true)
        .unwrap();
    assert_eq!(there(), [false, false, false, false, true, true]);
    assert_eq!(keeper.notes().removed_for_room, aged / 2);
    // What is being written stays, whatever it takes.
    keeper
        .keep_small(Some((paths[5].as_path(), u64::MAX / 2)), false)
        .unwrap();
    assert_eq!(there(), [false, false, false, false, false, true]);
}

#[test]
fn one_writes_and_nothing_else_is_taken_for_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let first = keeper(dir.path());
    let second = Keeper::open(dir.path(), Bounds::default()).unwrap_err();
    assert!(matches!(second, Error::Locked(_)), "{second}");
    drop(first);
    drop(keeper(dir.path()));
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("mine"), "x").unwrap();
    let refused = Keeper::open(other.path(), Bounds::default()).unwrap_err();
    assert!(matches!(refused, Error::Foreign(_)), "{refused}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    assert!(matches!(Store::open(other.path()), Err(Error::Foreign(_))));
    let none = other.path().join("none");
    assert!(matches!(Store::open(&none), Err(Error::Missing(_))));
}

#[test]
fn damaged_notes_cost_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &[(1000, 1010)]);
    for text in [
        "",
        "{",
        "[1]",
        &format!("{{\"gaps\":[{}", "{".repeat(10_000)),
    ] {
        fs::write(dir.path().join("store.json"), text).unwrap();
        assert_eq!(window(dir.path(), 1000, 1010).unwrap().gaps, []);
    }
    // Serials go on.
    assert!(
        keeper(dir.path())
            .begin(unix(1020))
            .to_string_lossy()
            .contains("000002-")
    );
}

#[test]
fn what_was_recorded_around_a_finding_stays_when_the_rest_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("store");
    let paths = store(&dir, &[(1000, 1302), (1300, 1400)]);
    fs::create_dir(crate::findings(&dir)).unwrap();
    let mut pins = Pins::open(&dir, 1 << 30).unwrap();
    // Two that meet are one; the third is not over.
    pins.want(unix(1100), unix(1110));
    pins.want(unix(1150), unix(1160));
    pins.want(unix(1380), unix(1380));
    for _ in 0..3 {
        pins.copy(unix(1400)).unwrap();
    }
    fs::remove_dir_all(&paths[0]).unwrap();
    let kept = window(&dir, 1000, 1250).unwrap().recording;
    assert_eq!(seconds::<Event>(&kept), (1070..=1190).collect::<Vec<_>>());
    // What is there still is read there, and not twice.
    let all = window(&dir, 1180, 1350).unwrap();
    let expected: Vec<u64> = (1180..=1190).chain(1300..=1350).collect();
    assert_eq!(seconds::<Event>(&all.recording), expected);
    assert_eq!(all.gaps.len(), 1);
    let names = || fs::read_dir(crate::layout::pins(&dir)).unwrap().count();
    assert_eq!(names(), 1);

    // Their own bound: the oldest goes, and never the newest.
    let mut pins = Pins::open(&dir, 1).unwrap();
    pins.want(unix(1330), unix(1331));
    pins.copy(unix(1400)).unwrap();
    assert_eq!(names(), 1);
    assert!(pins.removed > 0);
    assert!(window(&dir, 1100, 1110).is_err());
}
