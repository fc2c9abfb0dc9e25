//! What the running kernel says of itself: names from its BTF, symbols, configuration.

mod btf;
mod config;
pub mod defects;
mod missed;
mod run_time;
mod symbols;
mod syscalls;

pub use btf::{KernelBtf, Names};
pub use config::hz;
pub use missed::{MISSED, Missed};
pub use run_time::Moment;
pub use symbols::{Callers, Symbols, retransmit_kind};
pub use syscalls::{Syscalls, epoll_calls, lock_calls, poll_calls, read_calls, takes_fd};
