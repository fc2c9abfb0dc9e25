//! What tcpwhy's commands share: one way to end, files they write, and their completions and man pages.

mod generate;
mod output;
mod run;
mod say;

pub use generate::{CompletionsArgs, ManArgs};
pub use output::Target;
pub use run::{STACK, main, main_here};
pub use say::{TalkArgs, detail, error, is_quiet, is_verbose, say, talk};
