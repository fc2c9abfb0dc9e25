//! What every model is to the command: a name, its parameters, and what can be done with it.

use std::path::Path;

use recording::Manifest;
use synth::Tables;

use crate::clock::START_NS;
use crate::{CheckRow, Error, MODELS, Parameter, Parameters, Report, Values};

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
}
