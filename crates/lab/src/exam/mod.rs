//! The exam: every scenario with many seeds, what tcpwhy named first, and how often it was right.

mod build;
mod draw;
mod matrix;
mod render;
mod score;

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

pub use matrix::Matrix;
pub use render::{exam_csv, exam_markdown, render_exam};
pub use score::Score;

use crate::engine::run_until;
use crate::judge::cause;
use crate::scenario::Truth;
use crate::{Error, Programs, RunOptions, Stop, list};

/// How to hold an exam.
#[derive(Clone, Debug)]
pub struct ExamOptions {
    /// Seeds per scenario: 1 to this.
    pub seeds: u64,
    /// Only these scenarios; all when empty.
    pub scenarios: Vec<String>,
    /// Keep the recordings of what went wrong in this directory.
    pub keep: Option<PathBuf>,
    /// The binary to drive; the program that runs this code when absent.
    pub programs: Option<Programs>,
}

/// One scenario with one seed.
#[derive(Clone, Debug, Serialize)]
pub struct Sitting {
    /// Always `sitting`.
    pub r#type: &'static str,
    /// The scenario.
    pub scenario: String,
    /// The seed that repeats it.
    pub seed: u64,
    /// Id of the cause that was planted, or `healthy`; of a fault that shows in some runs only, what
    /// this one had.
    pub truth: String,
    /// Id of the cause that was named first, `healthy` when there was no finding; null when the
    /// run itself failed.
    pub said: Option<String>,
    /// Everything that was found, in its order.
    pub found: Vec<String>,
    /// The cause, the server and what else the truth asks for were right.
    pub passed: bool,
    /// What was wrong, each in a line.
    pub why: Vec<String>,
    /// How long it took, s.
    pub seconds: f64,
}

impl Sitting {
    /// The planted cause was named first, or rightly none.
    pub fn is_right(&self) -> bool {
        self.said.as_deref() == Some(&self.truth)
    }

    /// Of its findings, those of the planted cause and all.
    pub fn graded(&self) -> (u64, u64) {
        let right = self.found.iter().filter(|cause| **cause == self.truth);
        (right.count() as u64, self.found.len() as u64)
    }

    /// What it found that was not planted.
    pub fn beside(&self) -> impl Iterator<Item = &str> {
        let other = self.found.iter().filter(|cause| **cause != self.truth);
        other.map(String::as_str)
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Exam {
    /// Always `exam`.
    pub r#type: &'static str,
    /// Seeds per scenario.
    pub seeds: u64,
    /// Each run.
    #[serde(skip)]
    pub sittings: Vec<Sitting>,
    /// What was planted against what was named first.
    pub matrix: Matrix,
    /// How often it was right, against what is asked.
    pub scores: Vec<Score>,
    /// The longest run, s.
    pub longest_s: f64,
}

impl Exam {
    /// Every bar was met.
    pub fn passed(&self) -> bool {
        self.scores.iter().all(|s| s.met)
    }

    /// Counts what was said.
    pub fn of(seeds: u64, sittings: Vec<Sitting>) -> Exam {
        Exam {
            r#type: "exam",
            seeds,
            matrix: Matrix::of(&sittings),
            scores: score::scores(&sittings),
            longest_s: sittings.iter().map(|s| s.seconds).fold(0.0, f64::max),
            sittings,
        }
    }
}

/// Holds the exam; `each` is told of every run as it ends. A run that fails counts as wrong. Wants
/// root; takes SIGINT, SIGTERM and SIGHUP from here on.
pub fn exam(options: &ExamOptions, mut each: impl FnMut(&Sitting)) -> Result<Exam, Error> {
    let stop = Stop::on_signals()?;
    let known = list()?;
    if let Some(unknown) = options
        .scenarios
        .iter()
        .find(|name| known.iter().all(|s| s.name != **name))
    {
        return Err(Error::UnknownScenario(unknown.clone()));
    }
    let asked =
        |name: &str| options.scenarios.is_empty() || options.scenarios.iter().any(|s| s == name);
    let mut sittings = Vec::new();
    // Seed by seed, so that an exam that is cut short has seen every scenario.
    for seed in 1..=options.seeds {
        for scenario in known.iter().filter(|s| asked(s.name)) {
            let sitting = sit(options, scenario.name, &scenario.cause, seed, &stop)?;
            each(&sitting);
            sittings.push(sitting);
        }
    }
    Ok(Exam::of(options.seeds, sittings))
}

fn sit(
    options: &ExamOptions,
    scenario: &str,
    truth: &str,
    seed: u64,
    stop: &Stop,
) -> Result<Sitting, Error> {
    let began = Instant::now();
    let run = RunOptions {
        seed,
        keep: options.keep.clone(),
        programs: options.programs.clone(),
        ..RunOptions::new(scenario)
    };
    let outcome = run_until(&run, stop.clone());
    let mut sitting = Sitting {
        r#type: "sitting",
        scenario: scenario.to_string(),
        seed,
        truth: truth.to_string(),
        said: None,
        found: Vec::new(),
        passed: false,
        why: Vec::new(),
        seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
    };
    match outcome {
        Ok(outcome) => {
            let truth = &outcome.truth;
            let findings = outcome.round.findings.iter();
            sitting.found = findings.map(|f: &Value| cause(f).to_string()).collect();
            sitting.found.retain(|cause| !truth.may.contains(cause));
            let first = sitting.found.first().map(String::as_str);
            sitting.said = Some(first.unwrap_or(Truth::HEALTHY).to_string());
            sitting.found.retain(|cause| !truth.beside.contains(cause));
            sitting.truth = outcome.truth.cause;
            sitting.passed = outcome.passed;
            sitting.why = outcome.why;
            // What was told rightly need not be looked at again.
            if let Some(recording) = outcome.round.recording.filter(|_| sitting.passed) {
                let _ = std::fs::remove_dir_all(recording);
            }
        }
        Err(e @ (Error::Interrupted | Error::NotRoot)) => return Err(e),
        Err(e) => sitting.why.push(format!("the run failed: {e}")),
    }
    Ok(sitting)
}
