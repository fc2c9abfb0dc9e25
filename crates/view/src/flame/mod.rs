//! Flame graphs: where the CPUs were, or what threads waited for, as folded stacks, as SVG, and what
//! grew between two of them.

mod draw;
mod foreign;
mod growth;
mod names;
mod off_cpu;
mod profile;
mod table;

pub use draw::{Caption, difference, folded, graph};
pub use foreign::read_foreign;
pub use growth::{Growth, Share, growth, shares};
pub use names::Folded;
pub use off_cpu::off_cpu;
pub use profile::{Choice, Profile, Samples, Unit};
pub use table::{text_growth, text_shares};
