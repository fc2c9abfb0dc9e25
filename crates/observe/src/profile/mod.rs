//! Source `profile`: what each CPU is at, many times a second.

mod driver;
mod worker;

pub use driver::{Profile, ProfileOptions, sources};
pub use worker::watch;
