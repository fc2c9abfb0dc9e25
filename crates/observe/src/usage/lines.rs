//! Lines of the USE checklist: what each metric is, and which lines are worth writing.

use std::collections::{HashMap, HashSet};

use recording::tables::Resource;
use recording::{TableWriter, Text};

use crate::error::Error;

/// What one line of the checklist measures.
pub struct Metric {
    /// `cpu`, `memory`, `disk`, `network`, `socket-memory`, `descriptors`, `cgroup`.
    pub resource: &'static str,
    /// `utilisation`, `saturation` or `errors`.
    pub aspect: &'static str,
    /// Name.
    pub name: &'static str,
    /// `%`, `bytes`, `ms` or `count`.
    pub unit: &'static str,
    /// Whether it counts up.
    pub cumulative: bool,
}

const fn metric(
    resource: &'static str,
    aspect: &'static str,
    name: &'static str,
    unit: &'static str,
    cumulative: bool,
) -> Metric {
    Metric {
        resource,
        aspect,
        name,
        unit,
        cumulative,
    }
}

/// A metric whose value stands for itself.
pub const fn gauge(
    resource: &'static str,
    aspect: &'static str,
    name: &'static str,
    unit: &'static str,
) -> Metric {
    metric(resource, aspect, name, unit, false)
}

/// A metric that counts up: its rate says something.
pub const fn counter(
    resource: &'static str,
    aspect: &'static str,
    name: &'static str,
    unit: &'static str,
) -> Metric {
    metric(resource, aspect, name, unit, true)
}

/// The aspects.
pub const UTILISATION: &str = "utilisation";
/// Work waits.
pub const SATURATION: &str = "saturation";
/// Work fails.
pub const ERRORS: &str = "errors";

/// Counters remembered so that they are told only when they change. Past this, memory matters more.
const MAX_KNOWN: usize = 1 << 17;

/// Where the lines of all resources go.
pub struct Lines {
    rows: TableWriter<Resource>,
    /// All lines of a round carry the time at which it began.
    time_ns: u64,
    last: HashMap<(u32, Text, &'static str, &'static str), f64>,
    texts: HashSet<Text>,
}

impl Lines {
    /// Lines into `rows`.
    pub fn new(rows: TableWriter<Resource>) -> Lines {
        Lines {
            rows,
            time_ns: 0,
            last: HashMap::new(),
            texts: HashSet::new(),
        }
    }

    /// A round begins.
    pub fn begin(&mut self, time_ns: u64) {
        self.time_ns = time_ns;
        if self.last.len() > MAX_KNOWN || self.texts.len() > MAX_KNOWN {
            self.last.clear();
            self.texts.clear();
        }
    }

    /// The text, shared by all rows that hold it.
    pub fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new = Text::from(text);
        self.texts.insert(new.clone());
        new
    }

    /// Adds a line about the only one of its kind on the host.
    pub fn of_host(&mut self, m: &Metric, value: f64, limit: Option<f64>) -> Result<(), Error> {
        let instance = self.text("");
        self.add(m, 0, &instance, value, limit)
    }

    /// Adds a line; a counter only when it has changed.
    pub fn add(
        &mut self,
        m: &Metric,
        netns: u32,
        instance: &Text,
        value: f64,
        limit: Option<f64>,
    ) -> Result<(), Error> {
        if m.cumulative {
            let key = (netns, instance.clone(), m.resource, m.name);
            if self.last.insert(key, value) == Some(value) {
                return Ok(());
            }
        }
        let row = Resource {
            time_ns: self.time_ns,
            netns,
            resource: self.text(m.resource),
            instance: instance.clone(),
            aspect: self.text(m.aspect),
            metric: self.text(m.name),
            value,
            unit: self.text(m.unit),
            cumulative: m.cumulative,
            limit,
        };
        Ok(self.rows.push(row)?)
    }

    /// Seals what is due.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        Ok(self.rows.seal_if_due()?)
    }

    /// Seals everything.
    pub fn seal(&mut self) -> Result<(), Error> {
        Ok(self.rows.seal()?)
    }
}
