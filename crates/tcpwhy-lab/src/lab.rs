//! `tcpwhy-lab lab`: faults planted on the real kernel, in namespaces of the lab's own.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use crate::{corpus, exam, situations};

/// What to do in the lab.
#[derive(Subcommand, Debug)]
pub enum LabVerb {
    /// List the scenarios
    List {
        /// One JSON object per scenario
        #[arg(long)]
        json: bool,
        /// The scenarios of a test suite: names, with +fix where the advice is checked too
        #[arg(long, value_enum, conflicts_with = "json")]
        suite: Option<Suite>,
    },
    /// Plant a scenario's fault, record it, explain it, and compare with the truth
    Run(RunArgs),
    /// Run random situations, with faults and without, and grade the answers
    Exam(exam::ExamArgs),
    /// Play situations as production composes them, and grade what is said from each side
    Situations(situations::SituationsArgs),
    /// Record the corpus: every scenario just above and just below detection, and what the exam got wrong
    Corpus(corpus::CorpusArgs),
}

/// The suites of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// What `make test` runs
    Test,
    /// What `make test-lab` adds
    Lab,
}

/// Arguments of `tcpwhy lab run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// A scenario, or a file that describes one (x.toml); several are planted side by side and explained together
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Another seed varies counts and timing a little; the truth stays
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Change a value of the scenario's file: --set links/0/path/loss=0.05
    #[arg(long = "set", value_name = "PLACE=VALUE")]
    changes: Vec<String>,
    /// Apply the advice inside the namespaces and measure again
    #[arg(long)]
    fix: bool,
    /// Run it N times, with this seed and the following ones, and compare the runs
    #[arg(long, value_name = "N", conflicts_with = "fix", value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    /// Keep the recordings in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// More options for `tcpwhy record`: --record='--max-cpu 50'
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        hide_default_value = true
    )]
    record: String,
    /// One JSON object per scenario
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(verb: LabVerb, mut out: &mut dyn Write) -> Result<ExitCode> {
    let out = &mut out;
    match verb {
        LabVerb::List { json, suite } => list(json, suite, out),
        LabVerb::Run(args) => scenario(args, out),
        LabVerb::Exam(args) => exam::run(args, out),
        LabVerb::Situations(args) => situations::run(args, out),
        LabVerb::Corpus(args) => corpus::run(args, out),
    }
}

fn list(json: bool, suite: Option<Suite>, out: &mut impl Write) -> Result<ExitCode> {
    if let Some(suite) = suite {
        for check in lab::checks(suite == Suite::Test)? {
            writeln!(out, "{}", check.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    for scenario in lab::list()? {
        if json {
            view::json::lines([&scenario], out)?;
        } else {
            writeln!(out, "{:<26} {}", scenario.name, scenario.title)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn scenario(args: RunArgs, out: &mut impl Write) -> Result<ExitCode> {
    let mut names = args.names.into_iter();
    let first = names.next().unwrap_or_default();
    let options = lab::RunOptions {
        beside: names.collect(),
        seed: args.seed,
        changes: args.changes,
        fix: args.fix,
        keep: args.keep,
        record: args.record.split_whitespace().map(String::from).collect(),
        explain: !args.json,
        ..lab::RunOptions::new(first)
    };
    if !options.beside.is_empty() {
        if args.runs.is_some() || !options.changes.is_empty() {
            bail!("--runs and --set are of one scenario, not of several");
        }
        return together(&options, args.json, out);
    }
    if let Some(runs) = args.runs {
        let repeated = lab::repeat(&options, runs)?;
        if args.json {
            view::json::lines([&repeated], out)?;
        } else {
            write!(out, "{}", lab::render_runs(&repeated))?;
        }
        return Ok(exit(repeated.passed));
    }
    let outcome = lab::run(&options)?;
    if args.json {
        view::json::lines([&outcome], out)?;
    } else {
        write!(out, "{}", lab::render(&outcome))?;
    }
    Ok(exit(outcome.passed))
}

/// Several scenarios in one look, each with an outcome of its own.
fn together(options: &lab::RunOptions, json: bool, out: &mut impl Write) -> Result<ExitCode> {
    let pack = lab::run_pack(options)?;
    if json {
        view::json::lines(&pack.outcomes, out)?;
    } else {
        let all = pack
            .explanation
            .iter()
            .map(|text| text.trim_end().to_string());
        let each = pack.outcomes.iter().map(lab::render);
        let blocks: Vec<String> = all.map(|text| text + "\n").chain(each).collect();
        write!(out, "{}", blocks.join("\n"))?;
    }
    Ok(exit(pack.outcomes.iter().all(|o| o.passed)))
}

fn exit(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
