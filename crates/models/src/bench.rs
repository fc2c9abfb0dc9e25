//! The runs that a check's rows are made of: a preset with changes, simulated with every seed.

use std::marker::PhantomData;

use crate::check::Spread;
use crate::parallel::parallel;
use crate::simulation::Simulation;
use crate::{CheckRow, Error, Parameters};

/// A simulation that is checked against what is known of it.
pub(crate) trait Checked: Simulation {
    /// Every figure that the model is checked by. The values are those of its presets, then the
    /// bench's changes.
    fn check(bench: &Bench<Self>) -> Result<Vec<CheckRow>, Error>;
}

/// Where runs are made.
pub(crate) struct Bench<'a, P> {
    parameters: &'a Parameters,
    changes: &'a [String],
    pub(crate) seeds: u64,
    of: PhantomData<P>,
}

/// One set of values, run with every seed.
pub(crate) struct Runs<P: Simulation> {
    pub(crate) p: P,
    pub(crate) all: Vec<P::Outcome>,
}

impl<'a, P: Simulation> Bench<'a, P> {
    /// `changes` (`name=value`) are in every run: they make the mechanism another one.
    pub(crate) fn new(parameters: &'a Parameters, changes: &'a [String], seeds: u64) -> Self {
        Bench {
            parameters,
            changes,
            seeds,
            of: PhantomData,
        }
    }

    /// The values of a preset, with the changes and with what is set.
    pub(crate) fn params(&self, preset: &str, set: &[&str]) -> Result<P, Error> {
        let mut values = self.parameters.preset(preset)?;
        let changes = self.changes.iter().map(String::as_str);
        for one in changes.chain(set.iter().copied()) {
            self.parameters.set(&mut values, one)?;
        }
        P::of(&values)
    }

    /// Something for every seed.
    pub(crate) fn each<T: Send>(&self, of: impl Fn(u64) -> T + Sync) -> Result<Vec<T>, Error> {
        parallel(self.seeds as usize, |nth| Ok(of(nth as u64 + 1)))
    }

    /// A preset with what is set, simulated with every seed.
    pub(crate) fn run(&self, preset: &str, set: &[&str]) -> Result<Runs<P>, Error> {
        let p = self.params(preset, set)?;
        let all = self.each(|seed| p.simulate(seed))?;
        Ok(Runs { p, all })
    }
}

impl<P: Simulation> Runs<P> {
    pub(crate) fn each(&self, of: impl Fn(&P::Outcome) -> f64) -> Vec<f64> {
        self.all.iter().map(of).collect()
    }

    pub(crate) fn median(&self, of: impl Fn(&P::Outcome) -> f64) -> f64 {
        Spread::of(self.each(of)).median
    }
}
