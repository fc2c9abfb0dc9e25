//! Source `events`: TCP tracepoints, one ring buffer, drained on a timer.

mod decode;
mod driver;

pub use decode::Decoder;
pub use driver::{EventOptions, Events, Losses};
