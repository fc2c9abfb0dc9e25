//! One run of a scenario: plant it, record it with the built binary, ask why, compare with the
//! truth; with `fix`, apply the advice and do it again.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host_time::{HostTime, tells_of_steal};
use crate::judge::{Running, cause, judge, judge_account, judge_fix, judge_notes, truth_of};
use crate::leftovers::clean_leftovers;
use crate::outcome::{Fix, LinkReport, Outcome, Round, Workload, figures};
use crate::plant::{BUDGET, Plant, Programs, require_root};
use crate::recorder::{Recorded, Recorder, Shelf, diagnose, explanation};
use crate::scenario::Scenario;
use crate::shield::Shield;
use crate::{Error, Stop, fix};

/// How to run a scenario.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Its name.
    pub scenario: String,
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

/// One run under way.
struct Run {
    tcpwhy: PathBuf,
    record: Vec<String>,
    plant: Plant,
    shelf: Shelf,
    stop: Stop,
    /// The recordings stay.
    kept: bool,
    /// The explanation is asked for in words too.
    in_words: bool,
    loud: bool,
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
    let mut run = Run {
        tcpwhy: programs.tcpwhy.clone(),
        record: Vec::new(),
        plant: Plant::new(scenario.clone(), seed, programs.clone())?,
        shelf: Shelf::new(keep)?,
        stop: stop.clone(),
        kept: keep.is_some(),
        in_words: false,
        loud: false,
    };
    run.plant.wait_joined(&run.stop)?;
    run.plant.prepare(&run.stop)?;
    let (round, servers) = run.round(&scenario.name)?;
    let nodes = run.plant.nodes().iter();
    let nodes = nodes.map(|(node, netns)| (netns.name().to_string(), node.clone()));
    Ok(Observed {
        round,
        servers,
        nodes: nodes.collect(),
    })
}

/// Runs a scenario. Takes SIGINT, SIGTERM and SIGHUP from here on: they end the run, and
/// everything it made is removed. Wants root, and the calling thread to stay: its programs die
/// with it.
pub fn run(options: &RunOptions) -> Result<Outcome, Error> {
    run_until(options, Stop::on_signals()?)
}

/// The same, ended by `stop` instead of signals.
pub(crate) fn run_until(options: &RunOptions, stop: Stop) -> Result<Outcome, Error> {
    let scenario = Scenario::load_changed(&options.scenario, options.seed, &options.changes)?;
    let programs = options
        .programs
        .clone()
        .map_or_else(Programs::current, Ok)?;
    require_root()?;
    let loud = options.verbose || std::io::stderr().is_terminal();
    let say = |what: &str| say(loud, what);
    for leftover in clean_leftovers()? {
        say(&format!("removed {leftover}, left behind by a killed run"));
    }
    // Left when everything that ran in it has ended.
    let _shield = Shield::raise();
    say(&format!("planting {}: {}", scenario.name, scenario.title));
    let mut run = Run {
        tcpwhy: programs.tcpwhy.clone(),
        record: options.record.clone(),
        plant: Plant::new(scenario.clone(), options.seed, programs)?,
        shelf: Shelf::new(options.keep.as_deref())?,
        stop,
        kept: options.keep.is_some(),
        in_words: options.explain,
        loud,
    };
    run.plant.wait_joined(&run.stop)?;
    run.plant.prepare(&run.stop)?;
    let name = format!("{}-{}", scenario.name, options.seed);
    let (round, servers) = run.round(&name)?;
    let truth = truth_of(&scenario, &servers);
    let mut why = judge(&scenario, &servers, &round.findings);
    why.extend(judge_notes(&scenario.truth, &round.notes));
    why.extend(judge_account(&scenario.truth, &servers, &round.accounts));
    let fix = match round.findings.first().filter(|_| options.fix) {
        Some(finding) => {
            let fix = run.fix(finding, &round, &format!("{name}-fixed"))?;
            why.extend(judge_fix(&scenario.truth, &fix, cause(finding)));
            Some(fix)
        }
        None => None,
    };
    Ok(Outcome {
        title: scenario.title,
        scenario: scenario.name,
        seed: options.seed,
        truth,
        passed: why.is_empty(),
        why,
        round,
        fix,
    })
}

