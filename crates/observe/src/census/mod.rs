//! Part `ports`: how full the local port ranges are, and the kernel's lookup structures of TCP.
//!
//! One part for both, because one walk over the sockets counts for both.

mod counts;
mod ports;
mod slabs;
mod sources;
mod structures;
mod verdicts;
mod walk;
mod worker;

pub use sources::checkup;
pub use worker::take_census;
