//! illumos-time-wait: the connection management of illumos before loopback left TIME_WAIT alone.
//!
//! A connection advances the host's one sequence-number counter by so much that it has gone half
//! around after 8,590 connections over loopback. A SYN that then meets a TIME_WAIT of the same ports
//! looks old and is refused; the client, who knows nothing of the TIME_WAIT, waits for its timer.
//! Case A is a benchmark that runs into it after two seconds, case C a balancer at its daily peak.

mod cases;
mod closed_form;
mod conn;
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

use crate::model::model;
use params::Params;
use record::Recorder;

model! {
    "illumos-time-wait",
    "illumos refuses SYNs that meet a TIME_WAIT: the clumsy kernel (A), unicorn (C)"
}
