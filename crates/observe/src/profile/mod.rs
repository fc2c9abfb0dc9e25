//! Source `profile`: what each CPU is at, many times a second.

mod clock;
mod driver;
mod worker;

pub use clock::affordable_hz;
pub(crate) use clock::tick_cost;
pub use driver::{Profile, ProfileOptions, sources};
pub use worker::watch;
