//! One file for each kind of receiver: what an alert is to it.

pub mod journal;
