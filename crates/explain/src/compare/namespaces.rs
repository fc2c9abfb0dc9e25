//! Which counters and settings differ between slow recordings and fast ones.

use std::collections::BTreeSet;

use serde::Serialize;

use super::run::Run;
use crate::words::rounded;

/// Counters told.
const TOLD: usize = 12;
/// A counter that rises more slowly than this on both sides is not worth a line, per second.
const MIN_RATE: f64 = 0.5;
/// Unless so many recordings are all on the right side.
const MANY: usize = 4;
/// Both sides within this factor are alike.
const MIN_FACTOR: f64 = 1.5;

/// A counter that rises at another pace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterDiff {
    /// Its name, with its group.
    pub counter: String,
    /// Rise per second in the fast recordings, on average.
    pub fast_per_s: f64,
    /// The same in the slow.
    pub slow_per_s: f64,
    /// Every slow recording is on the same side of every fast one.
    pub separates: bool,
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingDiff {
    /// Its name.
    pub setting: String,
    /// Its values in the fast recordings, over all namespaces.
    pub fast: Vec<String>,
    /// The same in the slow.
    pub slow: Vec<String>,
}

/// The counters that differ, those that separate all recordings first, then by factor.
pub(super) fn counters(fast: &[&Run], slow: &[&Run]) -> Vec<CounterDiff> {
    let names: BTreeSet<&String> = fast
        .iter()
        .chain(slow)
        .flat_map(|run| run.counters.keys())
        .collect();
    let rates = |runs: &[&Run], name: &str| -> Vec<f64> {
        let rate = |run: &&Run| run.counters.get(name).copied().unwrap_or(0.0);
        runs.iter().map(rate).collect()
    };
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let mut diffs: Vec<CounterDiff> = names
        .into_iter()
        .filter_map(|name| {
            let (f, s) = (rates(fast, name), rates(slow, name));
            let (fast_per_s, slow_per_s) = (mean(&f), mean(&s));
            let [low, high] = [fast_per_s.min(slow_per_s), fast_per_s.max(slow_per_s)];
            let max = |of: &[f64]| of.iter().copied().fold(f64::MIN, f64::max);
            let min = |of: &[f64]| of.iter().copied().fold(f64::MAX, f64::min);
            let separates = min(&s) > max(&f) || max(&s) < min(&f);
            let tells = high >= MIN_RATE || (separates && f.len() + s.len() >= MANY);
            (tells && high > low * MIN_FACTOR).then(|| CounterDiff {
                counter: name.clone(),
                fast_per_s: rounded(fast_per_s),
                slow_per_s: rounded(slow_per_s),
                separates,
            })
        })
        .collect();
    diffs.sort_by(|a, b| {
        let by_factor = b.factor().total_cmp(&a.factor());
        b.separates.cmp(&a.separates).then(by_factor)
    });
    diffs.truncate(TOLD);
    diffs
}

impl CounterDiff {
    /// How far apart the two paces are, whichever is the greater.
    fn factor(&self) -> f64 {
        let (a, b) = (
            self.fast_per_s + MIN_RATE / 10.0,
            self.slow_per_s + MIN_RATE / 10.0,
        );
        (a / b).max(b / a)
    }
}

/// The settings whose values differ, by name.
pub(super) fn settings(fast: &[&Run], slow: &[&Run]) -> Vec<SettingDiff> {
    let names: BTreeSet<&String> = fast
        .iter()
        .chain(slow)
        .flat_map(|run| run.settings.keys())
        .collect();
    let values = |runs: &[&Run], name: &String| -> BTreeSet<String> {
        let of_run = runs.iter().filter_map(|run| run.settings.get(name));
        of_run.flatten().cloned().collect()
    };
    let diffs = names.into_iter().filter_map(|name| {
        let (f, s) = (values(fast, name), values(slow, name));
        (f != s).then(|| SettingDiff {
            setting: name.clone(),
            fast: f.into_iter().collect(),
            slow: s.into_iter().collect(),
        })
    });
    diffs.collect()
}
