//! Findings as they come and go: raised, resolved, counted, and told to whoever listens.
//!
//! [`Alerts`] takes what explain says of one window of time after the other and answers with what has changed.
//! [`Alert`] is the one shape in which a finding is told; each file of [`render`] writes it for one kind of receiver.
//! [`Book`] is where it is written down.

mod alert;
mod book;
mod judge;
pub mod render;

pub use alert::{Alert, State, Told};
pub use book::{Book, Error};
pub use judge::{Alerts, Change};
