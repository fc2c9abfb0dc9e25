//! freebsd-tcptw: how FreeBSD 6 looks for a local port among connections in TIME_WAIT.
//!
//! All connections with one local port hang in one list, the youngest first. connect() looks each
//! candidate port up there, and from 2003 to 2006 that look-up ended every TIME_WAIT it passed and
//! then began again at the head: live connections in front are passed once for every TIME_WAIT
//! behind them. Case E is a front end whose connect() walked such lists for seconds, with the lock
//! held that all of TCP's input needs.

mod cases;
mod closed_form;
mod outcome;
mod params;
mod pcbs;
mod ports;
mod probe;
mod record;
mod samples;
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
    name: "freebsd-tcptw",
    title: "FreeBSD 6 purges TIME_WAITs while connect() looks for a port: in_pcb (E)",
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
