//! What every model is to the command: a name, its parameters, and what can be done with it.

use std::path::Path;

use recording::Manifest;
use synth::Tables;

use crate::bench::{Bench, Checked};
use crate::clock::START_NS;
use crate::{Check, CheckRow, Error, MODELS, Parameter, Parameters, Report, Values};

/// Checks a model of these parameters, with these changes, over so many seeds.
type CheckModel = fn(&Parameters, &[String], u64) -> Result<Vec<CheckRow>, Error>;

/// A model. The functions are pure but for the recording that [`Model::record`] writes.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// By which it is run.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Its parameters, as `params!` declares them.
    pub(crate) parameters: &'static [Parameter],
    /// The text of its `presets.toml`.
    pub(crate) presets: &'static str,
    /// Simulates once.
    pub(crate) run: fn(&Values, u64) -> Result<Report, Error>,
    /// The same, and writes down what a recorder on that host would have seen.
    pub(crate) record: fn(&Values, u64, &mut Tables) -> Result<Report, Error>,
    /// Every figure that it is checked by.
    pub(crate) check: CheckModel,
}

/// The model of a name.
pub fn find(name: &str) -> Result<&'static Model, Error> {
    let found = MODELS.iter().find(|m| m.name == name);
    found.ok_or_else(|| Error::UnknownModel(name.into()))
}

impl Model {
    /// The model that a simulation is.
    pub(crate) const fn of<S: Checked>() -> Model {
        Model {
            name: S::NAME,
            title: S::TITLE,
            parameters: S::ALL,
            presets: S::PRESETS,
            run: |values, seed| {
                let all = S::of(values)?;
                Ok(all.report(&all.simulate(seed)))
            },
            record: |values, seed, tables| {
                let all = S::of(values)?;
                Ok(all.report(&all.record(seed, tables)))
            },
            check: |parameters, changes, seeds| S::check(&Bench::new(parameters, changes, seeds)),
        }
    }

    /// Its parameters.
    pub fn parameters(&self) -> Result<Parameters, Error> {
        Parameters::read(self.name, self.parameters, self.presets)
    }

    /// Simulates once.
    pub fn run(&self, values: &Values, seed: u64) -> Result<Report, Error> {
        (self.run)(values, seed)
    }

    /// Simulates once and writes the recording `dir`, which must not exist yet; what was written
    /// of one that fails is removed.
    pub fn record(&self, values: &Values, seed: u64, dir: &Path) -> Result<Report, Error> {
        let all = values.all().map(|(name, value)| (name.to_string(), value));
        let manifest = Manifest {
            tcpwhy: env!("CARGO_PKG_VERSION").into(),
            parameters: all.chain([("seed".into(), seed.to_string())]).collect(),
            ..synth::manifest(&format!("model {}", self.name), START_NS, &[])
        };
        let mut tables = Tables::create(dir, manifest)?;
        let done = (self.record)(values, seed, &mut tables).and_then(|report| {
            tables.finish()?;
            Ok(report)
        });
        if done.is_err() {
            tables.discard();
        }
        done
    }

    /// Checks it over so many seeds; `changes` (`name=value`) make the mechanism another one, which
    /// the check then has to notice.
    pub fn check(&self, changes: &[String], seeds: u64) -> Result<Check, Error> {
        let rows = (self.check)(&self.parameters()?, changes, seeds)?;
        Ok(Check {
            model: self.name,
            seeds,
            passed: rows.iter().all(|r| r.passed),
            rows,
        })
    }
}

/// Checks every model over so many seeds.
pub fn check(seeds: u64) -> Result<Vec<Check>, Error> {
    MODELS.iter().map(|model| model.check(&[], seeds)).collect()
}

/// The model of a directory: its name, and what it is in one line. The directory has `Params`, a
/// `Recorder` of them that writes to tables, `sim::simulate`, `outcome::report` and `cases::check`. A
/// recorder that draws random numbers of its own is made by the function that comes last.
macro_rules! model {
    ($name:literal, $title:literal) => {
        $crate::model::model! { $name, $title, |p, _, tables| Recorder::new(p, tables) }
    };
    ($name:literal, $title:literal, $recorder:expr) => {
        /// The model.
        pub(crate) const MODEL: $crate::Model = $crate::Model::of::<Params>();

        impl $crate::simulation::Simulation for Params {
            const NAME: &'static str = $name;
            const TITLE: &'static str = $title;
            const PRESETS: &'static str = include_str!("presets.toml");

            type Outcome = outcome::Outcome;

            fn together(&self) -> Result<(), $crate::Error> {
                Params::together(self)
            }

            fn simulate(&self, seed: u64) -> Self::Outcome {
                sim::simulate(self, seed, &mut ())
            }

            fn record(&self, seed: u64, tables: &mut synth::Tables) -> Self::Outcome {
                type New = for<'a> fn(&'a Params, u64, &'a mut synth::Tables) -> Recorder<'a>;
                let new: New = $recorder;
                let mut recorder = new(self, seed, tables);
                let outcome = sim::simulate(self, seed, &mut recorder);
                recorder.finish();
                outcome
            }

            fn report(&self, outcome: &Self::Outcome) -> $crate::Report {
                outcome::report(self, outcome)
            }
        }

        impl $crate::bench::Checked for Params {
            fn check(
                bench: &$crate::bench::Bench<Params>,
            ) -> Result<Vec<$crate::CheckRow>, $crate::Error> {
                cases::check(bench)
            }
        }
    };
}
pub(crate) use model;
