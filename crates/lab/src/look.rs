//! One look at what is planted: the load of all of it, one recording, and what tcpwhy says of each scenario.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::figures::{LinkReport, Workload};
use crate::host_time::{HostTime, tells_of_steal};
use crate::judge::Running;
use crate::outcome::{Printed, Round};
use crate::plant::{BUDGET, Plant, Programs, Running as Loading};
use crate::printed::{self, Planted};
use crate::recorder::{Diagnosis, Recorded, Recorder, Shelf, diagnose, explanation};
use crate::scenario::Scenario;
use crate::{Error, Stop};

/// Scenarios that are planted side by side, each in nodes of its own, and looked at together.
pub(crate) struct Bench {
    tcpwhy: PathBuf,
    pub(crate) plants: Vec<Plant>,
    shelf: Shelf,
    stop: Stop,
    /// The recordings stay.
    kept: bool,
    /// More options for `tcpwhy record`.
    pub(crate) record: Vec<String>,
    /// The explanation is asked for in words too.
    pub(crate) in_words: bool,
    /// The commands of the advice are run as they are printed.
    pub(crate) runs_printed: bool,
    /// Say what is being done.
    pub(crate) loud: bool,
}

/// A scenario as it was seen, without a word about whether that is right.
pub(crate) struct Seen {
    /// What tcpwhy said of its nodes and of the whole host, and what its load saw.
    pub(crate) round: Round,
    /// Its servers as they ran.
    pub(crate) servers: Vec<Running>,
    /// What came of the commands that tcpwhy printed; only where they are to be run.
    pub(crate) commands: Vec<Printed>,
}

/// A load that has ended.
pub(crate) struct Loaded {
    /// Per scenario: what its processes measured, and its servers as they ran.
    pub(crate) each: Vec<(Workload, Vec<Running>)>,
    /// CPU time that the host's hypervisor took meanwhile.
    stolen: f64,
}

impl Bench {
    /// Plants scenarios, whose names must have been made different. The recordings go to `keep`.
    pub(crate) fn new(
        scenarios: &[Scenario],
        seed: u64,
        programs: &Programs,
        keep: Option<&Path>,
        stop: &Stop,
    ) -> Result<Bench, Error> {
        let plant = |scenario: &Scenario| Plant::new(scenario.clone(), seed, programs.clone());
        let mut bench = Bench {
            tcpwhy: programs.tcpwhy.clone(),
            plants: scenarios.iter().map(plant).collect::<Result<_, _>>()?,
            shelf: Shelf::new(keep)?,
            stop: stop.clone(),
            kept: keep.is_some(),
            record: Vec::new(),
            in_words: false,
            runs_printed: false,
            loud: false,
        };
        bench.wait_joined()?;
        for plant in &mut bench.plants {
            plant.prepare(stop)?;
        }
        Ok(bench)
    }

    /// Waits until every link carries packets.
    pub(crate) fn wait_joined(&self) -> Result<(), Error> {
        let mut plants = self.plants.iter();
        plants.try_for_each(|plant| plant.wait_joined(&self.stop))
    }

    /// One recording with its load: each scenario as it was seen, and what tcpwhy says of all in words.
    pub(crate) fn look(&mut self, name: &str) -> Result<(Vec<Seen>, Option<String>), Error> {
        let recording = self.shelf.recording(name)?;
        let record = |bench: &Bench| Ok(vec![bench.record(&recording)?]);
        let mut tried = None;
        let Loaded { each, stolen } = if self.runs_printed {
            // While the processes that it names are there.
            self.load_with(record, |bench, planted| {
                let diagnosis = bench.diagnose(&recording)?;
                let commands = bench.run_printed(&diagnosis, planted);
                tried = Some((diagnosis, commands));
                Ok(())
            })?
        } else {
            self.load(record)?
        };
        let (mut diagnosis, commands) = match tried {
            Some(tried) => tried,
            None => (self.diagnose(&recording)?, Vec::new()),
        };
        // What else happens on the host is not planted.
        diagnosis.findings.retain(|f| !tells_of_steal(f, stolen));
        let in_words = if self.in_words {
            Some(explanation(&self.tcpwhy, &recording, &self.stop)?)
        } else {
            None
        };
        let mut commands = commands.into_iter();
        let seen = each.into_iter().enumerate();
        let seen = seen.map(|(at, (workload, servers))| Seen {
            commands: commands.next().unwrap_or_default(),
            round: Round {
                workload,
                recording: self.kept.then(|| recording.clone()),
                ..self.said_of(at, &diagnosis)
            },
            servers,
        });
        Ok((seen.collect(), in_words))
    }

