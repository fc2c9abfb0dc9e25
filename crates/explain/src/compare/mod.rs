//! What differs between recordings: runs and sockets split into modes, and what separates them.

mod cost;
mod felt;
mod functions;
mod gauge;
mod load;
mod modes;
mod namespaces;
pub(crate) mod run;
pub(crate) mod sockets;
mod trend;

use std::collections::BTreeMap;

use analysis::Story;
use analysis::words::rounded;
use recording::{Error, Recording};
use serde::Serialize;

use crate::options::Options;
use crate::run::of_story;

pub use cost::CpuCost;
pub use felt::{Felt, Held, RequestTimes};
pub use functions::Function;
pub use load::{LoadLoss, Point, Unit};
pub use modes::{Mode, Split};
pub use namespaces::{CounterDiff, SettingDiff};
pub use run::Run;
pub use sockets::{Attribute, Sockets};
pub use trend::Trend;

/// From the least to the most something must change so many times over.
const LEAST_CHANGE: f64 = 1.5;
/// Of the pairs of recordings so many more must go one way than the other (Kendall's tau).
const LEAST_TAU: f64 = 0.8;

/// What differs between recordings.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "comparison")]
pub struct Comparison {
    /// The recordings, in the order given.
    pub runs: Vec<RunSummary>,
    /// How they were told apart.
    pub by: By,
    /// Throughput of the fast recordings, Mbit/s.
    pub fast: Option<Mode>,
    /// Throughput of the slow ones, Mbit/s; `None` when there is one mode.
    pub slow: Option<Mode>,
    /// Sockets that are slow among their like; `None` when all are alike.
    pub sockets: Option<Sockets>,
    /// What kernel time per packet and interrupt cost on each CPU, the most changed first.
    pub cpus: Vec<CpuCost>,
    /// Kernel functions whose share of the CPUs' time grew, the most first.
    pub functions: Vec<Function>,
    /// Counters that rise at another pace, the most telling first.
    pub counters: Vec<CounterDiff>,
    /// Settings that differ.
    pub settings: Vec<SettingDiff>,
    /// What grows or shrinks from the earliest of at least three recordings to the latest, the most changed first.
    pub trends: Vec<Trend>,
    /// What is lost the more the higher the load is.
    pub loss_over_load: Vec<LoadLoss>,
}

/// How recordings were told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum By {
    /// Two were given: the first is the fast one.
    Order,
    /// Their throughput has two modes.
    Modes,
    /// Their throughput has one mode, but some have slow sockets and some have none.
    Sockets,
    /// Nothing tells them apart.
    Nothing,
}

/// One recording.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// Its directory.
    pub name: String,
    /// What whoever made it calls it.
    pub labels: Vec<String>,
    /// Its throughput, both directions of all connections, Mbit/s.
    pub mbit_per_s: f64,
    /// It is of the slow ones.
    pub slow: bool,
    /// Sockets that sent a lot.
    pub sockets: usize,
    /// Of these, the slow among their like.
    pub slow_sockets: usize,
    /// What its users felt.
    pub felt: Felt,
}

/// Compares recordings, each with its name: two as FAST and SLOW, more by the modes of their throughput. One at
/// a time is asked for, and closed before the next.
///
/// # Errors
///
/// A recording that cannot be opened or read.
pub fn compare<E: From<Error>>(
    recordings: impl IntoIterator<Item = Result<(String, Recording), E>>,
) -> Result<Comparison, E> {
    let mut runs = Vec::new();
    for recording in recordings {
        let (name, recording) = recording?;
        let story = Story::read(&recording)?;
        let explanation = of_story(&story, &recording, &Options::default())?;
        runs.push(Run::of(name, &recording, &story, &explanation)?);
    }
    Ok(of(&runs))
}

/// Compares recordings that have been read.
pub fn of(runs: &[Run]) -> Comparison {
    let mbit: Vec<f64> = runs
        .iter()
        .map(|run| rounded(run.throughput * 8.0 / 1e6))
        .collect();
    let split = modes::split(&mbit);
    let ends: Vec<&[_]> = runs.iter().map(|run| &run.sockets[..]).collect();
    let sockets = sockets::compare(&ends);
    let slow_sockets = |i: usize| sockets.as_ref().map_or(0, |(_, of_run)| of_run[i].len());
    let hit = (0..runs.len()).filter(|i| slow_sockets(*i) > 0).count();
    let by = match (runs.len(), &split) {
        (2, _) => By::Order,
        (_, Some(_)) => By::Modes,
        (n, None) if (1..n).contains(&hit) => By::Sockets,
        (_, None) => By::Nothing,
    };
    let is_slow = |i: usize| match by {
        By::Order => i == 1,
        By::Modes => split.is_some_and(|split| split.is_low(mbit[i])),
        By::Sockets => slow_sockets(i) > 0,
        By::Nothing => false,
    };
    let slow: Vec<bool> = (0..runs.len()).map(is_slow).collect();
    let side = |wanted: bool| -> (Vec<&Run>, Option<Mode>) {
        let of_side = runs.iter().zip(&mbit).zip(&slow);
        let of_side = of_side.filter(|(_, slow)| **slow == wanted);
        let (runs, mbit): (Vec<&Run>, Vec<f64>) =
            of_side.map(|((run, mbit), _)| (run, *mbit)).unzip();
        let mode = modes::whole(&mbit);
        (runs, mode)
    };
    let ((fast_runs, fast), (slow_runs, slow_mode)) = (side(false), side(true));
    let differ = !slow_runs.is_empty();
    Comparison {
        runs: runs
            .iter()
            .enumerate()
            .map(|(i, run)| RunSummary {
                name: run.name.clone(),
                labels: run.labels.clone(),
                mbit_per_s: mbit[i],
                slow: slow[i],
                sockets: run.sockets.len(),
                slow_sockets: slow_sockets(i),
                felt: run.felt.clone(),
            })
            .collect(),
        by,
        fast,
        slow: slow_mode,
        cpus: if differ {
            cost::compare(&cpus(&fast_runs), &cpus(&slow_runs))
        } else {
            Vec::new()
        },
        functions: functions::compare(&profiles(&fast_runs), &profiles(&slow_runs)),
        counters: if differ {
            namespaces::counters(&fast_runs, &slow_runs)
        } else {
            Vec::new()
        },
        settings: if differ {
            namespaces::settings(&fast_runs, &slow_runs)
        } else {
            Vec::new()
        },
        sockets: sockets.map(|(sockets, _)| sockets),
        trends: trend::trends(runs),
        loss_over_load: load::losses(&losses_of(runs)),
    }
}

fn cpus<'a>(runs: &[&'a Run]) -> Vec<&'a BTreeMap<u32, cost::Cpu>> {
    runs.iter().map(|run| &run.cpus).collect()
}

fn losses_of(runs: &[Run]) -> Vec<&load::Losses> {
    runs.iter().map(|run| &run.losses).collect()
}

fn profiles<'a>(runs: &[&'a Run]) -> Vec<&'a functions::Profile> {
    runs.iter().map(|run| &run.profile).collect()
}

#[cfg(test)]
mod tests;
