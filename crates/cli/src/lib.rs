//! What tcpwhy's commands share: one way to end, and their completions and man pages.

mod generate;
mod run;

pub use generate::{CompletionsArgs, ManArgs};
pub use run::{main, main_here};
