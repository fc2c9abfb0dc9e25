//! illumos-dce: the destination cache of illumos before 2012, which never forgets an address.
//!
//! Every connect and every accept looks the other end's address up in a hash table of 256 buckets,
//! under the bucket's lock. An address that is not there is added; none is ever taken away unless
//! memory is low. Case B is a balancer on which chains are 100,000 entries long after two weeks: a
//! lookup takes 3 ms, and the CPU that handles interrupts walks chains for most of its time.

mod cache;
mod cases;
mod closed_form;
mod growth;
mod observer;
mod outcome;
mod params;
mod profile;
mod record;
mod sim;

#[cfg(test)]
mod tests;

use synth::Tables;

use crate::bench::Bench;
use crate::simulation::Simulation;
use crate::{CheckRow, Error, Model, Report};
use outcome::Outcome;
use params::Params;
use record::Recorder;

/// The model.
pub(crate) const MODEL: Model = Model::of::<Params>();

impl Simulation for Params {
    const NAME: &'static str = "illumos-dce";
    const TITLE: &'static str =
        "illumos' cache of destinations grows for weeks: the load balancer (B)";
    const PRESETS: &'static str = include_str!("presets.toml");

    type Outcome = Outcome;

    fn together(&self) -> Result<(), Error> {
        Params::together(self)
    }

    fn simulate(&self, seed: u64) -> Outcome {
        sim::simulate(self, seed, &mut ())
    }

    fn record(&self, seed: u64, tables: &mut Tables) -> Outcome {
        let mut recorder = Recorder::new(self, seed, tables);
        let outcome = sim::simulate(self, seed, &mut recorder);
        recorder.finish();
        outcome
    }

    fn report(&self, outcome: &Outcome) -> Report {
        outcome::report(self, outcome)
    }

    fn check(bench: &Bench<Params>) -> Result<Vec<CheckRow>, Error> {
        cases::check(bench)
    }
}
