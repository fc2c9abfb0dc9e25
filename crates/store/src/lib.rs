//! A store: what a host recorded over days, as recordings of half an hour that follow each other.
//!
//! One process, the [`Keeper`], writes it: it says where the next recording goes, packs those that have ended, and removes the
//! oldest ones, so that all of them stay within [`Bounds`]. Whoever reads asks a [`Store`] for a time and gets one
//! recording, whatever the number of those that hold it. A store needs no root, and touches nothing but its directory.

#![warn(clippy::missing_errors_doc)]

mod bounds;
mod error;
mod keeper;
mod layout;
mod merge;
mod notes;
mod pins;
#[cfg(test)]
mod tests;
mod window;

pub use bounds::Bounds;
pub use error::Error;
pub use keeper::Keeper;
pub use layout::{findings, is_store};
pub use merge::merge;
pub use notes::{Gap, Notes};
pub use pins::Pins;
pub use window::{Store, Window};
