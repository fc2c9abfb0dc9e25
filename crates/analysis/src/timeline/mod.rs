//! Series over time on one axis, for charts.
//!
//! The [`Story`](crate::Story) knows which ones are worth it: each table is read once more, only for what is asked of
//! it, so that memory depends on what is drawn and not on the recording.

mod axis;
mod counters;
mod cpus;
mod events;
mod gauges;
mod requests;
mod threads;

pub use axis::{Amounts, Axis, Counts, Steps};
pub use counters::{CounterName, Rates, counters};
pub use cpus::{Busy, cpus};
pub use events::{ByName, Events, events};
pub use gauges::{Gauge, ListenId, LoadMetric, SizeId, accept_queues, load, sizes};
pub use requests::{Parts, requests};
pub use threads::{Band, Interval, threads};
