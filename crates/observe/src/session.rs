//! A recording in progress: starts the threads, and ends them with a complete manifest.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use recording::{FORMAT, Manifest, Source, Writer, monotonic_ns};

use crate::error::{Error, quiet_libbpf};
use crate::events::EventOptions;
use crate::health::HealthLog;
use crate::host;
use crate::kernel::hz;
use crate::sampler::{Longest, SampleOptions, Sampled, sample};
use crate::watcher::watch;

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recording's directory; must not exist.
    pub dir: PathBuf,
    /// Network namespaces to record, by inode; empty means all.
    pub netns: Vec<u32>,
    /// Time between samples of sockets and counters.
    pub interval: Duration,
    /// Size of the ring buffer, bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Record every state change, also the steps of an orderly close.
    pub all_states: bool,
    /// The command line, for the manifest.
    pub command_line: Vec<String>,
}

/// As often as segments are sealed.
const MANIFEST_EVERY: Duration = Duration::from_secs(3);

/// A recording in progress.
pub struct Session {
    writer: Writer,
    manifest: Manifest,
    ring_bytes: u32,
    watcher: Worker<Vec<Source>>,
    sampler: Worker<Option<Sampled>>,
}

struct Worker<T> {
    stop: SyncSender<()>,
    thread: JoinHandle<Result<T, Error>>,
    name: &'static str,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread and waits until it answers that it is ready.
    fn start<R: Send + 'static>(
        name: &'static str,
        run: impl FnOnce(SyncSender<Result<R, Error>>, Receiver<()>) -> Result<T, Error>
        + Send
        + 'static,
    ) -> Result<(Worker<T>, R), Error> {
        let (stop, stopped) = sync_channel(1);
        let (ready, is_ready) = sync_channel(1);
        let thread = thread::Builder::new().name(name.into());
        let thread = thread
            .spawn(move || run(ready, stopped))
            .map_err(|why| Error::System {
                what: format!("starting the {name} thread"),
                why,
            })?;
        let answer = is_ready.recv().map_err(|_| Error::Thread(name))??;
        Ok((Worker { stop, thread, name }, answer))
    }

    fn finish(self) -> Result<T, Error> {
        // Hanging up is the signal to stop.
        drop(self.stop);
        self.thread.join().map_err(|_| Error::Thread(self.name))?
    }
}

impl Session {
    /// Attaches, takes the first sample, and returns: from now on everything is recorded.
    pub fn start(options: Options) -> Result<Session, Error> {
        host::require_root()?;
        if !options.ring_bytes.is_power_of_two() || options.ring_bytes < 4096 {
            return Err(Error::Usage(format!(
                "the ring buffer's size must be a power of two of at least 4096 bytes, not {}",
                options.ring_bytes
            )));
        }
        quiet_libbpf();
        let start_ns = monotonic_ns();
        let manifest = Manifest {
            format: FORMAT,
            tcpwhy: env!("CARGO_PKG_VERSION").into(),
            producer: "live".into(),
            host: host::host(hz()),
            start_ns,
            end_ns: start_ns,
            clock_offset_ns: host::clock_offset_ns(),
            command_line: options.command_line.clone(),
            ..Manifest::default()
        };
        let writer = Writer::create(&options.dir, &manifest)?;
        let started = Session::start_in(writer.clone(), manifest, options);
        if started.is_err() {
            // Nothing was recorded: leave nothing behind. The directory was made just now.
            let _ = std::fs::remove_dir_all(writer.dir());
        }
        started
    }

    fn start_in(writer: Writer, mut manifest: Manifest, options: Options) -> Result<Self, Error> {
        let sock_key = host::sock_key()?;
        let health = HealthLog::new(writer.table()?);
        let watch_options = EventOptions {
            netns: options.netns.clone(),
            ring_bytes: options.ring_bytes,
            all_states: options.all_states,
            sock_key,
        };
        let sample_options = SampleOptions {
            netns: options.netns,
            interval: options.interval,
            sock_key,
        };

        let events = writer.table()?;
        let watch_health = health.clone();
        let (watcher, sources) = Worker::start("watcher", move |ready, stop| {
            watch(&watch_options, events, &watch_health, &ready, &stop)
        })?;
        let sample_writer = writer.clone();
        let (sampler, sampled) = Worker::start("sampler", move |ready, stop| {
            sample(&sample_options, &sample_writer, &health, &ready, &stop)
        })?;

        manifest.sources = sources;
        manifest.sources.extend(sampled.sources);
        manifest.namespaces = sampled.namespaces;
        manifest.write(writer.dir())?;
        Ok(Session {
            writer,
            manifest,
            ring_bytes: options.ring_bytes,
            watcher,
            sampler,
        })
    }

    /// Says in the manifest, now and then, how far the recording has come: what a crash leaves then
    /// knows how long it is. Call it often.
    pub fn tick(&mut self) -> Result<(), Error> {
        let now = monotonic_ns();
        if Duration::from_nanos(now.saturating_sub(self.manifest.end_ns)) >= MANIFEST_EVERY {
            self.manifest.end_ns = now;
            self.manifest.write(self.writer.dir())?;
        }
        Ok(())
    }

    /// Whether a thread has ended by itself, which only an error makes it do: stop then.
    pub fn failed(&self) -> bool {
        self.watcher.thread.is_finished() || self.sampler.thread.is_finished()
    }

    /// Takes the last sample, seals everything and completes the manifest.
    pub fn stop(mut self) -> Result<Manifest, Error> {
        // The sampler first: its last sample of counters is then within the watched time.
        let sampled = self.sampler.finish();
        let sources = self.watcher.finish();
        let mut longest = Longest::default();
        let failed = match (sampled, sources) {
            (Ok(sampled), Ok(sources)) => {
                self.manifest.sources = sources;
                if let Some(sampled) = sampled {
                    self.manifest.sources.extend(sampled.sources);
                    self.manifest.namespaces = sampled.namespaces;
                    longest = sampled.longest;
                }
                self.manifest.complete = true;
                None
            }
            (Err(e), _) | (_, Err(e)) => Some(e),
        };
        self.manifest.end_ns = monotonic_ns();
        self.manifest.cost = host::own_cost(self.ring_bytes, longest);
        self.manifest.write(self.writer.dir())?;
        match failed {
            Some(e) => Err(e),
            None => Ok(self.manifest),
        }
    }
}
