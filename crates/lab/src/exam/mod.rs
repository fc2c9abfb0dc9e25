//! The exam: situations drawn at random, with faults and without, and how good tcpwhy's answers are.

mod build;
mod draw;
mod grade;
mod harm;
mod render;
mod sit;
mod sitting;
mod situation;

use std::path::PathBuf;

pub(crate) use build::recorded as recorded_nodes;
pub use draw::GRADING;
pub use grade::{Bin, Grade, Group, Row, Score};
pub use harm::{Felt, noticed};
pub use render::{exam_markdown, render_grade, render_sitting};
pub(crate) use sit::situation_scenario;
pub use sitting::{Fault, Found, Sitting, Sittings};
pub use situation::{Part, Side, Situation};

use crate::{Error, Programs, Stop, list};

/// How to hold an exam.
#[derive(Clone, Debug)]
pub struct ExamOptions {
    /// Where its sittings stand, and are added to.
    pub dir: PathBuf,
    /// The first seed: [`GRADING`], or one below it.
    pub first: u64,
    /// So many seeds.
    pub seeds: u64,
    /// Only these: seeds, which are then seen again; or scenarios, for the situations that hold them.
    pub only: Vec<String>,
    /// Those that went wrong, once more: their sittings stand in [`AGAIN`] in the directory, and count for nothing.
    pub again: bool,
    /// Which recordings stay, in the directory.
    pub keep: Keep,
    /// The binary to drive; the program that runs this code when absent.
    pub programs: Option<Programs>,
}

/// Which recordings of an exam stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// None.
    #[default]
    Nothing,
    /// Those of what went wrong.
    Wrong,
    /// All.
    All,
}

/// In the directory of an exam: the sittings of what went wrong, seen by a later build.
pub const AGAIN: &str = "again";

/// How far an exam is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What was seen just now.
    pub sitting: &'a Sitting,
    /// So many were seen, of …
    pub done: usize,
    /// … so many.
    pub of: usize,
    /// What the others will take if they take as long as these, s.
    pub left_s: f64,
}

/// Holds the exam: sees what the directory does not have yet; `each` is told of every sitting as it ends.
/// Wants root; takes SIGINT, SIGTERM and SIGHUP from here on.
pub fn exam(options: &ExamOptions, mut each: impl FnMut(&Progress)) -> Result<Sittings, Error> {
    let mut sittings = Sittings::open(&options.dir)?;
    let mut again = Sittings::open(&options.dir.join(AGAIN))?;
    let (open, kept) = if options.again {
        (wrong(&sittings, &again)?, &mut again)
    } else {
        (open(options, &sittings)?, &mut sittings)
    };
    if open.is_empty() {
        return Ok(sittings);
    }
    let stop = Stop::on_signals()?;
    let programs = options.programs.clone();
    let programs = programs.map_or_else(Programs::current, Ok)?;
    let dir = options.dir.join("recordings");
    let kept_in = (options.keep != Keep::Nothing).then_some(dir.as_path());
    let mut taken_s = 0.0;
    for (at, situation) in open.iter().enumerate() {
        let all = options.keep == Keep::All;
        let sitting = sit::sit(situation, &programs, kept_in, all, &stop)?;
        taken_s += sitting.seconds;
        let done = at + 1;
        each(&Progress {
            sitting: &sitting,
            done,
            of: open.len(),
            left_s: taken_s / done as f64 * (open.len() - done) as f64,
        });
        kept.append(sitting)?;
    }
    Ok(sittings)
}

/// The situations whose answers were wrong, and that were not seen again.
fn wrong(sittings: &Sittings, again: &Sittings) -> Result<Vec<Situation>, Error> {
    let wrong = Grade::of(&sittings.all).wrong;
    let open = wrong.into_iter().filter(|(seed, _)| !again.has(*seed));
    open.map(|(seed, _)| Situation::draw(seed)).collect()
}