    /// The load of all of it, while what `record` starts records.
    pub(crate) fn load(
        &mut self,
        record: impl FnOnce(&Bench) -> Result<Vec<Recorder>, Error>,
    ) -> Result<Loaded, Error> {
        self.load_with(record, |_, _| Ok(()))
    }

    /// The same, with what is to be done when all is recorded and the servers and hogs still run.
    fn load_with(
        &mut self,
        record: impl FnOnce(&Bench) -> Result<Vec<Recorder>, Error>,
        then: impl FnOnce(&Bench, &[Planted]) -> Result<(), Error>,
    ) -> Result<Loaded, Error> {
        self.start_servers(true)?;
        let mut loading = self.start_older()?;
        let began = HostTime::now();
        let recorders = record(self)?;
        self.start_servers(false)?;
        self.say("recording while the load runs");
        // All have begun before one is waited for.
        for (plant, loading) in self.plants.iter_mut().zip(&mut loading) {
            if loading.is_none() {
                *loading = Some(plant.start_clients()?);
            }
        }
        let mut loads = Vec::new();
        for (plant, loading) in self.plants.iter_mut().zip(&mut loading) {
            let finished = loading
                .as_mut()
                .map(|l| plant.finish_clients(l, &self.stop));
            loads.push(finished.transpose()?.unwrap_or_default());
        }
        for recorder in recorders {
            recorder.finish(&self.stop)?;
        }
        let stolen = HostTime::now().stolen_since(began);
        let planted = self.plants.iter().zip(&loading).map(|(plant, loading)| {
            let mut planted = plant.planted();
            planted.pids.extend(loading.iter().flat_map(Loading::hogs));
            planted
        });
        let planted: Vec<Planted> = planted.collect();
        then(self, &planted)?;
        for loading in loading.into_iter().flatten() {
            loading.end(&self.stop)?;
        }
        let running = self.plants.iter().map(running);
        let running = running.collect::<Result<Vec<_>, _>>()?;
        let mut workloads = Vec::new();
        for (plant, load) in self.plants.iter_mut().zip(loads) {
            workloads.push(Workload {
                clients: load.clients,
                binders: load.binders,
                servers: plant.stop_servers(&self.stop)?,
                links: plant.link_counters().map(link_report).collect(),
            });
        }
        Ok(Loaded {
            each: workloads.into_iter().zip(running).collect(),
            stolen,
        })
    }

    /// Starts the servers of those that want them before the recording, or of the others.
    fn start_servers(&mut self, first: bool) -> Result<(), Error> {
        let mut plants = self.plants.iter_mut();
        plants.try_for_each(|plant| {
            if plant.scenario.servers_first == first {
                plant.start_servers(&self.stop)
            } else {
                Ok(())
            }
        })
    }

    /// Starts the loads that are older than the recording, and waits until each is as old as its file says.
    fn start_older(&mut self) -> Result<Vec<Option<Loading>>, Error> {
        let older = |plant: &Plant| Duration::from_secs_f64(plant.scenario.record_after_ms / 1e3);
        let oldest = self.plants.iter().map(older).max().unwrap_or_default();
        let begins = Instant::now() + oldest;
        let stop = &self.stop;
        let wait_until = |time: Instant| {
            let is_time = || Ok((Instant::now() >= time).then_some(()));
            stop.wait("the load to run", oldest + BUDGET, is_time)
        };
        let mut order: Vec<usize> = (0..self.plants.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(older(&self.plants[*at])));
        let mut loading: Vec<_> = self.plants.iter().map(|_| None).collect();
        for at in order {
            let plant = &mut self.plants[at];
            if !older(plant).is_zero() {
                wait_until(begins - older(plant))?;
                loading[at] = Some(plant.start_clients()?);
            }
        }
        wait_until(begins)?;
        Ok(loading)
    }

