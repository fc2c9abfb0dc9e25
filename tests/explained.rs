//! `explain --write`: what is said is in the recording, as tables that anything which reads Parquet can ask.

use std::fs;
use std::path::Path;

use recording::tables::{Answer, Cgroup, Episode, Finding, Wait};
use recording::{FORMAT, Manifest, Recording, Table, Writer};

use crate::common::{arg, json_lines, one_event, one_line, stderr, tcpwhy};
use crate::corpus::unpacked;

fn rows<T: Table>(dir: &Path) -> Vec<T> {
    let recording = Recording::open(dir).unwrap();
    let batches = recording.scan::<T>().unwrap().map(Result::unwrap);
    let rows = |batch: recording::Batch<T>| {
        let rows = 0..batch.len();
        rows.map(move |row| batch.row(row).1)
    };
    batches.flat_map(rows).collect()
}

#[test]
fn what_is_said_is_in_the_recording() {
    let place = tempfile::tempdir().unwrap();
    let dir = unpacked("accept-queue-overflow.above", place.path());
    let output = tcpwhy(&["explain", arg(&dir), "--write", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json_lines(&output);
    let said: Vec<_> = lines.iter().filter(|l| l["type"] == "finding").collect();
    let written: Vec<Finding> = rows(&dir);
    assert!(!written.is_empty());
    assert_eq!(written.len(), said.len());
    for (written, said) in written.iter().zip(&said) {
        assert_eq!(&*written.cause, said["cause"].as_str().unwrap());
        assert_eq!(&*written.title, said["title"].as_str().unwrap());
        assert_eq!(&*written.listener, said["scope"]["listener"]);
        let lost = said["lost_s"].as_f64();
        assert_eq!(written.lost_ns.map(|ns| ns as f64 / 1e9), lost);
        // What it rests on can be shown.
        let row = written.rows.split(' ').next().unwrap();
        let shown = tcpwhy(&["show", arg(&dir), row]).output().unwrap();
        assert!(shown.status.success(), "{}", stderr(&shown));
    }
    let answers: Vec<Answer> = rows(&dir);
    assert_eq!(answers.len(), explain::causes().len());
    let found = answers.iter().filter(|a| &*a.answer == "found");
    assert!(found.count() >= 1);
    let _: Vec<Episode> = rows(&dir);
    // Once more: the same rows, not twice as many; and reading it says the same as before.
    let again = tcpwhy(&["explain", arg(&dir), "--write", "--json"])
        .output()
        .unwrap();
    assert_eq!(again.stdout, output.stdout);
    assert_eq!(rows::<Finding>(&dir), written);
}

#[test]
fn nothing_is_written_that_is_not_all_of_it() {
    let place = tempfile::tempdir().unwrap();
    let dir = one_event(place.path());
    let file = place.path().join("x.tcpw");
    recording::pack(&dir, fs::File::create(&file).unwrap()).unwrap();
    one_line(
        &["explain", "--write", arg(&dir), "--port", "80"],
        "leave the filter out",
    );
    one_line(&["explain", "--write", arg(&file)], "tar -xf");
    assert!(!dir.join("answer").exists());
}

#[test]
fn a_cgroup_goes_by_the_path_that_it_had() {
    const SECOND: u64 = 1_000_000_000;
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        complete: true,
        ..Manifest::default()
    };
    let writer = Writer::create(&dir, &manifest).unwrap();
    let mut cgroups = writer.table::<Cgroup>().unwrap();
    let mut waits = writer.table::<Wait>().unwrap();
    for (cgroup, path) in [(7, "/web/a"), (8, "/db")] {
        cgroups
            .push(Cgroup {
                time_ns: 1,
                cgroup,
                path: path.into(),
                ..Cgroup::default()
            })
            .unwrap();
        waits
            .push(Wait {
                time_ns: SECOND + cgroup,
                cgroup,
                waited_ns: SECOND,
                ..Wait::default()
            })
            .unwrap();
    }
    cgroups.seal().unwrap();
    waits.seal().unwrap();
    let of = |cgroup| {
        let output = tcpwhy(&["trace", "wakeups", "--from", arg(&dir), "--json"])
            .args(["--cgroup", cgroup])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = json_lines(&output);
        let ids = lines.iter().filter_map(|l| l["cgroup"].as_u64());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(of("/web"), [7]);
    assert_eq!(of("8"), [8]);
    assert_eq!(of("/"), [7, 8]);
    one_line(
        &["explain", arg(&dir), "--cgroup", "/cache"],
        "--cgroup \"/cache\": the recording has no such cgroup; it has for example /db, /web/a",
    );
}
