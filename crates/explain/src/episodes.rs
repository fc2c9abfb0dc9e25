//! The stretches of a recording in which trouble was much denser than in the whole. They are judged on their own,
//! because four minutes are lost in the averages of an hour.

use analysis::{Story, Trouble};
use serde::{Deserialize, Serialize};

use analysis::words::rounded;

use crate::limits;

/// A stretch in which a finding holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Episode {
    /// Its start, counted from the start of the recording, s.
    pub from_s: f64,
    /// Its end, counted from the start of the recording, s.
    pub to_s: f64,
}

/// The maximum number of episodes that are judged, in all and per kind of trouble and window.
const MAX_EPISODES: usize = 8;
const MAX_OF_KIND: usize = 3;

/// A part of a recording, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stretch {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Stretch {
    /// Whether most of it lies within the other.
    fn is_in(self, other: Stretch) -> bool {
        let both = self
            .to_ns
            .min(other.to_ns)
            .saturating_sub(self.from_ns.max(other.from_ns));
        limits::MOST.reached(both, self.to_ns.saturating_sub(self.from_ns))
    }

    /// The stretch as it is reported.
    pub(crate) fn told(self, story: &Story) -> Episode {
        let after = |ns: u64| rounded(ns.saturating_sub(story.start_ns) as f64 / 1e9);
        Episode {
            from_s: after(self.from_ns),
            to_s: after(self.to_ns),
        }
    }
}

/// The episodes of a recording, in chronological order.
pub(crate) fn episodes(story: &Story) -> Vec<Stretch> {
    let troubles = &story.troubles;
    let mut all: Vec<(f64, Stretch)> = Vec::new();
    for trouble in Trouble::ALL {
        let bins = troubles.of(trouble);
        for scale_s in [
            limits::EPISODE_LONG.s(),
            limits::EPISODE_MIDDLE.s(),
            limits::EPISODE_SHORT.s(),
        ]
        .map(|s| s as u64)
        {
            let width = (scale_s * 1_000_000_000 / troubles.bin_ns().max(1)) as usize;
            let found = dense(bins, width, least(trouble, scale_s));
            all.extend(found.into_iter().map(|dense| {
                let from_ns = troubles
                    .begins_ns(dense.from)
                    .saturating_sub(limits::EPISODE_BEFORE.ns());
                let to_ns = troubles
                    .begins_ns(dense.to)
                    .saturating_add(limits::EPISODE_AFTER.ns());
                let stretch = Stretch {
                    from_ns: from_ns.max(story.start_ns),
                    to_ns: to_ns.min(story.end_ns),
                };
                (dense.stands_out, stretch)
            }));
        }
    }
    // A stretch that is most of the recording has been judged with the whole.
    let whole = story.end_ns.saturating_sub(story.start_ns);
    all.retain(|(_, s)| !limits::MOST.exceeded(s.to_ns.saturating_sub(s.from_ns), whole));
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut apart: Vec<Stretch> = Vec::new();
    for (_, stretch) in all {
        let told = apart.iter().any(|a| stretch.is_in(*a) || a.is_in(stretch));
        if !told && apart.len() < MAX_EPISODES {
            apart.push(stretch);
        }
    }
    apart.sort();
    apart
}

/// The amount in a window below which it is normal for any host: a few packets, or waiting for a CPU for three tenths
/// of the window.
fn least(trouble: Trouble, scale_s: u64) -> f64 {
    match trouble {
        Trouble::Runnable => limits::EPISODE_WAITS.ms() as f64 * scale_s as f64,
        _ => limits::ENOUGH.number(),
    }
}

/// A run of bins (the end is exclusive), and how far it stands out from the whole.
struct Dense {
    from: usize,
    to: usize,
    /// The log-likelihood ratio that it has a rate of its own (Kulldorff's scan statistic).
    stands_out: f64,
}

