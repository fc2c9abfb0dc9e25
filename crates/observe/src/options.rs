//! What to record, and within which bounds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::Error;
use crate::filter::Filter;
use crate::part::Part;
use crate::profile::ProfileOptions;

/// More would cost what it is to measure.
const MAX_PROFILE_HZ: u32 = 9_999;

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
    pub calls_only: &'static [recording::CallKind],
    /// Waits of threads at least this long are recorded; zero means all.
    pub wait_over: Duration,
    /// How the CPUs are sampled.
    pub profile: ProfileOptions,
    /// The percent of one CPU that recording may take before parts are switched off; `None`: whatever it takes.
    pub max_cpu: Option<f64>,
    /// Pseudonyms are recorded for addresses and names.
    pub redact: bool,
    /// What the recording is called, for the manifest.
    pub labels: Vec<String>,
    /// The command line, for the manifest.
    pub command_line: Vec<String>,
    /// Set by who wants the recording to end, also while it begins.
    pub stop: Arc<AtomicBool>,
    /// How often each table is sealed, if not as often as usual: a crash loses no more.
    pub seal_every: Option<Duration>,
    /// What sockets are named by (see [`sock_key`](crate::sock_key)): recordings that follow each other name them alike, and
    /// keep events from before they begin. `None`: as nobody else does.
    pub sock_key: Option<[u64; 2]>,
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
            max_cpu: None,
            redact: false,
            labels: Vec::new(),
            command_line: Vec::new(),
            stop: Arc::default(),
            seal_every: None,
            sock_key: None,
        }
    }
}

impl Options {
    /// Whether each is within its bounds; what is wrong when not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.ring_bytes.is_power_of_two() || self.ring_bytes < 4096 {
            return Err(Error::Usage(format!(
                "the ring buffer's size must be a power of two of at least 4096 bytes, not {}",
                self.ring_bytes
            )));
        }
        if let Some(hz) = self.profile.hz
            && !(1..=MAX_PROFILE_HZ).contains(&hz)
        {
            return Err(Error::Usage(format!(
                "the CPUs can be sampled 1 to {MAX_PROFILE_HZ} times a second, not {hz}"
            )));
        }
        if let Some(most) = self.max_cpu
            && !(most > 0.0 && most.is_finite())
        {
            return Err(Error::Usage(format!(
                "--max-cpu takes the percent of one CPU that recording may take, more than 0, not {most}"
            )));
        }
        Ok(())
    }
}
