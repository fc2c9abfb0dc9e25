//! The scenarios of the lab, each once: those of `make test`, and with `--ignored` those that
//! `make test-lab` adds. What is right of them, and who runs them, stands in their own files.
//!
//! Those that may stand beside others are planted some at a time and looked at together: a pack, whose time falls on
//! the first of it. Of a pack only those run that are asked for; one by itself runs alone.

mod common;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use common::{json_lines, need_root, run, stderr};
use lab::Check;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for quick in [true, false] {
        let packs = lab::packs(quick).expect("the scenarios are sound");
        for (at, checks) in packs.into_iter().enumerate() {
            let kind = match checks.len() {
                1 => String::new(),
                _ => format!("pack {}{}", if quick { "q" } else { "" }, at + 1),
            };
            trials.extend(of_pack(&args, &kind, checks, quick));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

/// The trials of a pack.
fn of_pack(args: &Arguments, kind: &str, checks: Vec<Check>, quick: bool) -> Vec<Trial> {
    let named = |check: &Check, runner: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        let trial = Trial::test(check.name.clone(), runner);
        trial.with_kind(kind).with_ignored_flag(!quick)
    };
    let is_asked = |check: &Check| {
        let runs = quick || args.ignored || args.include_ignored;
        runs && !args.is_filtered_out(&named(check, Box::new(|| Ok(()))))
    };
    let asked = checks.iter().filter(|check| is_asked(check)).cloned();
    let pack = Arc::new(Pack {
        checks: asked.collect(),
        told: OnceLock::new(),
    });
    let trial = |check: &Check| {
        let (pack, mine) = (pack.clone(), check.clone());
        named(check, Box::new(move || pack.passes(&mine)))
    };
    checks.iter().map(trial).collect()
}

/// Checks that are one look.
struct Pack {
    checks: Vec<Check>,
    /// What came of it, once the first of them ran.
    told: OnceLock<Result<Vec<Value>, String>>,
}

impl Pack {
    fn passes(&self, check: &Check) -> Result<(), Failed> {
        need_root();
        if self.checks.len() < 2 {
            return alone(check).map_err(Failed::from);
        }
        let told = self.told.get_or_init(|| together(&self.checks));
        let wrong = match told {
            Ok(outcomes) => {
                let at = self.checks.iter().position(|c| c == check);
                wrong(at.and_then(|at| outcomes.get(at)))
            }
            Err(why) => Err(why.clone()),
        };
        let Err(wrong) = wrong else { return Ok(()) };
        // Whatever comes of it, this has failed: it tells where to look.
        let (alone, whose) = match alone(check) {
            Ok(()) => (
                "passed".to_string(),
                "Alone it passes: it is a defect of one of the pack's scenarios, or of planting them together.",
            ),
            Err(why) => (why, "Alone it fails too."),
        };
        let names: Vec<&str> = self.checks.iter().map(|c| &c.name[..]).collect();
        let names = names.join(", ");
        Err(format!("alone:\n{alone}\n\nin the pack of {names}:\n{wrong}\n\n{whose}").into())
    }
}

/// Plants a pack: an outcome for each, in their order.
fn together(checks: &[Check]) -> Result<Vec<Value>, String> {
    let names = checks.iter().map(|check| &check.args[0][..]);
    let more = checks[0].args[1..].iter().map(String::as_str);
    let args: Vec<&str> = names.clone().chain(more).collect();
    let began = Instant::now();
    let output = run(&[&["lab", "run"], &args[..], &["--json"]].concat());
    let took = began.elapsed().as_secs_f64();
    eprintln!(
        "pack of {}: {took:.1} s",
        names.collect::<Vec<_>>().join(", ")
    );
    let outcomes = json_lines(&output);
    let passed = outcomes.iter().all(|outcome| outcome["passed"] == true);
    // What it ends with is of all of them.
    if outcomes.len() == checks.len() && output.status.success() == passed {
        Ok(outcomes)
    } else {
        Err(format!("{}: {}", output.status, stderr(&output)))
    }
}

fn alone(check: &Check) -> Result<(), String> {
    let args: Vec<&str> = check.args.iter().map(String::as_str).collect();
    let output = run(&[&["lab", "run"], &args[..], &["--json"]].concat());
    let [outcome] = &json_lines(&output)[..] else {
        return Err(stderr(&output));
    };
    if output.status.success() {
        wrong(Some(outcome))
    } else {
        Err(told(outcome))
    }
}

/// Why an outcome is none that passes; `passed` is the judge's word.
fn wrong(outcome: Option<&Value>) -> Result<(), String> {
    match outcome {
        Some(outcome) if outcome["passed"] == true => Ok(()),
        Some(outcome) => Err(told(outcome)),
        None => Err("no outcome of it".to_string()),
    }
}

/// An outcome for whoever has to find out; why it is wrong comes last, where a log that is cut still has it.
fn told(outcome: &Value) -> String {
    format!("{outcome}\n{}", outcome["why"])
}
