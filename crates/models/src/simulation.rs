//! What each model implements; what the command can do with any follows from it.

use synth::Tables;

use crate::parameters::Declared;
use crate::{Error, Report, Values};

/// A model's parameters in types of its own, and the simulation of them.
pub(crate) trait Simulation: Declared + Sync {
    /// The model's name, by which it is run.
    const NAME: &'static str;
    /// What it is, in one line.
    const TITLE: &'static str;
    /// The text of its `presets.toml`.
    const PRESETS: &'static str;

    /// What a simulation comes to.
    type Outcome: Send;

    /// Whether the values go together; the error says which do not.
    fn together(&self) -> Result<(), Error>;

    /// Simulates without being watched.
    fn simulate(&self, seed: u64) -> Self::Outcome;

    /// The same, and writes down what a recorder on that host would have seen.
    fn record(&self, seed: u64, tables: &mut Tables) -> Self::Outcome;

    /// What there is to say of it.
    fn report(&self, outcome: &Self::Outcome) -> Report;

    /// The simulation of these values.
    fn of(values: &Values) -> Result<Self, Error> {
        let all = Self::read(values)?;
        all.together()?;
        Ok(all)
    }
}
