//! One run of a scenario, or of several side by side: plant them, record them with the built binary, ask why,
//! compare with the truth of each; with `fix`, apply the advice and do it again.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::figures::figures;
use crate::judge::{
    Running, answers_to_missed, cause, judge, judge_account, judge_fix, judge_notes, truth_of,
};
use crate::leftovers::clean_leftovers;
use crate::look::{Bench, Seen, say};
use crate::outcome::{Change, Fix, Outcome, Pack, Round};
use crate::plant::{Programs, require_root};
use crate::scenario::Scenario;
use crate::shield::Shield;
use crate::{Error, Stop, fix};

/// How to run a scenario.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Its name.
    pub scenario: String,
    /// Others that are planted beside it, each in nodes of its own, and looked at together with it; for [`run_pack`].
    pub beside: Vec<String>,
    /// Repeats a run; another seed varies counts and times a little.
    pub seed: u64,
    /// Values of its file that are others: `links/0/path/loss=0.05`.
    pub changes: Vec<String>,
    /// Apply the advice of the first finding, and measure again.
    pub fix: bool,
    /// Keep the recordings in this directory.
    pub keep: Option<PathBuf>,
    /// More options for `tcpwhy record`.
    pub record: Vec<String>,
    /// Ask for the explanation in words too, for [`crate::render`].
    pub explain: bool,
    /// Say what is being done, on stderr; otherwise only if that is a terminal.
    pub verbose: bool,
    /// The binary to drive; the program that runs this code when absent.
    pub programs: Option<Programs>,
}

impl RunOptions {
    /// A run with the defaults.
    pub fn new(scenario: impl Into<String>) -> RunOptions {
        RunOptions {
            scenario: scenario.into(),
            beside: Vec::new(),
            seed: 1,
            changes: Vec::new(),
            fix: false,
            keep: None,
            record: Vec::new(),
            explain: false,
            verbose: false,
            programs: None,
        }
    }
}

/// A scenario as it was seen, without a word about whether that is right.
pub(crate) struct Observed {
    /// What tcpwhy said and the load saw.
    pub(crate) round: Round,
    /// The servers as they ran.
    pub(crate) servers: Vec<Running>,
    /// The nodes by the names of their namespaces.
    pub(crate) nodes: BTreeMap<String, String>,
}

/// Plants a scenario and lets tcpwhy look at it. The recording goes to `keep` under the scenario's name.
pub(crate) fn observe(
    scenario: &Scenario,
    seed: u64,
    programs: &Programs,
    keep: Option<&Path>,
    stop: &Stop,
) -> Result<Observed, Error> {
    require_root()?;
    clean_leftovers()?;
    // Left when everything that ran in it has ended.
    let _shield = Shield::raise();
    let mut bench = Bench::new(std::slice::from_ref(scenario), seed, programs, keep, stop)?;
    let (seen, _) = bench.look(&scenario.name)?;
    let nodes = bench.plants.iter().flat_map(|plant| plant.nodes());
    let nodes = nodes.map(|(node, netns)| (netns.name().to_string(), node.clone()));
    let nodes = nodes.collect();
    let mut seen = seen.into_iter();
    let Seen { round, servers, .. } = seen.next().expect("one was planted");
    Ok(Observed {
        round,
        servers,
        nodes,
    })
}

/// Runs a scenario by itself. Takes SIGINT, SIGTERM and SIGHUP from here on: they end the run, and
/// everything it made is removed. Wants root, and the calling thread to stay: its programs die
/// with it.
pub fn run(options: &RunOptions) -> Result<Outcome, Error> {
    run_until(options, Stop::on_signals()?)
}

/// The same, ended by `stop` instead of signals.
pub(crate) fn run_until(options: &RunOptions, stop: Stop) -> Result<Outcome, Error> {
    let by_itself = RunOptions {
        beside: Vec::new(),
        ..options.clone()
    };
    let pack = run_all(&by_itself, stop)?;
    let mut outcomes = pack.outcomes.into_iter();
    let mut outcome = outcomes.next().expect("one was run");
    outcome.round.explanation = pack.explanation;
    Ok(outcome)
}

/// Runs a scenario and those beside it as [`run`] does one: each is judged by its own truth, on what was found in its
/// own nodes and of the whole host.
pub fn run_pack(options: &RunOptions) -> Result<Pack, Error> {
    run_all(options, Stop::on_signals()?)
}

