//! A recording in progress: starts the threads, and ends them with a complete manifest.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use recording::{
    FORMAT, Feed, HealthKind, Manifest, OwnCost, Ran, SourceName, Verdict, Writer, monotonic_ns,
};

use crate::budget;
use crate::error::{Error, quiet_libbpf};
use crate::health::HealthLog;
use crate::kernel::{defects, hz};
use crate::options::Options;
use crate::part::Part;
use crate::patience::Moments;
use crate::stacks::Stacks;
use crate::worker::{Longest, Report, Worker};
use crate::{host, limits, memory_limit, netns, rights, space};

/// As often as segments are sealed.
const MANIFEST_EVERY: Duration = Duration::from_secs(3);
/// Seldom against batches, whose memory is used again ten times a second; often against what a long recording gathers.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(30);
/// The stage of the end after which nothing more is recorded.
const LAST: usize = 3;

/// A recording in progress.
pub struct Session {
    writer: Writer,
    manifest: Manifest,
    ring_bytes: u32,
    /// With the part that each fills; `None` of the one that keeps to the budget.
    workers: Vec<(Option<Part>, Worker)>,
    health: HealthLog,
    moments: Moments,
    /// `None` when there is none, or nothing is left to switch off.
    budget: Option<Budget>,
    /// Sources that were switched off: when, and why.
    shed: BTreeMap<SourceName, String>,
    /// How often the manifest says how far it has come: as often as segments are sealed.
    manifest_every: Duration,
    /// What the process had taken before.
    cost_before: OwnCost,
    /// When memory was last given back.
    gave_back: Instant,
    /// When it began, and how long attaching had taken until then.
    began: Instant,
    attaching: Duration,
}

/// What recording may cost.
struct Budget {
    /// Percent of one CPU.
    most: f64,
    /// What it took when that was more.
    over: Receiver<f64>,
}

impl Session {
    /// Records into the directory `dir`, which must not exist. Attaches every part, and then begins: from that moment on
    /// the recording counts. Returns when the first samples have been taken.
    pub fn start(dir: &Path, options: &Options) -> Result<Session, Error> {
        let options = &prepare(options)?;
        let manifest = manifest(options);
        let writer = if options.redact {
            Writer::redacted(dir, &manifest)?
        } else {
            Writer::create(dir, &manifest)?
        };
        let writer = match options.seal_every {
            Some(every) => writer.sealing_every(every),
            None => writer,
        };
        let started = Session::start_in(writer.clone(), manifest, options);
        if started.is_err() {
            // Nothing was recorded: leave nothing behind.
            writer.discard();
        }
        started
    }

    /// Records for a reader in this process, which must keep reading.
    pub fn live(options: &Options) -> Result<(Session, Feed), Error> {
        let options = &prepare(options)?;
        let (writer, feed) = Feed::new();
        Ok((Session::start_in(writer, manifest(options), options)?, feed))
    }

    /// Records into the directory `dir` for a reader in this process, which must keep reading and
    /// gets every second what was written.
    pub fn followed(dir: &Path, options: &Options) -> Result<(Session, Feed), Error> {
        let options = &prepare(options)?;
        let manifest = manifest(options);
        let (writer, feed) = Writer::followed(dir, &manifest)?;
        Ok((Session::start_in(writer, manifest, options)?, feed))
    }

    fn start_in(writer: Writer, manifest: Manifest, options: &Options) -> Result<Self, Error> {
        // Once all that it had open is closed: to say how many are needed takes some.
        Session::attach(writer, manifest, options).map_err(Error::or_files)
    }

