//! Source `events`: TCP tracepoints, one ring buffer, drained on a timer.

mod decode;
mod driver;
mod fold;

pub use decode::Decoder;
pub use driver::{EventOptions, Events, Losses};
pub use fold::{Fold, Step};
