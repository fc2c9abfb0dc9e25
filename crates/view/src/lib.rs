//! How tcpwhy shows what it found: text for people, JSON lines for programs.
//!
//! Nothing is judged here: the words and numbers come from `explain`.

mod escape;
pub mod json;
mod page;
mod style;
pub mod text;
mod wrap;

pub use escape::escape;
pub use style::Style;
