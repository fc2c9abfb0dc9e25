//! What a watched process, its host and its user can do to a recorder: root, and one test at a time.

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod namespaces;
mod perf_map;
mod private;
mod programs;
mod rights;
mod signals;
mod strangers;
mod surroundings;
