//! A recording in progress: starts the threads, and ends them with a complete manifest.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use recording::{FORMAT, Feed, Manifest, Writer, monotonic_ns};

use crate::error::{Error, quiet_libbpf};
use crate::filter::Filter;
use crate::health::HealthLog;
use crate::host;
use crate::kernel::hz;
use crate::part::Part;
use crate::profile::ProfileOptions;
use crate::stacks::Stacks;
use crate::worker::{Longest, Report, Worker};

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is recorded; see [`Part::by_default`].
    pub parts: BTreeSet<Part>,
    /// Which namespaces, tasks, ports and addresses.
    pub filter: Filter,
    /// Time between samples of sockets and counters.
    pub interval: Duration,
    /// Size of the ring buffer, bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Record every state change, also the steps of an orderly close.
    pub all_states: bool,
    /// Record calls that take at least so long; zero means all.
    pub call_over: Duration,
    /// Of calls only these families, by the names of the table; empty means all.
    pub calls_only: &'static [&'static str],
    /// Waits of threads at least this long are recorded; zero means all.
    pub wait_over: Duration,
    /// How the CPUs are sampled.
    pub profile: ProfileOptions,
    /// The command line, for the manifest.
    pub command_line: Vec<String>,
}

impl Default for Options {
    /// What a recording holds unless the user says otherwise.
    fn default() -> Options {
        Options {
            parts: Part::by_default().collect(),
            filter: Filter::default(),
            interval: Duration::from_secs(1),
            ring_bytes: 16 << 20,
            all_states: false,
            call_over: Duration::from_millis(10),
            calls_only: &[],
            wait_over: Duration::from_millis(10),
            profile: ProfileOptions::default(),
            command_line: Vec::new(),
        }
    }
}

/// As often as segments are sealed.
const MANIFEST_EVERY: Duration = Duration::from_secs(3);

/// More would cost what it is to measure.
const MAX_PROFILE_HZ: u32 = 9_999;

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
        check(options)?;
        let manifest = manifest(options);
        let writer = Writer::create(dir, &manifest)?;
        let started = Session::start_in(writer.clone(), manifest, options);
        if started.is_err() {
            // Nothing was recorded: leave nothing behind.
            writer.discard();
        }
        started
    }

    /// Records for a reader in this process, which must keep reading.
    pub fn live(options: &Options) -> Result<(Session, Feed), Error> {
        check(options)?;
        let (writer, feed) = Feed::new();
        Ok((Session::start_in(writer, manifest(options), options)?, feed))
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
        let stacks = Stacks::new(&session.writer);
        for part in &options.parts {
            let writer = &session.writer;
            if let Some((worker, report)) =
                part.start(options, sock_key, writer, &stacks, &health)?
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
                Err(e) => failed = failed.or(Some(e)),
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

fn check(options: &Options) -> Result<(), Error> {
    host::require_root()?;
    host::share_heaps();
    if !options.ring_bytes.is_power_of_two() || options.ring_bytes < 4096 {
        return Err(Error::Usage(format!(
            "the ring buffer's size must be a power of two of at least 4096 bytes, not {}",
            options.ring_bytes
        )));
    }
    if !(1..=MAX_PROFILE_HZ).contains(&options.profile.hz) {
        return Err(Error::Usage(format!(
            "the CPUs can be sampled 1 to {MAX_PROFILE_HZ} times a second, not {}",
            options.profile.hz
        )));
    }
    quiet_libbpf();
    Ok(())
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
