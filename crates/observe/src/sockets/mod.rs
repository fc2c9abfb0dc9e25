//! Source `sockets`: every TCP socket of a namespace, from the kernel's iterator.

mod decode;
mod driver;

pub use decode::Decoder;
pub use driver::{SocketRows, Sockets};
