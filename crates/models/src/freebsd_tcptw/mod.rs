//! freebsd-tcptw: how FreeBSD 6 looks for a local port among connections in TIME_WAIT.
//!
//! All connections with one local port hang in one list, the youngest first. connect() looks each
//! candidate port up there, and from 2003 to 2006 that look-up ended every TIME_WAIT it passed and
//! then began again at the head: live connections in front are passed once for every TIME_WAIT
//! behind them. Case E is a front end whose connect() walked such lists for seconds, with the lock
//! held that all of TCP's input needs.

mod cases;
mod closed_form;
mod observer;
mod outcome;
mod params;
mod pcbs;
mod ports;
mod record;
mod samples;
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
    const NAME: &'static str = "freebsd-tcptw";
    const TITLE: &'static str =
        "FreeBSD 6 purges TIME_WAITs while connect() looks for a port: in_pcb (E)";
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