/// The runs of bins that stand out most, built from windows of this width.
fn dense(bins: &[u32], width: usize, least: f64) -> Vec<Dense> {
    if width == 0 || bins.len() < width * limits::SEVERAL_TIMES.as_usize() {
        return Vec::new();
    }
    let sum = |from: usize, to: usize| -> f64 {
        let run = &bins[from..to.min(bins.len())];
        run.iter().map(|n| f64::from(*n)).sum()
    };
    let of_one = sum(0, bins.len()) / bins.len() as f64;
    let usual = of_one * width as f64;
    let bound = least
        .max(usual * limits::SEVERAL_TIMES.times())
        .max(usual + limits::EPISODE_DEVIATIONS.times() * usual.sqrt());
    // The windows overlap by half, so that trouble as long as a window lies in one, or nearly so.
    let starts = (0..bins.len()).step_by(width.div_ceil(2));
    let sums: Vec<(usize, f64)> = starts.map(|from| (from, sum(from, from + width))).collect();
    let mut by_sum: Vec<usize> = (0..sums.len()).collect();
    by_sum.sort_by(|a, b| sums[*b].1.total_cmp(&sums[*a].1));
    let mut found: Vec<Dense> = Vec::new();
    for peak in by_sum {
        let (from, worst) = sums[peak];
        if worst < bound || found.len() == MAX_OF_KIND {
            break;
        }
        if found.iter().any(|f| from < f.to && f.from < from + width) {
            continue;
        }
        let goes_on = |i: &usize| sums[*i].1 >= worst * limits::EPISODE_GOES_ON.share();
        let first = (0..peak).rev().take_while(goes_on).last().unwrap_or(peak);
        let last = (peak + 1..sums.len()).take_while(goes_on).last();
        let (from, to) = (
            sums[first].0,
            bins.len().min(sums[last.unwrap_or(peak)].0 + width),
        );
        // Trims the quiet bins at both ends.
        let run = &bins[from..to];
        let quiet = |n: &&u32| **n == 0;
        let (before, after) = (
            run.iter().take_while(quiet).count(),
            run.iter().rev().take_while(quiet).count(),
        );
        let (from, to) = (from + before, to - after);
        let (n, expected) = (sum(from, to), of_one * (to - from) as f64);
        found.push(Dense {
            from,
            to,
            stands_out: n * (n / expected).ln() - (n - expected),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(bins: &[u32], width: usize) -> Vec<(usize, usize)> {
        let found = dense(bins, width, 10.0);
        found.iter().map(|d| (d.from, d.to)).collect()
    }

    #[test]
    fn four_minutes_in_an_hour_are_an_episode() {
        let mut hour = vec![0; 3_600];
        hour[2_400..2_640].fill(5);
        let [(from, to)] = runs(&hour, 60)[..] else {
            panic!("{:?}", runs(&hour, 60))
        };
        assert_eq!((from, to), (2_400, 2_640));
    }

    #[test]
    fn what_goes_on_all_the_time_or_now_and_then_is_none() {
        assert!(runs(&[7; 600], 60).is_empty());
        // Ten in a day never share a window.
        let mut day = vec![0; 86_400];
        (0..10).for_each(|i| day[i * 8_000] = 1);
        assert!([2, 10, 60].iter().all(|w| runs(&day, *w).is_empty()));
        // A rate that varies by chance.
        let varies: Vec<u32> = (0..3_600u64)
            .map(|i| (i * i * 2_654_435_761 % 7) as u32)
            .collect();
        assert!([2, 10, 60].iter().all(|w| runs(&varies, *w).is_empty()));
    }

    #[test]
    fn a_second_in_a_minute_is_one_and_two_are_two() {
        let mut minute = vec![0; 60];
        minute[20] = 40;
        assert_eq!(runs(&minute, 2).len(), 1);
        minute[50] = 40;
        assert_eq!(runs(&minute, 2).len(), 2);
        // A recording of a few seconds is judged as a whole.
        assert!(runs(&[0, 0, 40, 0, 0], 2).is_empty());
    }
}
