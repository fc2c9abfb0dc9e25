//! linux-syn-queue: a cluster that floods its own listeners with SYNs, on Linux of 2017.
//!
//! A listener keeps as many half-open connections as its backlog says; to the next SYN it answers
//! with a cookie. That remembers a segment size and, unless both ends use timestamps, nothing else:
//! the connection lives without SACK and window scaling, with 65,535 bytes in flight. Case D is a
//! mesh of nodes with a backlog of 5, in which one link or other is slow for a whole run, by luck.

mod cases;
mod closed_form;
mod cookie;
mod flow;
mod listener;
mod mesh;
mod outcome;
mod params;
mod probe;
mod record;
mod samples;
mod series;
mod sim;
mod window;

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
    name: "linux-syn-queue",
    title: "Linux answers SYNs with cookies that forget options: cookie crumbs (D)",
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
    let mut recorder = record::Recorder::new(&p, tables);
    let outcome = sim::simulate(&p, seed, &mut recorder);
    recorder.finish();
    Ok(outcome::report(&p, &outcome))
}