    fn attach(writer: Writer, manifest: Manifest, options: &Options) -> Result<Self, Error> {
        let health = HealthLog::new(writer.table()?);
        let mut session = Session {
            writer,
            manifest,
            ring_bytes: options.ring_bytes,
            workers: Vec::new(),
            health: health.clone(),
            moments: Moments::begin(options.max_cpu, options.stop.clone()),
            budget: None,
            shed: BTreeMap::new(),
            manifest_every: options.seal_every.unwrap_or(MANIFEST_EVERY),
            cost_before: host::own_cost(0, Longest::default()),
            gave_back: Instant::now(),
            began: Instant::now(),
            attaching: Duration::ZERO,
        };
        let begun = session.begin(options);
        match begun {
            Ok(()) => Ok(session),
            // What is in the middle of attaching ends by itself: who wants the end does not wait for it.
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(e) => {
                let workers = std::mem::take(&mut session.workers).into_iter();
                let told: Vec<Worker> = workers.map(|(_, w)| w.told_to_stop()).collect();
                // Why they ended is known.
                told.into_iter().for_each(|worker| drop(worker.finish()));
                Err(e)
            }
        }
    }

    /// Attaches every part, all at the same time; then the recording begins, and the first samples are taken.
    fn begin(&mut self, options: &Options) -> Result<(), Error> {
        let health = self.health.clone();
        let sock_key = match options.sock_key {
            Some(key) => key,
            None => host::sock_key()?,
        };
        for note in space::notes() {
            health.say(SourceName::Host, HealthKind::Partial, 1, note)?;
        }
        for lack in rights::lacking_for(options.parts.iter().copied()) {
            let detail = format!("this process lacks {}", lack.in_words());
            health.say(SourceName::Host, HealthKind::Partial, 1, detail)?;
        }
        let stacks = Stacks::new(&self.writer);
        for part in &options.parts {
            let (writer, moments) = (&self.writer, &self.moments);
            if let Some(worker) =
                part.start(options, sock_key, writer, &stacks, &health, moments)?
            {
                self.workers.push((Some(*part), worker));
            }
        }
        for at in 0..self.workers.len() {
            if !self.workers[at].1.attached(&self.moments)? {
                return Err(self.workers.remove(at).1.failed());
            }
        }
        self.attaching = self.began.elapsed();
        self.began = Instant::now();
        self.manifest.start_ns = monotonic_ns();
        self.manifest.end_ns = self.manifest.start_ns;
        // Packets begin before the events, none of which is then without its packets.
        let packets = self
            .workers
            .iter()
            .position(|(part, _)| *part == Some(Part::Packets));
        if let Some(at) = packets {
            self.workers[at].1.begin(self.manifest.start_ns);
            self.await_ready(at)?;
        }
        let from_ns = match packets {
            Some(_) => monotonic_ns(),
            None => self.manifest.start_ns,
        };
        let others = (0..self.workers.len()).filter(|at| Some(*at) != packets);
        for at in others.clone() {
            self.workers[at].1.begin(from_ns);
        }
        // While the first rounds are made.
        stacks.reload_symbols();
        for at in others {
            self.await_ready(at)?;
        }
        if let Some(most) = options.max_cpu {
            self.keep_to(most)?;
        }
        Ok(self.writer.manifest(&self.manifest)?)
    }

    /// Waits until this thread has made its first round.
    fn await_ready(&mut self, at: usize) -> Result<(), Error> {
        match self.workers[at].1.ready(&self.moments)? {
            Some(report) => drop(self.take(report)),
            None => return Err(self.workers.remove(at).1.failed()),
        }
        Ok(())
    }

    /// How long attaching took: until the recording began.
    pub fn attaching(&self) -> Duration {
        self.attaching
    }

    /// How long it has been recording.
    pub fn lasts(&self) -> Duration {
        self.began.elapsed()
    }

    /// From now on it is watched what recording costs.
    fn keep_to(&mut self, most: f64) -> Result<(), Error> {
        let (tell, over) = sync_channel(1);
        let health = self.health.clone();
        let worker = Worker::start("budget", &self.moments, move |c| {
            budget::keep(most, &tell, &health, &c)
        })?;
        self.workers.push((None, worker));
        self.budget = Some(Budget { most, over });
        Ok(())
    }

