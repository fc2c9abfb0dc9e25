//! Models: the TCP of kernels that cannot be booted here, as deterministic simulations.
//!
//! A model is one directory with its `params.rs` and `presets.toml`, and one line in [`MODELS`]. It
//! computes without I/O and on a virtual clock; the same parameters and seed give the same result to
//! the byte. What it records goes through the `recording` crate, so that `explain` reads it as it
//! reads a live host. What it says of a case is checked, figure by figure, against what the case's
//! article reports, and against closed forms where there are any.

mod bench;
mod check;
mod clock;
mod draws;
mod engine;
mod error;
mod freebsd_tcptw;
mod illumos_dce;
mod illumos_time_wait;
mod linux_syn_queue;
mod model;
mod parallel;
mod parameters;
mod report;
mod simulation;
mod sweep;
#[cfg(test)]
mod testing;

pub use check::{Band, Check, CheckRow, Spread, Standing, Theirs, render_check};
pub use error::Error;
pub use model::{Model, check, find};
pub use parameters::{Parameter, Parameters, Preset, Values};
pub use report::{Figure, Report, Series, render_report};
pub use sweep::{Range, Sweep, render_sweep, sweep, with_unit};

/// Every model, in the order in which they are listed.
pub const MODELS: &[Model] = &[
    illumos_time_wait::MODEL,
    illumos_dce::MODEL,
    linux_syn_queue::MODEL,
    freebsd_tcptw::MODEL,
];
