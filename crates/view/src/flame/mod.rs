//! Flame graphs: where the CPUs were, as folded stacks, as SVG, and what grew between two of them.

mod draw;
mod foreign;
mod growth;
mod profile;
mod table;

pub use draw::{Caption, difference, folded, graph};
pub use foreign::read_foreign;
pub use growth::{Growth, Share, growth, shares};
pub use profile::{Choice, Profile};
pub use table::{text_growth, text_shares};
