//! Source `events`: TCP tracepoints, one ring buffer, drained on a timer.

mod decode;
mod driver;
mod lives;
mod second;
mod step;

pub use decode::Decoder;
pub use driver::{EventOptions, Events, Losses, Told};
pub use lives::Lives;
pub use step::{Step, disturbs, place};
