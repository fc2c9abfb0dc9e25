//! Source `calls`: system calls on TCP sockets that take long or fail.

mod decode;
mod driver;
mod syscalls;
mod watch;

pub use driver::CallOptions;
pub use watch::{try_attach, watch};
