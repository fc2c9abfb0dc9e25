//! What the articles of cases A and C report, beside what the model gives.

mod clumsy_kernel;
mod unicorn;

use super::outcome::Outcome;
use super::params::Params;
use super::probe::Unwatched;
use super::sim::simulate;
use crate::check::{CheckRow, Spread};
use crate::parallel::parallel;
use crate::{Error, Parameters};

/// The runs that rows are made of.
struct Bench<'a> {
    parameters: &'a Parameters,
    changes: &'a [String],
    seeds: u64,
}

/// One set of values, run with every seed.
struct Runs {
    p: Params,
    all: Vec<Outcome>,
}

impl Bench<'_> {
    fn run(&self, preset: &str, set: &[&str]) -> Result<Runs, Error> {
        let mut values = self.parameters.preset(preset)?;
        for one in self
            .changes
            .iter()
            .map(String::as_str)
            .chain(set.iter().copied())
        {
            self.parameters.set(&mut values, one)?;
        }
        let p = Params::of(&values)?;
        let all = parallel(self.seeds as usize, |nth| {
            Ok(simulate(&p, nth as u64 + 1, &mut Unwatched))
        })?;
        Ok(Runs { p, all })
    }
}

impl Runs {
    fn each(&self, of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.all.iter().map(of).collect()
    }

    fn median(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        Spread::of(self.each(of)).median
    }

    /// Per cent of the connects that were refused at first.
    fn refused(&self) -> Vec<f64> {
        self.each(|o| o.refused_share(&self.p) * 100.0)
    }
}

pub(super) fn check(
    parameters: &Parameters,
    changes: &[String],
    seeds: u64,
) -> Result<Vec<CheckRow>, Error> {
    let bench = Bench {
        parameters,
        changes,
        seeds,
    };
    let mut rows = clumsy_kernel::collapse(&bench)?;
    rows.extend(clumsy_kernel::controls(&bench)?);
    rows.extend(unicorn::balancer(&bench)?);
    rows.extend(unicorn::traffic(&bench)?);
    Ok(rows)
}
