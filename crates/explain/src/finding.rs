//! What explain says: findings, each with its evidence, and the summary of the recording.
//!
//! These types are the JSON of `tcpwhy explain --json`, field by field; names and units are
//! stable.

use std::borrow::Cow;
use std::fmt;

use analysis::{ConnId, Doing, Netns};
use recording::RowRef;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::advice::Advice;
use crate::episodes::Episode;
use crate::id::Id;
use crate::layer::Layer;
use crate::lost::Lost;
use crate::moment::Since;
use crate::place::Place;

/// A cause that holds, and why we say so.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "finding")]
#[non_exhaustive]
pub struct Finding {
    /// The cause.
    pub cause: Id,
    /// Its number in the book.
    pub number: Cow<'static, str>,
    /// Whose trouble it is.
    pub layer: Layer,
    /// One sentence: what is wrong.
    pub title: String,
    /// One sentence: what to do.
    pub fix: String,
    /// Where: the listener and the processes.
    pub scope: Scope,
    /// The same for rivals that are asked why they do not hold there; `None` of a cause that answers for
    /// them itself.
    #[serde(skip)]
    pub(crate) place: Option<Place>,
    /// Why it is a note and no finding, where its cause knows.
    #[serde(skip)]
    pub(crate) note: Option<&'static str>,
    /// The ends for which it is a finding whatever it cost, if somebody asked about them.
    #[serde(skip)]
    pub(crate) if_asked: Vec<ConnId>,
    /// It is one then only, and else not even a note.
    #[serde(skip)]
    pub(crate) only_if_asked: bool,
    /// Look-alikes that nothing refutes there.
    #[serde(skip)]
    pub(crate) unsure_of: Vec<Id>,
    /// As far as is known its process waited for others, and its own connects may be why.
    #[serde(skip)]
    pub(crate) waits_for_others: bool,
    /// It cost time to connections of the command that was recorded (`explain -- COMMAND`).
    #[serde(default)]
    pub asked: bool,
    /// How many suffer, and how much.
    pub impact: Impact,
    /// Time that connections lost to it, all ends together, s; null when there is nothing to measure it
    /// against.
    pub lost_s: Lost,
    /// Since when; null when no row of its symptom has a moment.
    pub since: Option<Since>,
    /// The stretches in which it holds, where those are a small part of the recording; empty when it holds
    /// in the recording as a whole. The evidence is of the worst.
    pub episodes: Vec<Episode>,
    /// How sure we are, and why.
    pub confidence: Confidence,
    /// The chain from the symptom to the limit that was hit and who set it.
    pub evidence: Vec<Step>,
    /// Numbers of different sources that must fit if the cause holds.
    pub arithmetic: Vec<Check>,
    /// The look-alikes, and the number that rules each out.
    pub ruled_out: Vec<RuledOut>,
    /// What to do, the best first.
    pub advice: Vec<Advice>,
    /// How to check that it worked.
    pub verify: String,
}

impl Finding {
    /// What stays of it from one window of time to the next: its cause and its place, without processes and moments.
    pub fn key(&self) -> String {
        // A namespace's name is known in some windows only: its inode is in all.
        let netns = self.scope.netns.inode;
        format!("{} {netns} {}", self.cause, self.scope.place())
    }
}

/// Where a finding holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scope {
    /// The network namespace it was seen in.
    pub netns: Netns,
    /// Address and port that are listened on, or should be; empty when the finding is about
    /// something else: `resource`.
    pub listener: String,
    /// What else it is about: `CPU 1`, `ehash`, `eth0 (tbf)`, `cgroup /batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The kernel function that takes the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Whose process `pid` is: `listener`, or `client` when only that side is on this host.
    pub role: Role,
    /// The process to look at: of several, the one that keeps the others waiting.
    pub pid: Option<u32>,
    /// All processes of that side: those that hold the listening socket, or those that connect.
    pub pids: Vec<u32>,
    /// Command name of `pid`.
    pub comm: Option<String>,
    /// What runs `pid`: `unit nginx.service`, `pod shop/redis-0/redis`, `docker container 3f2a91bc0d12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Command line of `pid`.
    pub cmdline: Option<String>,
    /// Limit given to listen(), after net.core.somaxconn.
    pub backlog: Option<u32>,
    /// What each holder did during the recording.
    pub processes: Vec<Doing>,
}

impl Scope {
    /// What the finding is about, in a few words.
    pub fn place(&self) -> &str {
        match &self.resource {
            Some(resource) if self.listener.is_empty() => resource,
            _ => &self.listener,
        }
    }
}

/// Which side of the connections the process of a scope is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It listens.
    #[default]
    Listener,
    /// It connects.
    Client,
}

/// How many suffer, and how much.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Impact {
    /// In one sentence.
    pub says: String,
    /// How many were affected.
    pub affected: u64,
    /// Of how many.
    pub of: u64,
    /// What was counted: `connections`, `SYNs`, `packets` …
    pub counted: Cow<'static, str>,
    /// `affected` ÷ `of`, 0..1.
    pub share: f64,
    /// What connecting took longer than for the others, ms; null when it cannot be measured.
    pub added_latency_ms: Option<Latency>,
    /// Median throughput of the affected ÷ that of the others; null when it cannot be measured.
    pub throughput_ratio: Option<f64>,
    /// Median congestion window of the affected ÷ that of the others; null likewise.
    pub cwnd_ratio: Option<f64>,
}

impl Impact {
    /// So many of so many, without anything else that was measured.
    pub fn of(affected: u64, of: u64, counted: &'static str, says: String) -> Impact {
        Impact {
            says,
            affected,
            of,
            counted: counted.into(),
            share: affected as f64 / of.max(1) as f64,
            ..Impact::default()
        }
    }
}

