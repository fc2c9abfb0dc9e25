//! Which functions the CPUs were in, and which grew from one profile to another.

use std::collections::HashMap;

use ahash::AHashSet;
use serde::Serialize;

use super::profile::function;
use super::{Profile, Unit};

/// A function's share of a profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The function.
    pub function: String,
    /// Share of the samples in which the CPU was in it, 0..1.
    pub own: f64,
    /// Share of the samples in which it was in it or in what it called, 0..1.
    pub with_callees: f64,
}

/// How much more a function takes than before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The function.
    pub function: String,
    /// Share of all samples that it took itself before, 0..1.
    pub was: f64,
    /// And now.
    pub is: f64,
}

impl Growth {
    /// By how much it grew, in shares of all samples; negative when it shrank.
    pub fn by(&self) -> f64 {
        self.is - self.was
    }
}

/// Every function with its share of all samples, idle ones included; the largest own share first. For waits, the
/// largest share with callees first.
pub fn shares(profile: &Profile) -> Vec<Share> {
    let mut found: HashMap<&str, (u64, u64)> = HashMap::new();
    let mut seen: AHashSet<&str> = AHashSet::new();
    for (stack, n) in &profile.stacks {
        seen.clear();
        for frame in stack.split(';').map(function) {
            // Recursion counts once.
            if seen.insert(frame) {
                found.entry(frame).or_default().1 += n;
            }
        }
        if let Some(innermost) = stack.rsplit(';').next() {
            found.entry(function(innermost)).or_default().0 += n;
        }
    }
    let share = |n: u64| n as f64 / profile.of_all();
    let mut shares: Vec<_> = found
        .into_iter()
        .map(|(function, (own, all))| Share {
            function: function.to_string(),
            own: share(own),
            with_callees: share(all),
        })
        .collect();
    let weight = |s: &Share| match profile.unit {
        Unit::Samples => s.own,
        // Every wait ends in the same function: what is around it tells them apart.
        Unit::Microseconds => s.with_callees,
    };
    shares.sort_by(|a, b| {
        let by_share = weight(b).total_cmp(&weight(a));
        by_share.then_with(|| a.function.cmp(&b.function))
    });
    shares
}

/// Every function of the two, the one that grew most first. Shares are of all samples, idle ones included: what grew
/// took time that was free before. For waits they are those with callees.
pub fn growth(before: &Profile, after: &Profile) -> Vec<Growth> {
    let mut found: HashMap<String, (f64, f64)> = HashMap::new();
    let measure = |s: &Share| match after.unit {
        Unit::Samples => s.own,
        Unit::Microseconds => s.with_callees,
    };
    for share in shares(before) {
        let was = measure(&share);
        found.entry(share.function).or_default().0 = was;
    }
    for share in shares(after) {
        let is = measure(&share);
        found.entry(share.function).or_default().1 = is;
    }
    let mut growth: Vec<_> = found
        .into_iter()
        .map(|(function, (was, is))| Growth { function, was, is })
        .collect();
    growth.sort_by(|a, b| {
        let by_growth = b.by().total_cmp(&a.by());
        by_growth.then_with(|| a.function.cmp(&b.function))
    });
    growth
}