fn run_all(options: &RunOptions, stop: Stop) -> Result<Pack, Error> {
    let scenarios = load(options)?;
    let programs = options
        .programs
        .clone()
        .map_or_else(Programs::current, Ok)?;
    require_root()?;
    let loud = options.verbose || std::io::stderr().is_terminal();
    for leftover in clean_leftovers()? {
        let what = format!("removed {leftover}, left behind by a killed run");
        say(loud, &what);
    }
    // Left when everything that ran in it has ended.
    let _shield = Shield::raise();
    for scenario in &scenarios {
        say(
            loud,
            &format!("planting {}: {}", scenario.name, scenario.title),
        );
    }
    let keep = options.keep.as_deref();
    let mut bench = Bench::new(&scenarios, options.seed, &programs, keep, &stop)?;
    bench.record.clone_from(&options.record);
    (bench.in_words, bench.loud) = (options.explain, loud);
    bench.runs_printed = options.fix;
    let names: Vec<String> = scenarios.iter().map(|s| s.name.clone()).collect();
    let name = format!("{}-{}", names.join("+"), options.seed);
    let (seen, explanation) = bench.look(&name)?;
    let mut fixes: Vec<Option<Fix>> = if options.fix {
        fixed(&mut bench, &seen, &format!("{name}-fixed"))?
    } else {
        seen.iter().map(|_| None).collect()
    };
    let outcomes = scenarios.into_iter().zip(seen).enumerate();
    let outcomes = outcomes.map(|(at, (scenario, seen))| {
        let mut beside = names.clone();
        beside.remove(at);
        let outcome = judged(scenario, seen, fixes[at].take());
        Outcome {
            seed: options.seed,
            beside,
            ..outcome
        }
    });
    Ok(Pack {
        explanation,
        outcomes: outcomes.collect(),
    })
}

/// The scenarios that are asked for: one by itself as its file has it, several under names that no other has.
fn load(options: &RunOptions) -> Result<Vec<Scenario>, Error> {
    let first = Scenario::load_changed(&options.scenario, options.seed, &options.changes)?;
    if options.beside.is_empty() {
        return Ok(vec![first]);
    }
    let mut all = vec![first];
    for name in &options.beside {
        all.push(Scenario::load(name, options.seed)?);
    }
    Scenario::side_by_side(all)
}

/// Applies the advice of the first finding of each, and looks at all of them again.
fn fixed(bench: &mut Bench, before: &[Seen], name: &str) -> Result<Vec<Option<Fix>>, Error> {
    let mut applied: Vec<Option<(String, Vec<Change>)>> = Vec::new();
    for (plant, seen) in bench.plants.iter_mut().zip(before) {
        let first = seen.round.findings.first();
        applied.push(first.map(|f| (cause(f).to_string(), fix::apply(plant, f))));
    }
    let changes = applied.iter().flatten().flat_map(|(_, changes)| changes);
    changes.for_each(|change| bench.say(&change.result));
    if applied.iter().all(Option::is_none) {
        return Ok(before.iter().map(|_| None).collect());
    }
    bench.wait_joined()?;
    bench.runs_printed = false;
    let (after, _) = bench.look(name)?;
    let fixes = applied.into_iter().zip(before).zip(after);
    let fix = |(applied, before): (Option<_>, &Seen), after: Seen| {
        let (of, changes): (String, Vec<Change>) = applied?;
        Some(Fix {
            gone: !after.round.findings.iter().any(|f| cause(f) == of),
            commands: before.commands.clone(),
            figures: figures(&before.round.workload, &after.round.workload),
            changes,
            after: after.round,
        })
    };
    Ok(fixes.map(|(before, after)| fix(before, after)).collect())
}

/// What a scenario came to, by its truth.
fn judged(scenario: Scenario, seen: Seen, fix: Option<Fix>) -> Outcome {
    let Seen { round, servers, .. } = seen;
    let mut why = judge(&scenario, &servers, &round.findings);
    why.extend(judge_notes(&scenario.truth, &round.notes));
    why.extend(judge_account(&scenario.truth, &servers, &round.accounts));
    if let (Some(fix), Some(first)) = (&fix, round.findings.first()) {
        why.extend(judge_fix(&scenario.truth, fix, cause(first)));
    }
    if !why.is_empty() {
        let summary = round.summary.as_ref();
        why.extend(answers_to_missed(&scenario.truth, &round.findings, summary));
    }
    Outcome {
        truth: truth_of(&scenario, &servers),
        title: scenario.title,
        scenario: scenario.name,
        seed: 0,
        beside: Vec::new(),
        passed: why.is_empty(),
        why,
        round,
        fix,
    }
}
