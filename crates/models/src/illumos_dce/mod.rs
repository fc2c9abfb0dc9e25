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
mod outcome;
mod params;
mod probe;
mod profile;
mod record;
mod sim;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use synth::Tables;

use crate::bench::Simulated;
use crate::parameters::Declared;
use crate::{Error, Model, Report, Values};
use outcome::Outcome;
use params::Params;
use probe::Unwatched;

/// The model.
pub(crate) const MODEL: Model = Model {
    name: "illumos-dce",
    title: "illumos' cache of destinations grows for weeks: the load balancer (B)",
    parameters: Params::ALL,
    presets: include_str!("presets.toml"),
    run,
    record,
    check: cases::check,
};

impl Simulated for Params {
    type Outcome = Outcome;

    fn of(values: &Values) -> Result<Params, Error> {
        Params::of(values)
    }

    fn simulate(&self, seed: u64) -> Outcome {
        sim::simulate(self, seed, &mut Unwatched)
    }
}

fn run(values: &Values, seed: u64) -> Result<Report, Error> {
    let p = Params::of(values)?;
    Ok(outcome::report(&p, &p.simulate(seed)))
}

fn record(values: &Values, seed: u64, tables: &mut Tables) -> Result<Report, Error> {
    let p = Params::of(values)?;
    let mut recorder = record::Recorder::new(&p, seed, tables);
    let outcome = sim::simulate(&p, seed, &mut recorder);
    recorder.finish();
    Ok(outcome::report(&p, &outcome))
}
