//! How tcpwhy shows what it found: text for people, JSON lines for programs.
//!
//! The words and numbers of findings come from `explain`; views show what the tables say. One thing is judged
//! here: whose time the slowest requests took (`requests.rs`).

pub mod alerts;
mod ascii;
pub mod book;
mod columns;
pub mod compare;
mod escape;
mod explained;
pub mod flame;
mod how;
pub mod json;
mod numbers;
mod page;
pub mod report;
mod requests;
pub mod rows;
mod screen;
pub mod stat;
mod style;
pub mod text;
pub mod top;
pub mod trace;
mod view;
mod wrap;

pub use wrap::wrap;

pub use escape::escape;
pub use explained::{Explained, explained};
pub use how::{How, local_zone};
pub use screen::Screen;
pub use style::Style;
pub use view::{Error, HealthNotes, Reader, View};