    /// Switches off the next of what is shed, if recording costs too much; then, what to tell the user.
    fn shed(&mut self) -> Result<Option<String>, Error> {
        let Some(budget) = &mut self.budget else {
            return Ok(None);
        };
        let Ok(percent) = budget.over.try_recv() else {
            return Ok(None);
        };
        let most = budget.most;
        let dear = format!("recording took {percent:.1} % of a CPU, more than --max-cpu {most}");
        for group in Part::SHED {
            if let Some(parts) = self.switch_off(group, &dear)? {
                return Ok(Some(format!("{dear}: switched off {parts}")));
            }
        }
        let nothing_left = self.budget.take();
        Ok(nothing_left.map(|_| format!("{dear}: nothing is left to switch off")))
    }

    /// Tells the thread that fills these parts to stop; which of them it filled, or `None` when none is on.
    fn switch_off(&mut self, group: &[Part], dear: &str) -> Result<Option<String>, Error> {
        let fills = |part: &Option<Part>| part.is_some_and(|p| group.contains(&p));
        let Some((_, worker)) = self.workers.iter_mut().find(|(part, _)| fills(part)) else {
            return Ok(None);
        };
        let after_ns = monotonic_ns().saturating_sub(self.manifest.start_ns);
        let after_s = after_ns as f64 / 1e9;
        let why = format!("switched off {after_s:.1} s after the start: {dear}");
        let names: Vec<&str> = group.iter().map(|part| part.name()).collect();
        let mut parts = Vec::new();
        for source in &mut self.manifest.sources {
            let name = &source.name;
            // What this kernel does not have costs nothing, nor what has been switched off.
            let on = source.verdict == Verdict::Attached && source.shed.is_none();
            if !on || !name.part().is_some_and(|part| names.contains(&part)) {
                continue;
            }
            // One row for each part: of its other sources the manifest says it.
            if names.contains(&name.as_str()) {
                (self.health).say(name.clone(), HealthKind::Shed, 1, why.as_str())?;
                parts.push(name.to_string());
            }
            self.shed.insert(name.clone(), why.clone());
            source.shed = Some(why.clone());
        }
        if parts.is_empty() {
            return Ok(None);
        }
        worker.stop();
        self.writer.manifest(&self.manifest)?;
        Ok(Some(parts.join(" and ")))
    }

    fn take(&mut self, report: Report) -> Longest {
        self.manifest.sources.extend(report.sources);
        // Several parts visit the same ones.
        let known = &mut self.manifest.namespaces;
        let mut inodes: HashSet<u32> = known.iter().map(|n| n.inode).collect();
        let new = report.namespaces.into_iter();
        known.extend(new.filter(|n| inodes.insert(n.inode)));
        report.longest
    }

    /// Says in the manifest, now and then, how far the recording has come: what a crash leaves then
    /// knows how long it is. Switches parts off when recording costs more than it may; then, what to tell the
    /// user. Call it often.
    pub fn tick(&mut self) -> Result<Option<String>, Error> {
        let now = monotonic_ns();
        if Duration::from_nanos(now.saturating_sub(self.manifest.end_ns)) >= self.manifest_every {
            self.manifest.end_ns = now;
            self.writer.manifest(&self.manifest)?;
        }
        if self.gave_back.elapsed() >= GIVE_BACK_EVERY {
            self.gave_back = Instant::now();
            host::give_back_memory();
        }
        self.shed()
    }

    /// The command that is recorded has begun: this process.
    pub fn runs(&mut self, pid: u32) {
        let is_ours = matches!(space::pids_verdict(), Verdict::Attached);
        self.manifest.ran = is_ours.then(|| Ran {
            pid,
            start_ns: monotonic_ns(),
            end_ns: None,
        });
    }

    /// It has ended by itself.
    pub fn has_run(&mut self) {
        if let Some(ran) = &mut self.manifest.ran {
            ran.end_ns = Some(monotonic_ns());
        }
    }

