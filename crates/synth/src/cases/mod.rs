//! The recordings that several tests use: one per cause as the lab plants it, and healthy ones.

mod handshakes;
mod stalls;
mod transfers;

pub use handshakes::*;
pub use stalls::*;
pub use transfers::*;
