//! A recording in progress: starts the threads, and ends them with a complete manifest.

use std::path::Path;
use std::time::Duration;

use recording::{FORMAT, Feed, HealthKind, Manifest, SourceName, Writer, monotonic_ns};

use crate::error::{Error, quiet_libbpf};
use crate::health::HealthLog;
use crate::kernel::hz;
use crate::options::Options;
use crate::stacks::Stacks;
use crate::worker::{Longest, Report, Worker};
use crate::{host, limits, netns, rights, space};

/// As often as segments are sealed.
const MANIFEST_EVERY: Duration = Duration::from_secs(3);

/// A recording in progress.
pub struct Session {
    writer: Writer,
    manifest: Manifest,
    ring_bytes: u32,
    workers: Vec<Worker>,
}

impl Session {
    /// Records into the directory `dir`, which must not exist. Attaches, takes the first samples,
    /// and returns: from now on everything is recorded.
    pub fn start(dir: &Path, options: &Options) -> Result<Session, Error> {
        let options = &prepare(options)?;
        let manifest = manifest(options);
        let writer = if options.redact {
            Writer::redacted(dir, &manifest)?
        } else {
            Writer::create(dir, &manifest)?
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
        let mut session = Session {
            writer,
            manifest,
            ring_bytes: options.ring_bytes,
            workers: Vec::new(),
        };
        let sock_key = host::sock_key()?;
        let health = HealthLog::new(session.writer.table()?);
        for note in space::notes() {
            health.say(SourceName::Host, HealthKind::Partial, 1, note)?;
        }
        for lack in rights::lacking_for(options.parts.iter().copied()) {
            let detail = format!("this process lacks {}", lack.in_words());
            health.say(SourceName::Host, HealthKind::Partial, 1, detail)?;
        }
        let stacks = Stacks::new(&session.writer);
        for part in &options.parts {
            let writer = &session.writer;
            if let Some((worker, report)) = part
                .start(options, sock_key, writer, &stacks, &health)
                .map_err(Error::or_files)?
            {
                session.workers.push(worker);
                session.take(report);
            }
        }
        stacks.reload_symbols();
        session.writer.manifest(&session.manifest)?;
        Ok(session)
    }

    fn take(&mut self, report: Report) -> Longest {
        self.manifest.sources.extend(report.sources);
        // Several parts visit the same ones.
        for namespace in report.namespaces {
            let known = &mut self.manifest.namespaces;
            if known.iter().all(|n| n.inode != namespace.inode) {
                known.push(namespace);
            }
        }
        report.longest
    }

    /// Says in the manifest, now and then, how far the recording has come: what a crash leaves then
    /// knows how long it is. Call it often.
    pub fn tick(&mut self) -> Result<(), Error> {
        let now = monotonic_ns();
        if Duration::from_nanos(now.saturating_sub(self.manifest.end_ns)) >= MANIFEST_EVERY {
            self.manifest.end_ns = now;
            self.writer.manifest(&self.manifest)?;
        }
        Ok(())
    }

    /// What is known of it so far: the host, the clock, namespaces and sources.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether a thread has ended by itself, which only an error makes it do: stop then.
    pub fn failed(&self) -> bool {
        self.workers.iter().any(Worker::ended)
    }

    /// Takes the last samples, seals everything and completes the manifest.
    pub fn stop(mut self) -> Result<Manifest, Error> {
        let mut failed = None;
        let mut longest = Longest::default();
        self.manifest.sources.clear();
        self.manifest.namespaces.clear();
        // The last started first: the last samples are then within the watched time.
        for worker in std::mem::take(&mut self.workers).into_iter().rev() {
            match worker.finish() {
                Ok(report) => {
                    let l = self.take(report);
                    longest.round = longest.round.max(l.round);
                    longest.snapshot = longest.snapshot.max(l.snapshot);
                }
                Err(e) => failed = failed.or(Some(e.or_files())),
            }
        }
        self.manifest.complete = failed.is_none();
        self.manifest.end_ns = monotonic_ns();
        self.manifest.cost = host::own_cost(self.ring_bytes, longest);
        self.writer.manifest(&self.manifest)?;
        match failed {
            Some(e) => Err(e),
            None => Ok(self.manifest),
        }
    }
}

/// What can be recorded of what was asked for.
fn prepare(options: &Options) -> Result<Options, Error> {
    rights::require()?;
    options.check()?;
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
    host::share_heaps();
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
        ..Manifest::default()
    }
}
