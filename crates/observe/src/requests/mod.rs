//! Part `requests`: requests and their answers, told from the movement of sequence numbers.

mod driver;
mod listening;
mod rows;
mod shares;
mod worker;

pub use driver::{RequestOptions, checkup};
pub use worker::watch;