    /// What is known of it so far: the host, the clock, namespaces and sources.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Bytes of the recording so far.
    pub fn written(&self) -> u64 {
        self.writer.written()
    }

    /// What the recording takes on disk so far, bytes.
    pub fn on_disk(&self) -> u64 {
        self.writer.on_disk()
    }

    /// Whether a thread has ended by itself, which only an error makes it do: stop then.
    pub fn failed(&self) -> bool {
        self.workers.iter().any(|(_, w)| w.ended())
    }

    /// Takes the last samples, seals everything and completes the manifest.
    pub fn stop(mut self) -> Result<Manifest, Error> {
        let mut failed = None;
        let mut longest = Longest::default();
        self.manifest.sources.clear();
        self.manifest.namespaces.clear();
        self.moments.end();
        let mut stages = stages(std::mem::take(&mut self.workers));
        // What only notes what happens ends at once, and is waited for last: it has names to look up and much to seal.
        stages[LAST].iter_mut().for_each(Worker::stop);
        for (nth, stage) in stages.into_iter().enumerate() {
            if nth == LAST {
                self.manifest.end_ns = monotonic_ns();
            }
            let told = stage.into_iter().map(Worker::told_to_stop);
            for worker in told.collect::<Vec<_>>() {
                match worker.finish() {
                    Ok(report) => {
                        let l = self.take(report);
                        longest.round = longest.round.max(l.round);
                        longest.snapshot = longest.snapshot.max(l.snapshot);
                    }
                    Err(e) => failed = failed.or(Some(e.or_files())),
                }
            }
        }
        for source in &mut self.manifest.sources {
            source.shed = self.shed.remove(&source.name);
        }
        self.manifest.complete = failed.is_none();
        let cost = host::own_cost(self.ring_bytes, longest);
        self.manifest.cost = OwnCost {
            user_ms: cost.user_ms.saturating_sub(self.cost_before.user_ms),
            system_ms: cost.system_ms.saturating_sub(self.cost_before.system_ms),
            ..cost
        };
        self.writer.manifest(&self.manifest)?;
        match failed {
            Some(e) => Err(e),
            None => Ok(self.manifest),
        }
    }
}

/// In what order threads are waited for, those of a stage together: whoever samples, then the events, and after them
/// their packets. The last samples are then within the watched time. At last all others.
fn stages(workers: Vec<(Option<Part>, Worker)>) -> [Vec<Worker>; LAST + 1] {
    let mut stages = [const { Vec::new() }; LAST + 1];
    for (part, worker) in workers.into_iter().rev() {
        let stage = match part {
            Some(Part::Sockets | Part::Host | Part::Ports) => 0,
            Some(Part::Events) => 1,
            Some(Part::Packets) => 2,
            _ => LAST,
        };
        stages[stage].push(worker);
    }
    stages
}

/// What can be recorded of what was asked for.
fn prepare(options: &Options) -> Result<Options, Error> {
    rights::require()?;
    defects::check(&options.parts)?;
    options.check()?;
    memory_limit::check(options.ring_bytes, options.parts.iter())?;
    let mut options = options.clone();
    if !options.filter.pids.is_empty() && !space::pids_are_ours() {
        return Err(Error::Usage(format!(
            "--pid cannot be used here: {}",
            space::OWN_PIDS
        )));
    }
    if !rights::may_visit() {
        options.filter.netns = netns::own_only(&options.filter.netns)?;
    }
    limits::raise();
    quiet_libbpf();
    Ok(options)
}

fn manifest(options: &Options) -> Manifest {
    let start_ns = monotonic_ns();
    Manifest {
        format: FORMAT,
        tcpwhy: env!("CARGO_PKG_VERSION").into(),
        producer: "live".into(),
        host: host::host(hz()),
        start_ns,
        end_ns: start_ns,
        clock_offset_ns: host::clock_offset_ns(),
        command_line: options.command_line.clone(),
        asked: options.filter.clone(),
        labels: options.labels.clone(),
        ..Manifest::default()
    }
}
