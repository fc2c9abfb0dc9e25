//! What a hostile recording, name or neighbour can do to whoever reads: no root, and all at once.

#[path = "../common/mod.rs"]
mod common;
mod depth;
mod names;
mod outputs;
mod pasted;
mod redacted;
