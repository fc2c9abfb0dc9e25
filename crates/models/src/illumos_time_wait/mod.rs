//! illumos-time-wait: the connection management of illumos before loopback left TIME_WAIT alone.
//!
//! A connection advances the host's one sequence-number counter by so much that it has gone half
//! around after 8,590 connections over loopback. A SYN that then meets a TIME_WAIT of the same ports
//! looks old and is refused; the client, who knows nothing of the TIME_WAIT, waits for its timer.
//! Case A is a benchmark that runs into it after two seconds, case C a balancer at its daily peak.

mod cases;
mod closed_form;
mod iss;
mod observer;
mod outcome;
mod params;
mod ports;
mod record;
mod samples;
mod sim;
mod time_wait;

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
    const NAME: &'static str = "illumos-time-wait";
    const TITLE: &'static str =
        "illumos refuses SYNs that meet a TIME_WAIT: the clumsy kernel (A), unicorn (C)";
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
