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
mod observer;
mod outcome;
mod params;
mod record;
mod samples;
mod series;
mod sim;
mod window;

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
    const NAME: &'static str = "linux-syn-queue";
    const TITLE: &'static str =
        "Linux answers SYNs with cookies that forget options: cookie crumbs (D)";
    const PRESETS: &'static str = include_str!("presets.toml");

    type Outcome = Outcome;

    fn together(&self) -> Result<(), Error> {
        Params::together(self)
    }

    fn simulate(&self, seed: u64) -> Outcome {
        sim::simulate(self, seed, &mut ())
    }

    fn record(&self, seed: u64, tables: &mut Tables) -> Outcome {
        let mut recorder = Recorder::new(self, tables);
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
