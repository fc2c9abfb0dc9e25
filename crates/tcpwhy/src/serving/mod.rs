//! `tcpwhy serve`: a recorder, which has the rights to, and who explains what it records, who has none.

mod closer;
mod explainer;
mod helper;
mod merger;
mod receivers;
mod recorder;

pub use explainer::{WRITE_EVERY, run as explain};
pub use helper::Helper;
pub use recorder::Recorder;

/// Now, ns since 1970.
fn now_ns() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