/// A distribution of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median, ms.
    pub p50: f64,
    /// 99th percentile, ms.
    pub p99: f64,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It fits, but something else would look the same.
    Low,
    /// A part of the chain is inferred.
    Medium,
    /// Every part of the chain was observed and the arithmetic agrees.
    High,
}

/// How sure a finding is, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confidence {
    /// How sure.
    pub level: Level,
    /// For and against.
    pub because: Vec<String>,
}

impl Confidence {
    /// Starts certain; what is missing lowers it.
    pub fn high() -> Confidence {
        Confidence {
            level: Level::High,
            because: Vec::new(),
        }
    }
    /// Adds a reason that carries the finding.
    pub fn because(&mut self, why: impl Into<String>) {
        self.because.push(why.into());
    }
    /// Lowers it for each check that does not agree, most for the first, which is the main one; and if there is none.
    pub(crate) fn weigh_checks(&mut self, checks: &[Check]) {
        for (i, check) in checks.iter().enumerate().filter(|(_, c)| !c.agrees) {
            let level = if i == 0 { Level::Low } else { Level::Medium };
            self.at_most(level, format!("does not fit: {}", check.says()));
        }
        match checks.len() {
            0 => self.at_most(Level::Medium, "no independent measurement confirms it"),
            _ if checks.iter().any(|c| !c.agrees) => {}
            1 => self.because("the cross-check is ok"),
            n => self.because(format!("{n} of {n} cross-checks are ok")),
        }
    }
    /// Adds a reason why it can be no more than `level`.
    pub fn at_most(&mut self, level: Level, why: impl Into<String>) {
        self.level = self.level.min(level);
        self.because.push(why.into());
    }
}

/// One step of the evidence.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// In words.
    pub says: String,
    /// Its numbers by name.
    pub numbers: Numbers,
    /// Some of the rows it rests on.
    #[serde(with = "crate::rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub rows: Vec<RowRef>,
}

impl Step {
    /// A step in words; numbers and rows follow.
    pub fn new(says: impl Into<String>) -> Step {
        Step {
            says: says.into(),
            numbers: Numbers::default(),
            rows: Vec::new(),
        }
    }
    /// Adds a number.
    pub fn number(mut self, name: &'static str, value: impl Into<Number>) -> Step {
        self.numbers.0.push((name.into(), value.into()));
        self
    }
    /// Adds a number if it is known.
    pub fn number_if(self, name: &'static str, value: Option<impl Into<Number>>) -> Step {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }
    /// Adds rows it rests on.
    pub fn rows(mut self, rows: impl IntoIterator<Item = RowRef>) -> Step {
        for row in rows {
            if !self.rows.contains(&row) {
                self.rows.push(row);
            }
        }
        self
    }
}

/// Numbers by name, in the order in which they are told.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Numbers(
    #[cfg_attr(
        feature = "schema",
        schemars(with = "std::collections::BTreeMap<String, Number>")
    )]
    pub Vec<(Cow<'static, str>, Number)>,
);

/// One number of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Number {
    /// A count.
    Count(u64),
    /// A measure.
    Real(f64),
    /// A setting's value.
    Text(String),
    /// A flag.
    Flag(bool),
}

impl From<u64> for Number {
    fn from(v: u64) -> Self {
        Number::Count(v)
    }
}
impl From<u32> for Number {
    fn from(v: u32) -> Self {
        Number::Count(v.into())
    }
}
impl From<usize> for Number {
    fn from(v: usize) -> Self {
        Number::Count(v as u64)
    }
}
impl From<f64> for Number {
    fn from(v: f64) -> Self {
        Number::Real(analysis::words::rounded(v))
    }
}
impl From<bool> for Number {
    fn from(v: bool) -> Self {
        Number::Flag(v)
    }
}
impl From<String> for Number {
    fn from(v: String) -> Self {
        Number::Text(v)
    }
}
impl From<&str> for Number {
    fn from(v: &str) -> Self {
        Number::Text(v.to_string())
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Numbers, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Numbers;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("numbers by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Numbers, A::Error> {
                let mut numbers = Numbers::default();
                while let Some((name, number)) = map.next_entry::<String, Number>()? {
                    numbers.0.push((name.into(), number));
                }
                Ok(numbers)
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// Two numbers from different sources that must fit if the cause holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// What is compared, in words.
    pub formula: String,
    /// What the cause predicts.
    pub expected: f64,
    /// What the recording says.
    pub measured: f64,
    /// Unit of both.
    pub unit: Cow<'static, str>,
    /// Whether they fit.
    pub agrees: bool,
    /// What counts as fitting.
    pub tolerance: String,
}

impl Check {
    /// What is compared, and both numbers.
    fn says(&self) -> String {
        let number = |n: f64| format!("{} {}", analysis::words::rounded(n), self.unit);
        let (expected, measured) = (number(self.expected), number(self.measured));
        format!(
            "{} (expected {expected}, measured {measured})",
            self.formula
        )
    }
}

/// A look-alike that does not hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// The cause.
    pub cause: Id,
    /// The number that rules it out.
    pub because: String,
    /// The numbers by name.
    pub numbers: Numbers,
    /// Some of the rows they rest on.
    #[serde(with = "crate::rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub rows: Vec<RowRef>,
}

impl RuledOut {
    /// What the cause itself says.
    pub(crate) fn by(cause: Id, no: Step) -> RuledOut {
        let Step {
            says,
            numbers,
            rows,
        } = no;
        RuledOut {
            cause,
            because: says,
            numbers,
            rows,
        }
    }

    /// Ruled out, with the number that does.
    pub fn new(cause: Id, because: String) -> RuledOut {
        RuledOut {
            cause,
            because,
            numbers: Numbers::default(),
            rows: Vec::new(),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
        })
    }
}