    fn record(&self, recording: &Path) -> Result<Recorder, Error> {
        let scenarios = || self.plants.iter().map(|plant| &plant.scenario);
        let namespaces: Vec<&str> = if scenarios().any(|s| s.neighbours > 0) {
            Vec::new()
        } else {
            self.plants.iter().flat_map(Plant::recorded).collect()
        };
        let mut parts: Vec<String> = scenarios().flat_map(|s| s.record.clone()).collect();
        parts.sort();
        parts.dedup();
        let longest = scenarios().map(Scenario::seconds).fold(0.0, f64::max);
        let what = Recorded {
            recording,
            namespaces: &namespaces,
            parts: &parts,
            options: &self.record,
            at_most: Duration::from_secs_f64(longest) + Duration::from_secs(60),
        };
        Recorder::start(&self.tcpwhy, &what, &self.stop)
    }

    fn diagnose(&self, recording: &Path) -> Result<Diagnosis, Error> {
        self.say("explaining the recording");
        diagnose(&self.tcpwhy, recording, &self.stop)
    }

    /// Runs the commands that tcpwhy printed for each scenario.
    fn run_printed(&self, said: &Diagnosis, planted: &[Planted]) -> Vec<Vec<Printed>> {
        self.say("running the commands of the advice as they are printed");
        let each = planted.iter().enumerate().map(|(at, planted)| {
            let findings = self.said_of(at, said).findings;
            printed::run_all(&findings, planted, &self.tcpwhy)
        });
        each.collect()
    }

    /// What tcpwhy said of one scenario.
    fn said_of(&self, at: usize, said: &Diagnosis) -> Round {
        let mine = |rows: &[Value], netns: fn(&Value) -> &Value| -> Vec<Value> {
            let mine = rows.iter().filter(|row| self.concerns(at, netns(row)));
            mine.cloned().collect()
        };
        Round {
            findings: mine(&said.findings, |f| &f["scope"]["netns"]),
            accounts: mine(&said.accounts, |a| &a["netns"]),
            notes: mine(&said.notes, |n| &n["scope"]["netns"]),
            summary: said.summary.clone(),
            ..Round::default()
        }
    }

    /// Whether what tcpwhy says of a namespace is a scenario's affair: of its own, or of the whole host, which counts
    /// against each of them as it does against one that is planted alone.
    fn concerns(&self, at: usize, netns: &Value) -> bool {
        let name = netns["name"].as_str();
        let of = |plant: &Plant| name.is_some_and(|name| plant.recorded().contains(&name));
        match self.plants[at].scenario.neighbours {
            0 => {
                let mut others = self.plants.iter().enumerate();
                !others.any(|(other, plant)| other != at && of(plant))
            }
            // What else is on a host that is recorded whole is not planted.
            _ => of(&self.plants[at]),
        }
    }

    pub(crate) fn say(&self, what: &str) {
        say(self.loud, what);
    }
}

/// The servers of a scenario as they run, for the judge.
fn running(plant: &Plant) -> Result<Vec<Running>, Error> {
    let scenario = &plant.scenario;
    let programs = scenario.programs.iter().filter_map(|spec| {
        let pids = plant.program_pids(&spec.name);
        let netns = plant.nodes()[&spec.node].name();
        Some(Ok(Running::program(spec, spec.port?, pids, netns)))
    });
    let servers = scenario.servers.iter();
    servers
        .map(|spec| {
            let netns = &plant.nodes()[&spec.node];
            let somaxconn = netns.sysctl("net.core.somaxconn")?.parse();
            let pid = plant.server_pid(&spec.name).unwrap_or_default();
            let counted = match &scenario.truth.counter {
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

fn link_report((between, [there, back]): ([String; 2], [crate::Counters; 2])) -> LinkReport {
    LinkReport {
        between,
        there,
        back,
    }
}

/// Says what is being done, on stderr.
pub(crate) fn say(loud: bool, what: &str) {
    if loud {
        eprintln!("lab: {what}");
    }
}