impl Run {
    /// One recording with its load, and what tcpwhy says about it.
    fn round(&mut self, name: &str) -> Result<(Round, Vec<Running>), Error> {
        let recording = self.shelf.recording(name)?;
        let first = self.plant.scenario.servers_first;
        if first {
            self.plant.start_servers(&self.stop)?;
        }
        let after = Duration::from_secs_f64(self.plant.scenario.record_after_ms / 1e3);
        let before = match after.is_zero() {
            true => None,
            false => Some(self.plant.start_clients()?),
        };
        let begins = Instant::now() + after;
        let is_time = || Ok((Instant::now() >= begins).then_some(()));
        self.stop.wait("the load to run", after + BUDGET, is_time)?;
        let began = HostTime::now();
        let recorder = self.record(&recording)?;
        if !first {
            self.plant.start_servers(&self.stop)?;
        }
        say(self.loud, "recording while the load runs");
        let load = match before {
            Some(running) => self.plant.finish_clients(running, &self.stop)?,
            None => self.plant.run_clients(&self.stop)?,
        };
        recorder.finish(&self.stop)?;
        let stolen = HostTime::now().stolen_since(began);
        let running = self.running()?;
        let servers = self.plant.stop_servers(&self.stop)?;
        say(self.loud, "explaining the recording");
        let mut diagnosis = diagnose(&self.tcpwhy, &recording, &self.stop)?;
        // What else happens on the host is not planted.
        diagnosis.findings.retain(|f| !tells_of_steal(f, stolen));
        if self.plant.scenario.neighbours > 0 {
            let ours = self.plant.recorded();
            let is_ours = |f: &serde_json::Value| {
                let netns = f["scope"]["netns"]["name"].as_str();
                netns.is_some_and(|name| ours.contains(&name))
            };
            diagnosis.findings.retain(is_ours);
        }
        let explanation = match self.in_words {
            true => Some(explanation(&self.tcpwhy, &recording, &self.stop)?),
            false => None,
        };
        let round = Round {
            findings: diagnosis.findings,
            accounts: diagnosis.accounts,
            notes: diagnosis.notes,
            summary: diagnosis.summary,
            explanation,
            workload: Workload {
                clients: load.clients,
                binders: load.binders,
                servers,
                links: self.plant.link_counters().map(link_report).collect(),
            },
            recording: self.kept.then_some(recording),
        };
        Ok((round, running))
    }

    fn record(&self, recording: &Path) -> Result<Recorder, Error> {
        let scenario = &self.plant.scenario;
        let namespaces = match scenario.neighbours {
            0 => self.plant.recorded(),
            _ => Vec::new(),
        };
        let clients = scenario.clients.iter().map(|c| (c.after_ms, c.seconds));
        let binders = scenario.binders.iter().map(|b| (b.after_ms, b.seconds));
        let longest = clients
            .chain(binders)
            .map(|(after_ms, seconds)| after_ms / 1000.0 + seconds)
            .fold(0.0, f64::max);
        let at_most = Duration::from_secs_f64(longest) + Duration::from_secs(60);
        let what = Recorded {
            recording,
            namespaces: &namespaces,
            parts: &scenario.record,
            options: &self.record,
            at_most,
        };
        Recorder::start(&self.tcpwhy, &what, &self.stop)
    }

    /// The servers as they run, for the judge.
    fn running(&self) -> Result<Vec<Running>, Error> {
        let scenario = &self.plant.scenario;
        let programs = scenario.programs.iter().filter_map(|spec| {
            let pids = self.plant.program_pids(&spec.name);
            let netns = self.plant.nodes()[&spec.node].name();
            Some(Ok(Running::program(spec, spec.port?, pids, netns)))
        });
        let servers = scenario.servers.iter();
        servers
            .map(|spec| {
                let netns = &self.plant.nodes()[&spec.node];
                let somaxconn = netns.sysctl("net.core.somaxconn")?.parse();
                let pid = self.plant.server_pid(&spec.name).unwrap_or_default();
                let counted = match &self.plant.scenario.truth.counter {
                    Some(name) => netns.counter(name)?,
                    None => None,
                };
                Ok(Running {
                    counted: counted.is_some_and(|n| n > 0),
                    ..Running::new(spec, pid, netns.name(), somaxconn.unwrap_or(u32::MAX))
                })
            })
            .chain(programs)
            .collect()
    }

    /// Applies the advice of a finding, and looks again.
    fn fix(
        &mut self,
        finding: &serde_json::Value,
        before: &Round,
        name: &str,
    ) -> Result<Fix, Error> {
        let changes = fix::apply(&mut self.plant, finding);
        for change in &changes {
            say(self.loud, &change.result);
        }
        self.plant.wait_joined(&self.stop)?;
        let (after, _) = self.round(name)?;
        Ok(Fix {
            gone: !after.findings.iter().any(|f| cause(f) == cause(finding)),
            figures: figures(&before.workload, &after.workload),
            changes,
            after,
        })
    }
}

fn link_report((between, [there, back]): ([String; 2], [crate::Counters; 2])) -> LinkReport {
    LinkReport {
        between,
        there,
        back,
    }
}

fn say(loud: bool, what: &str) {
    if loud {
        eprintln!("lab: {what}");
    }
}
