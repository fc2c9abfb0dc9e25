//! freebsd-tcptw: how FreeBSD 6 looks for a local port among connections in TIME_WAIT.
//!
//! All connections with one local port hang in one list, the youngest first. connect() looks each
//! candidate port up there, and from 2003 to 2006 that look-up ended every TIME_WAIT it passed and
//! then began again at the head: live connections in front are passed once for every TIME_WAIT
//! behind them. Case E is a front end whose connect() walked such lists for seconds, with the lock
//! held that all of TCP's input needs.

mod cases;
mod closed_form;
mod host;
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

use crate::model::model;
use params::Params;
use record::Recorder;

model! {
    "freebsd-tcptw",
    "FreeBSD 6 purges TIME_WAITs while connect() looks for a port: in_pcb (E)"
}
