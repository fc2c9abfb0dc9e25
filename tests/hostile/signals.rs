//! A campaign of signals: verbs that record get one at a random moment. Each ends, what it recorded
//! reads but for the segment that was open, and after the next run nothing of it is left. Needs root.
//!
//! `SIGNALS=54 SEED=2` runs so many trials, of so random a choice; `make test-signals N=54` does.

#[path = "signals/left.rs"]
mod left;
#[path = "signals/trial.rs"]
mod trial;

use std::path::Path;
use std::time::Duration;

use crate::common::{arg, need_root, run, stderr, tcpwhy, wait_until};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use recording::tables::Counter;
use recording::{Recording, Table};
use trial::{Ended, Given, Verb};

/// The latest moment of a signal: some segments are sealed by then.
const LATEST: f64 = 8.0;
/// As many as the tests of every day hold.
const FEW: usize = 6;
/// A segment is sealed every 3 s; as much again is left to a machine that is busy with other things.
const MOST_LOST: Duration = Duration::from_secs(3 + 3);

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |v| {
        v.parse().unwrap_or_else(|e| panic!("{name}={v}: {e}"))
    })
}

#[test]
fn whatever_the_moment_nothing_is_left() {
    need_root();
    let trials = number("SIGNALS", FEW as u64) as usize;
    let seed = number("SEED", 1);
    let mut rng = Pcg64::seed_from_u64(seed);
    let (mut verbs, mut given) = (Verb::ALL, Given::ALL);
    verbs.shuffle(&mut rng);
    given.shuffle(&mut rng);
    // Each round has every verb and every signal; after five every verb had every signal.
    let rounds = (0..).flat_map(|round| {
        let pairs = verbs.iter().enumerate();
        pairs.map(move |(i, verb)| (*verb, given[(i + round) % given.len()]))
    });
    // The few of every day are over soon.
    let latest = if trials > FEW { LATEST } else { 4.0 };
    let (mut longest, mut most_lost) = (Duration::ZERO, Duration::ZERO);
    for (n, (verb, given)) in rounds.take(trials).enumerate() {
        // Half of them while it starts.
        let range = if rng.random_bool(0.5) { 1.0 } else { latest };
        let after = Duration::from_secs_f64(rng.random_range(0.0..range));
        let what = format!("trial {n} of seed {seed}: {verb:?} {given:?} after {after:?}");
        let before = left::unheld_programs();
        let ended = trial::run(verb, given, after);
        let lost = check(&what, given, &ended);
        longest = longest.max(ended.took);
        most_lost = most_lost.max(lost.unwrap_or_default());
        println!(
            "{what}: {} after {:.2} s{}",
            ended
                .code
                .map_or("ended".into(), |code| format!("exit code {code}")),
            ended.took.as_secs_f64(),
            lost.map_or(String::new(), |t| format!(
                ", {:.1} s lost",
                t.as_secs_f64()
            )),
        );
        next_run(&ended.tmp);
        let mut still = Vec::new();
        wait_until(&format!("{what}: nothing is left"), || {
            let now = left::left(&ended, &before);
            if now != still {
                println!("  there is still {now:?}");
                still = now;
            }
            still.is_empty()
        });
    }
    println!(
        "{trials} trials of seed {seed}: ended within {:.2} s, {:.1} s lost at most, nothing left",
        longest.as_secs_f64(),
        most_lost.as_secs_f64()
    );
}

/// How it ended, and what it recorded; how much of that was lost.
fn check(what: &str, given: Given, ended: &Ended) -> Option<Duration> {
    if ended.was_ready && given != Given::Kill {
        assert_eq!(ended.code, Some(0), "{what}");
    }
    let path = ended.recording.as_ref()?;
    if !path.join("manifest.json").exists() {
        assert!(!ended.was_ready, "{what}: no manifest");
        return None;
    }
    let explained = run(&["explain", arg(path)]);
    assert!(explained.status.success(), "{what}: {}", stderr(&explained));
    let recording = Recording::open(path).unwrap();
    let complete = recording.manifest.complete;
    if ended.was_ready {
        assert_eq!(complete, given != Given::Kill, "{what}");
    }
    one_open_segment(what, path, complete);
    if !ended.was_ready || complete {
        return None;
    }
    let batches = recording.scan::<Counter>().unwrap().map(|b| b.unwrap());
    let last = batches.filter_map(|b| b.rows().map(|(_, row)| row.time_ns()).max());
    let last = last.max().unwrap_or(recording.manifest.start_ns);
    let lost = Duration::from_nanos(ended.signalled_ns.saturating_sub(last));
    assert!(lost <= MOST_LOST, "{what}: {lost:?} lost");
    Some(lost)
}

/// Every segment of a table is sealed but for the last; of a whole recording that one, too.
fn one_open_segment(what: &str, path: &Path, complete: bool) {
    for table in std::fs::read_dir(path).unwrap() {
        let table = table.unwrap().path();
        let Ok(files) = std::fs::read_dir(&table) else {
            continue;
        };
        let mut files: Vec<_> = files.map(|f| f.unwrap().path()).collect();
        files.sort();
        for (i, file) in files.iter().enumerate() {
            let name = file.file_name().unwrap().to_str().unwrap();
            let sealed = format!("{:06}.parquet", i + 1);
            let open = format!("{:06}.open", i + 1);
            let last = i + 1 == files.len();
            let fine = name == sealed || name == open && last && !complete;
            assert!(fine, "{what}: {}", file.display());
        }
    }
}

/// Another verb that records, which finds what was left.
fn next_run(tmp: &Path) {
    let output = tcpwhy(&["stat", "counters"]).env("TMPDIR", tmp).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
