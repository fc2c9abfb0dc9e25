//! linux-syn-queue: a cluster that floods its own listeners with SYNs, on Linux of 2017.
//!
//! A listener keeps as many half-open connections as its backlog says; to the next SYN it answers
//! with a cookie. That remembers a segment size and, unless both ends use timestamps, nothing else:
//! the connection lives without SACK and window scaling, with 65,535 bytes in flight. Case D is a
//! mesh of nodes with a backlog of 5, in which one link or other is slow for a whole run, by luck.

mod cases;
mod closed_form;
mod cookie;
mod flow;
mod listener;
mod mesh;
mod observer;
mod outcome;
mod params;
mod record;
mod samples;
mod series;
mod sim;
mod window;

#[cfg(test)]
mod tests;

use crate::model::model;
use params::Params;
use record::Recorder;

model! {
    "linux-syn-queue",
    "Linux answers SYNs with cookies that forget options: cookie crumbs (D)"
}
