//! Recordings that are large in one way: what reads them takes four times as long of four times as much, and a bounded
//! amount of memory.

use std::path::Path;
use std::time::Duration;

use hostile::{Ended, Large, Limits, Outcome};

const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");
const LIMITS: Limits = Limits {
    memory: 2 << 30,
    time: Duration::from_secs(60),
};
/// What readers take of anything.
const MOST_MEMORY: u64 = 400 << 20;

/// How `verb` ends on `n` of them.
fn read(large: Large, n: u32, verb: &[&str]) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("large.tcpwhy");
    large.make(n, &recording).unwrap();
    let tcpwhy = Path::new(HOSTILE).with_file_name("tcpwhy");
    assert!(tcpwhy.is_file(), "first: cargo build --workspace --bins");
    let both = (&*recording, &*recording);
    let outcome = hostile::run_apart(HOSTILE.as_ref(), &tcpwhy, verb, both, dir.path(), LIMITS);
    let outcome = outcome.unwrap();
    let wrong = outcome.wrong(MOST_MEMORY);
    assert_eq!(wrong, None, "{large:?} {n} {verb:?}: {outcome:?}");
    assert_ne!(outcome.ended, Ended::Code(1), "{large:?} {n}: {outcome:?}");
    outcome
}

/// Of four times as much it takes no more than `times` as long: linear is 4, quadratic 16.
fn is_linear(large: Large, n: u32) {
    for verb in [EXPLAIN, REPORT] {
        let (few, many) = (read(large, n, verb), read(large, 4 * n, verb));
        let (few_s, many_s) = (few.cpu.as_secs_f64(), many.cpu.as_secs_f64());
        assert!(
            many_s <= 8.0 * few_s.max(0.05),
            "{large:?} {verb:?}: {n} take {few_s:.2} s, four times as many {many_s:.2} s"
        );
    }
}

/// Each of four times as much adds no more than so many bytes.
fn takes_each(large: Large, n: u32, verb: &[&str], most: u64) {
    let (few, many) = (read(large, n, verb), read(large, 4 * n, verb));
    let each = many.memory.saturating_sub(few.memory) / (3 * u64::from(n));
    assert!(each <= most, "{large:?} {verb:?}: {each} bytes each");
}

const EXPLAIN: &[&str] = &["explain", "R"];
const REPORT: &[&str] = &["report", "R", "-o", "O"];

#[test]
fn listeners_are_looked_at_once_each() {
    is_linear(Large::Listeners, 8_000);
}

#[test]
fn of_listeners_in_trouble_the_worst_are_kept() {
    is_linear(Large::FullListeners, 5_000);
    takes_each(Large::FullListeners, 5_000, EXPLAIN, 4_000);
}

#[test]
fn of_destinations_that_do_not_answer_the_worst_are_kept() {
    is_linear(Large::Destinations, 5_000);
    takes_each(Large::Destinations, 5_000, EXPLAIN, 4_000);
}

#[test]
fn namespaces_are_looked_at_once_each() {
    is_linear(Large::Namespaces, 8_000);
    is_linear(Large::TroubledNamespaces, 4_000);
}

#[test]
fn names_of_threads_are_folded_before_they_are_stacks() {
    is_linear(Large::Names, 20_000);
    takes_each(Large::Names, 20_000, REPORT, 700);
}

#[test]
fn of_recordings_that_are_compared_one_is_in_memory() {
    let one = read(Large::Connections, 150_000, EXPLAIN).memory;
    let two = read(Large::Connections, 150_000, &["compare", "R", "R"]).memory;
    assert!(two < one + one / 12, "{two} bytes, one takes {one}");
}

#[test]
fn segments_are_read_once_each() {
    is_linear(Large::Segments, 50);
}
