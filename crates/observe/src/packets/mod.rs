//! Source `packets`: control packets on the wire of every namespace, through packet sockets.

mod decode;
mod driver;
mod tap;
mod taps;
mod watch;

pub use driver::PacketOptions;
pub use watch::{checkup, watch};
