//! The axis that all time lines share: seconds since the start, in bins.

use recording::Manifest;

/// Bins at most.
const MOST: u64 = 600;
/// Shorter bins show the pace of the sampler rather than that of the host, ns.
const SHORTEST_NS: u64 = 50_000_000;

/// From when to when, in how many bins.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Where it begins, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Width of a bin, ns.
    pub bin_ns: u64,
    /// How many bins.
    pub bins: usize,
}

impl Axis {
    /// The whole recording, in bins whose width is 1, 2 or 5 times a power of ten.
    pub fn of(manifest: &Manifest) -> Axis {
        let length = manifest.end_ns.saturating_sub(manifest.start_ns).max(1);
        let least = length.div_ceil(MOST).max(SHORTEST_NS);
        let power = 10_u64.saturating_pow(least.ilog10());
        let widths = [1, 2, 5, 10].map(|n| power.saturating_mul(n));
        let bin_ns = widths.into_iter().find(|w| *w >= least).unwrap_or(least);
        Axis {
            start_ns: manifest.start_ns,
            bin_ns,
            bins: length.div_ceil(bin_ns) as usize,
        }
    }

    /// Width of a bin, s.
    pub fn bin_s(self) -> f64 {
        self.bin_ns as f64 / 1e9
    }

    /// Seconds since the start; negative before it.
    pub fn seconds(self, time_ns: u64) -> f64 {
        let ns = i128::from(time_ns) - i128::from(self.start_ns);
        // Six digits after the point: more would be noise in the page.
        (ns as f64 / 1e3).round() / 1e6
    }

    /// The bin of a moment; the end belongs to the last one. `None` outside of the recording.
    pub fn bin(self, time_ns: u64) -> Option<usize> {
        let bin = (time_ns.checked_sub(self.start_ns)? / self.bin_ns) as usize;
        let end = self.bin_ns.saturating_mul(self.bins as u64);
        let at_end = time_ns - self.start_ns == end;
        (bin < self.bins || at_end).then(|| bin.min(self.bins - 1))
    }

    /// Events per bin.
    pub fn counts(self) -> Counts {
        Counts(vec![0; self.bins])
    }

    /// Amounts that came between two moments.
    pub fn amounts(self) -> Amounts {
        Amounts {
            axis: self,
            amounts: vec![None; self.bins],
        }
    }

    /// Values that hold between two moments.
    pub fn steps(self) -> Steps {
        Steps {
            axis: self,
            values: vec![None; self.bins],
        }
    }
}

/// How many events each bin holds.
#[derive(Clone, Debug)]
pub struct Counts(Vec<u32>);

impl Counts {
    /// One more event in a bin.
    pub fn add(&mut self, bin: usize) {
        if let Some(count) = self.0.get_mut(bin) {
            *count = count.saturating_add(1);
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|n| u64::from(*n)).sum()
    }

    /// Adds those of another line.
    pub fn join(&mut self, other: &Counts) {
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(*other);
        }
    }

    /// Their rate per second in each bin.
    pub fn per_s(&self, axis: Axis) -> impl Iterator<Item = Option<f64>> {
        let seconds = axis.bin_s();
        self.0.iter().map(move |n| Some(f64::from(*n) / seconds))
    }
}

/// Amounts, evenly spread over the time in which they came.
#[derive(Clone, Debug)]
pub struct Amounts {
    axis: Axis,
    amounts: Vec<Option<f64>>,
}

impl Amounts {
    /// Adds an amount that came between two moments.
    pub fn spread(&mut self, from_ns: u64, to_ns: u64, amount: f64) {
        let axis = self.axis;
        let (from, to) = (from_ns.max(axis.start_ns), to_ns);
        let (Some(first), Some(last)) = (axis.bin(from), axis.bin(to)) else {
            return;
        };
        let length = to.saturating_sub(from_ns).max(1) as f64;
        for (i, sum) in self.amounts[first..=last].iter_mut().enumerate() {
            let begin = axis.bin_ns.saturating_mul((first + i) as u64);
            let begin = axis.start_ns.saturating_add(begin);
            let end = begin.saturating_add(axis.bin_ns);
            let within = to.min(end).saturating_sub(from.max(begin));
            let part = amount * within as f64 / length;
            *sum = Some(sum.unwrap_or(0.0) + part);
        }
    }

