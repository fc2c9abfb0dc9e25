//! Part `heartbeats`: messages that came at regular intervals and then were late.

mod driver;
mod holder;
mod worker;

pub use driver::{HeartbeatOptions, checkup};
pub use worker::watch;
