//! What a run of the lab came to, as one JSON object.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::figures::{Figure, Workload};
use crate::scenario::Truth;

/// Scenarios that were planted side by side and looked at together.
#[derive(Clone, Debug)]
pub struct Pack {
    /// Each by itself, in the order in which they were asked for.
    pub outcomes: Vec<Outcome>,
    /// What `tcpwhy explain` says to a person of all of them; only when it was asked for.
    pub explanation: Option<String>,
}

/// One run of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The scenario.
    pub scenario: String,
    /// Its title.
    pub title: String,
    /// The seed that repeats the run.
    pub seed: u64,
    /// The scenarios that were planted beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// What was planted.
    pub truth: Truth,
    /// tcpwhy told the truth and, if asked to, mended it.
    pub passed: bool,
    /// What was wrong, each in a line; empty when passed.
    pub why: Vec<String>,
    /// What tcpwhy said and the load saw.
    #[serde(flatten)]
    pub round: Round,
    /// With `--fix`: what tcpwhy's advice did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// One recording, with the load that ran meanwhile.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Round {
    /// The findings of `tcpwhy explain --json`, in its order.
    pub findings: Vec<Value>,
    /// What it says of each service's time; for the judge.
    #[serde(skip)]
    pub accounts: Vec<Value>,
    /// What it notes beside findings; for the judge.
    #[serde(skip)]
    pub notes: Vec<Value>,
    /// Its last line.
    pub summary: Option<Value>,
    /// What `tcpwhy explain` says to a person; only when it was asked for.
    #[serde(skip)]
    pub explanation: Option<String>,
    /// The load's own figures.
    pub workload: Workload,
    /// The recording, when it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<PathBuf>,
}

/// What came of tcpwhy's advice.
#[derive(Clone, Debug, Serialize)]
pub struct Fix {
    /// The commands of its advice as it prints them, run while what was planted still ran.
    pub commands: Vec<Printed>,
    /// The changes it advised.
    pub changes: Vec<Change>,
    /// No finding names the cause any more.
    pub gone: bool,
    /// The load's figures before and after.
    pub figures: Vec<Figure>,
    /// What tcpwhy said and the load saw after it.
    pub after: Round,
}

/// One change that was advised.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// As the advice has it.
    pub change: Value,
    /// It was made.
    pub applied: bool,
    /// What was done, or why not.
    pub result: String,
}

/// One command of an advice, run as it is printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Printed {
    /// The cause whose advice it is.
    pub cause: String,
    /// What it is for.
    pub kind: Kind,
    /// As it is printed.
    pub command: String,
    /// How it ended; null where it was not run.
    pub rc: Option<i32>,
    /// What it said on standard error, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// That is because it is none that the lab knows: what nobody has tried may not work.
    #[serde(skip)]
    pub unknown: bool,
    /// Why it is no failure that it did not end with 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl Printed {
    /// It does not work as it is printed, or nothing tells whether it does.
    pub fn failed(&self) -> bool {
        self.unknown || self.rc.is_some_and(|rc| rc != 0) && self.answer.is_none()
    }
}

/// What a printed command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It does what is advised.
    Fix,
    /// It takes that back.
    Undo,
    /// It shows where to do it.
    Look,
}

impl Kind {
    /// As the answer labels it.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Fix => "fix",
            Kind::Undo => "undo",
            Kind::Look => "look",
        }
    }
}