    /// The sum of all.
    pub fn total(&self) -> f64 {
        self.amounts.iter().flatten().sum()
    }

    /// The rate per second in each bin; `None` where nothing was measured.
    pub fn per_s(&self) -> impl Iterator<Item = Option<f64>> {
        let seconds = self.axis.bin_s();
        self.amounts.iter().map(move |sum| Some((*sum)? / seconds))
    }

    /// Its share of another amount in each bin, %.
    pub fn percent_of(&self, whole: &Amounts) -> impl Iterator<Item = Option<f64>> {
        let both = self.amounts.iter().zip(&whole.amounts);
        both.map(|(part, whole)| {
            let whole = (*whole)?;
            (whole > 0.0).then_some(100.0 * (*part)? / whole)
        })
    }
}

/// Values of samples: each holds from the sample before it.
#[derive(Clone, Debug)]
pub struct Steps {
    axis: Axis,
    values: Vec<Option<f64>>,
}

impl Steps {
    /// Sets a value that held from one moment to another; where several overlap, the largest counts.
    pub fn hold(&mut self, from_ns: u64, to_ns: u64, value: f64) {
        let axis = self.axis;
        let Some(to) = axis.bin(to_ns) else { return };
        let from = match axis.bin(from_ns) {
            Some(from) => (from + 1).min(to),
            None => 0,
        };
        for old in &mut self.values[from..=to] {
            *old = Some(old.unwrap_or(value).max(value));
        }
    }

    /// The value of each bin; `None` where there is none.
    pub fn values(&self) -> impl Iterator<Item = Option<f64>> {
        self.values.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(length_ns: u64) -> Axis {
        Axis::of(&Manifest {
            start_ns: 1_000,
            end_ns: 1_000 + length_ns,
            ..Manifest::default()
        })
    }

    #[test]
    fn bins_are_few_and_cover_every_moment() {
        for length in [
            0,
            1,
            49_999_999,
            10_000_000_000,
            60_000_000_001,
            9 * 86_400_000_000_000,
        ] {
            let axis = axis(length);
            assert!((1..=600).contains(&axis.bins), "{length}: {}", axis.bins);
            assert_eq!(axis.bin(999), None);
            assert_eq!(axis.bin(1_000), Some(0));
            assert_eq!(
                axis.bin(1_000 + length),
                Some((length / axis.bin_ns) as usize).map(|b| b.min(axis.bins - 1))
            );
            assert_eq!(axis.bin(u64::MAX), None);
        }
        assert_eq!(axis(10_000_000_000).bin_s(), 0.05);
        assert_eq!(axis(60_000_000_000).bin_s(), 0.1);
    }

    #[test]
    fn a_sample_holds_since_the_one_before() {
        let axis = axis(500_000_000);
        let mut steps = axis.steps();
        steps.hold(1_000, 100_000_000, 4.0);
        steps.hold(100_000_000, 250_001_000, 7.0);
        assert_eq!(
            steps.values[..6],
            [None, Some(4.0), Some(7.0), Some(7.0), Some(7.0), Some(7.0)]
        );
    }

    #[test]
    fn what_is_spread_stays_as_much() {
        let axis = axis(500_000_000);
        let mut amounts = axis.amounts();
        amounts.spread(1_000 + 25_000_000, 1_000 + 125_000_000, 100.0);
        assert_eq!(
            amounts.amounts[..4],
            [Some(25.0), Some(50.0), Some(25.0), None]
        );
        // Half of it came before the recording.
        amounts.spread(0, 2_000, 10.0);
        assert_eq!(amounts.total(), 105.0);
    }
}
