//! What the running kernel says of itself: names from its BTF, symbols, configuration.

mod btf;
mod config;
mod missed;
mod symbols;
mod syscalls;

pub use btf::{KernelBtf, Names};
pub use config::hz;
pub use missed::{MISSED, Missed};
pub use symbols::{Callers, Symbols};
pub use syscalls::{Syscalls, lock_calls, takes_fd};
