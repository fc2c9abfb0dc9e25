//! A scenario run many times, a seed each: what each run came to, and what separates them.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::engine::{RunOptions, run_until};
use crate::judge::{cause, judge_runs};
use crate::outcome::Outcome;
use crate::plant::Programs;
use crate::recorder::compare;
use crate::scenario::Scenario;
use crate::{Error, Stop};

/// Many runs of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Repeated {
    /// The scenario.
    pub scenario: String,
    /// Its title.
    pub title: String,
    /// tcpwhy told the truth in every run.
    pub passed: bool,
    /// What was wrong with all of them together, each in a line.
    pub why: Vec<String>,
    /// The runs, by seed.
    pub runs: Vec<RunLine>,
    /// What `tcpwhy compare --json` says about their recordings; `None` of a single run.
    pub comparison: Option<Value>,
    /// The same to a person; only when it was asked for.
    #[serde(skip)]
    pub compared: Option<String>,
}

/// One of many runs.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine {
    /// Its seed.
    pub seed: u64,
    /// Throughput of all clients as they measured it, Mbit/s.
    pub mbit_per_s: f64,
    /// The causes that tcpwhy found, in its order.
    pub found: Vec<String>,
    /// tcpwhy told the truth.
    pub passed: bool,
    /// What was wrong; empty when passed.
    pub why: Vec<String>,
}

/// Runs a scenario `runs` times, with `options.seed` and those that follow it.
pub fn repeat(options: &RunOptions, runs: u64) -> Result<Repeated, Error> {
    let temporary;
    let keep: &Path = match &options.keep {
        Some(dir) => dir,
        None => {
            temporary = crate::leftovers::temp_dir()?;
            temporary.path()
        }
    };
    let mut repeated = Repeated {
        scenario: options.scenario.clone(),
        title: String::new(),
        passed: true,
        why: Vec::new(),
        runs: Vec::new(),
        comparison: None,
        compared: None,
    };
    let stop = Stop::on_signals()?;
    let mut recordings = Vec::new();
    for seed in (options.seed..).take(usize::try_from(runs).unwrap_or(usize::MAX)) {
        let run = RunOptions {
            seed,
            keep: Some(keep.to_path_buf()),
            explain: false,
            ..options.clone()
        };
        let outcome = run_until(&run, stop.clone())?;
        recordings.extend(outcome.round.recording.clone());
        repeated.title.clone_from(&outcome.title);
        repeated.passed &= outcome.passed;
        repeated.runs.push(line(&outcome));
    }
    if recordings.len() > 1 {
        let programs = options.programs.clone();
        let tcpwhy = programs.map_or_else(Programs::current, Ok)?.tcpwhy;
        let json = compare(&tcpwhy, &recordings, &["--json"], &stop)?;
        repeated.comparison = serde_json::from_str(&json).ok();
        if options.explain {
            repeated.compared = Some(compare(&tcpwhy, &recordings, &[], &stop)?);
        }
    }
    if let Some(truth) = Scenario::load(&options.scenario, options.seed)?.truth.runs {
        let bad = repeated.runs.iter().filter(|r| !r.found.is_empty()).count();
        let asked = (options.seed, runs) == (truth.seed, truth.count);
        let counts = (bad, repeated.runs.len());
        repeated.why = judge_runs(&truth, asked, counts, repeated.comparison.as_ref());
        repeated.passed &= repeated.why.is_empty();
    }
    Ok(repeated)
}

fn line(outcome: &Outcome) -> RunLine {
    let clients = outcome.round.workload.clients.iter();
    let sum: f64 = clients.map(|c| c.mbit_per_s).sum();
    RunLine {
        seed: outcome.seed,
        mbit_per_s: (sum * 10.0).round() / 10.0,
        found: outcome
            .round
            .findings
            .iter()
            .map(|f| cause(f).to_string())
            .collect(),
        passed: outcome.passed,
        why: outcome.why.clone(),
    }
}

/// The runs as a table, then what separates them.
pub fn render_runs(repeated: &Repeated) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_runs(&mut text, repeated);
    text
}

fn write_runs(text: &mut String, repeated: &Repeated) -> std::fmt::Result {
    writeln!(
        text,
        "scenario  {}: {}\n",
        repeated.scenario, repeated.title
    )?;
    let most = repeated.runs.iter().map(|r| r.mbit_per_s);
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    writeln!(text, "  seed   Mbit/s  said")?;
    for run in &repeated.runs {
        let bar = "#".repeat((run.mbit_per_s / most * 30.0).round() as usize);
        let said = if run.found.is_empty() {
            "nothing is wrong".to_string()
        } else {
            run.found.join(", ")
        };
        let wrong = if run.passed { "" } else { "  WRONG" };
        writeln!(
            text,
            "  {:>4} {:>8.1}  {bar:<30}  {said}{wrong}",
            run.seed, run.mbit_per_s
        )?;
        for why in &run.why {
            writeln!(text, "       wrong: {why}")?;
        }
    }
    if let Some(compared) = &repeated.compared {
        writeln!(text, "\n{}", compared.trim_end())?;
    }
    for why in &repeated.why {
        writeln!(text, "\nwrong: {why}")?;
    }
    let right = repeated.runs.iter().filter(|r| r.passed).count();
    let all = repeated.runs.len();
    writeln!(text, "\n{right} of {all} runs told right")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_read_well() {
        let line = |seed, mbit_per_s, found: &[&str]| RunLine {
            seed,
            mbit_per_s,
            found: found.iter().map(|f| f.to_string()).collect(),
            passed: true,
            why: vec![],
        };
        let repeated = Repeated {
            scenario: "mesh".into(),
            title: "A mesh".into(),
            passed: true,
            why: vec![],
            runs: vec![line(1, 600.0, &[]), line(2, 500.0, &["syn-cookies"])],
            comparison: None,
            compared: Some("Two modes.\n".into()),
        };
        let expected = "\
scenario  mesh: A mesh

  seed   Mbit/s  said
     1    600.0  ##############################  nothing is wrong
     2    500.0  #########################       syn-cookies

Two modes.

2 of 2 runs told right
";
        assert_eq!(render_runs(&repeated), expected);
    }
}
