//! Which kernel functions took the CPUs' time, from the profile.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use analysis::stacks::functions;
use analysis::words::rounded;
use recording::tables::Sample;
use recording::{Error, Recording, Text};
use serde::Serialize;

/// Stacks looked at: some hundred bytes each.
const MAX_STACKS: usize = 1 << 20;
/// Functions told.
const TOLD: usize = 8;
/// Less growth than this share of the CPUs is noise.
const MIN_GROWTH: f64 = 0.01;
/// So is what grew by less than so many of its own deviations (Poisson): of eight functions in a thousand, none.
const DEVIATIONS: f64 = 4.0;

/// Samples by the function that ran.
#[derive(Debug, Default)]
pub(super) struct Profile {
    samples: u64,
    by_function: BTreeMap<Text, u64>,
}

/// A function whose share of the CPUs' time changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Function {
    /// Its name.
    pub function: String,
    /// Share of all samples in which it ran itself, in the fast recordings.
    pub fast_share: f64,
    /// The same in the slow.
    pub slow_share: f64,
}

pub(super) fn read(recording: &Recording) -> Result<Profile, Error> {
    let mut by_stack: AHashMap<u64, u64> = AHashMap::new();
    let mut profile = Profile::default();
    for batch in recording.scan::<Sample>()? {
        for (_, row) in batch?.rows() {
            profile.samples += 1;
            if let Some(stack) = row.kernel_stack
                && (by_stack.len() < MAX_STACKS || by_stack.contains_key(&stack))
            {
                *by_stack.entry(stack).or_default() += 1;
            }
        }
    }
    let wanted: AHashSet<u64> = by_stack.keys().copied().collect();
    let innermost = functions(recording, &wanted, 1, Some)?;
    for (stack, n) in by_stack {
        if let Some(function) = innermost.get(&stack).and_then(|f| f.first()) {
            *profile.by_function.entry(function.clone()).or_default() += n;
        }
    }
    Ok(profile)
}

/// The functions whose share grew, the most first; empty when either side has no profile.
pub(super) fn compare(fast: &[&Profile], slow: &[&Profile]) -> Vec<Function> {
    let (fast_all, fast) = sum(fast);
    let (slow_all, slow) = sum(slow);
    if fast_all == 0 || slow_all == 0 {
        return Vec::new();
    }
    let share = |n: Option<&u64>, all: u64| *n.unwrap_or(&0) as f64 / all as f64;
    let mut functions: Vec<Function> = slow
        .iter()
        .filter(|(name, n)| {
            let (now, before) = (**n as f64, *fast.get(*name).unwrap_or(&0) as f64);
            let scale = slow_all as f64 / fast_all as f64;
            let deviation = (now + before * scale * scale).sqrt();
            now - before * scale >= DEVIATIONS * deviation
        })
        .map(|(name, n)| Function {
            function: name.to_string(),
            fast_share: rounded(share(fast.get(name), fast_all)),
            slow_share: rounded(share(Some(n), slow_all)),
        })
        .filter(|f| f.slow_share - f.fast_share >= MIN_GROWTH)
        .collect();
    functions.sort_by(|a, b| b.growth().total_cmp(&a.growth()));
    functions.truncate(TOLD);
    functions
}

fn sum<'a>(runs: &[&'a Profile]) -> (u64, BTreeMap<&'a Text, u64>) {
    let mut all = 0;
    let mut functions: BTreeMap<&Text, u64> = BTreeMap::new();
    for profile in runs {
        all += profile.samples;
        for (name, n) in &profile.by_function {
            *functions.entry(name).or_default() += n;
        }
    }
    (all, functions)
}

impl Function {
    fn growth(&self) -> f64 {
        self.slow_share - self.fast_share
    }
}
