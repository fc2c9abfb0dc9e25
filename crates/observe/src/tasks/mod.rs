//! Sources `waits` and `threads`: what threads do with their time, and what ends their long waits.

mod driver;
mod epolls;
mod signals;
mod threads;
mod waits;
mod worker;

pub use driver::{Losses, TaskOptions, Tasks, failed_sources};
pub use worker::watch;
