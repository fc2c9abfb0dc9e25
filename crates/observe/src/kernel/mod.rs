//! What the running kernel says of itself: names from its BTF, symbols, configuration.

mod btf;
mod config;
mod missed;
mod run_time;
mod symbols;
mod syscalls;

pub use btf::{KernelBtf, Names};
pub use config::hz;
pub use missed::{MISSED, Missed};
pub use run_time::Moment;
pub use symbols::{Callers, Symbols};
pub use syscalls::{Syscalls, lock_calls, takes_fd};
