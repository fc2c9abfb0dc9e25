//! illumos-time-wait: the connection management of illumos before loopback left TIME_WAIT alone.
//!
//! A connection advances the host's one sequence-number counter by so much that it has gone half
//! around after 8,590 connections over loopback. A SYN that then meets a TIME_WAIT of the same ports
//! looks old and is refused; the client, who knows nothing of the TIME_WAIT, waits for its timer.
//! Case A is a benchmark that runs into it after two seconds, case C a balancer at its daily peak.

mod cases;
mod closed_form;
mod iss;
mod outcome;
mod params;
mod ports;
mod probe;
mod record;
mod samples;
mod sim;
mod time_wait;

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
    name: "illumos-time-wait",
    title: "illumos refuses SYNs that meet a TIME_WAIT: the clumsy kernel (A), unicorn (C)",
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