/// The situations that are still to be seen.
fn open(options: &ExamOptions, sittings: &Sittings) -> Result<Vec<Situation>, Error> {
    let asked: Vec<u64> = options.only.iter().filter_map(|o| o.parse().ok()).collect();
    let mut scenarios = options.only.iter().filter(|o| o.parse::<u64>().is_err());
    let scenarios: Vec<&String> = scenarios.by_ref().collect();
    let known = list()?;
    if let Some(unknown) = scenarios
        .iter()
        .find(|name| known.iter().all(|s| s.name != **name))
    {
        return Err(Error::UnknownScenario((*unknown).clone()));
    }
    let mut open = Vec::new();
    for seed in &asked {
        open.push(Situation::draw(*seed)?);
    }
    if !asked.is_empty() && scenarios.is_empty() {
        return Ok(open);
    }
    for seed in options.first..options.first.saturating_add(options.seeds) {
        if sittings.has(seed) || asked.contains(&seed) {
            continue;
        }
        let situation = Situation::draw(seed)?;
        let holds = |name: &&String| situation.parts.iter().any(|p| p.scenario == **name);
        if scenarios.is_empty() || scenarios.iter().any(holds) {
            open.push(situation);
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &std::path::Path, only: &[&str]) -> ExamOptions {
        ExamOptions {
            dir: dir.to_path_buf(),
            first: 1,
            seeds: 30,
            only: only.iter().map(|o| o.to_string()).collect(),
            again: false,
            keep: Keep::Nothing,
            programs: None,
        }
    }

    #[test]
    fn what_is_there_is_not_seen_again_unless_its_seed_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut sittings = Sittings::open(dir.path()).unwrap();
        let seeds = |only: &[&str], sittings: &Sittings| -> Vec<u64> {
            let open = open(&options(dir.path(), only), sittings).unwrap();
            open.iter().map(|s| s.seed).collect()
        };
        assert_eq!(seeds(&[], &sittings), (1..=30).collect::<Vec<u64>>());
        sittings.append(sitting::tests::empty(1)).unwrap();
        assert_eq!(seeds(&[], &sittings), (2..=30).collect::<Vec<u64>>());
        assert_eq!(seeds(&["1", "77"], &sittings), [1, 77]);
        let pools = seeds(&["healthy-pool"], &sittings);
        assert!(!pools.is_empty() && pools.len() < 29, "{pools:?}");
        let error = open(&options(dir.path(), &["nonsense"]), &sittings);
        assert!(error.unwrap_err().to_string().contains("nonsense"));
    }

    #[test]
    fn what_went_wrong_is_seen_again_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut sittings = Sittings::open(dir.path()).unwrap();
        sittings.append(sitting::tests::empty(1)).unwrap();
        let false_alarm = Sitting {
            without: Some(vec![Found {
                cause: "path-loss".into(),
                confidence: "high".into(),
                lost_s: Some(1.0),
                part: None,
                title: "The path loses packets.".into(),
                wrong_owner: Vec::new(),
            }]),
            ..sitting::tests::empty(2)
        };
        sittings.append(false_alarm).unwrap();
        let mut again = Sittings::open(&dir.path().join(AGAIN)).unwrap();
        let seeds = |again: &Sittings| -> Vec<u64> {
            wrong(&sittings, again)
                .unwrap()
                .iter()
                .map(|s| s.seed)
                .collect()
        };
        assert_eq!(seeds(&again), [2]);
        again.append(sitting::tests::empty(2)).unwrap();
        assert!(seeds(&again).is_empty());
        // It counts for nothing.
        let grade = Grade::of(&Sittings::open(dir.path()).unwrap().all);
        let page = exam_markdown(&sittings.all, &grade, &again.all, "", None);
        assert!(
            page.contains("- 2: without its faults: path-loss"),
            "{page}"
        );
        assert!(page.contains("  - seen again: right"), "{page}");
    }
}
