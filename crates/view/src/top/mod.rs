//! `tcpwhy top`: the live screen. Rows become seconds ([`Timeline`]), and a moment of these a [`Snapshot`]; keys
//! become [`State`]; both become the picture that [`draw`](fn@draw) paints.
//!
//! Nothing here knows a terminal or a clock: live and over a recording it is the same.

mod about;
mod clipboard;
mod connecting;
mod detail;
mod draw;
mod findings;
mod frame;
mod help;
mod links;
mod panes;
mod snapshot;
mod state;
mod table;
mod timeline;

pub use about::About;
pub use clipboard::to_clipboard;
pub use draw::{Picture, draw, waiting};
pub use findings::{Case, Findings, Progress};
pub use frame::SHOWN;
pub use snapshot::Snapshot;
pub use state::{Effect, Key, Pane, Seen, SocketOrder, State, Target};
pub use timeline::Timeline;
