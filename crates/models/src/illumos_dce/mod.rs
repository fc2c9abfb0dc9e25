//! illumos-dce: the destination cache of illumos before 2012, which never forgets an address.
//!
//! Every connect and every accept looks the other end's address up in a hash table of 256 buckets,
//! under the bucket's lock. An address that is not there is added; none is ever taken away unless
//! memory is low. Case B is a balancer on which chains are 100,000 entries long after two weeks: a
//! lookup takes 3 ms, and the CPU that handles interrupts walks chains for most of its time.

mod cache;
mod cases;
mod closed_form;
mod growth;
mod observer;
mod outcome;
mod params;
mod path;
mod profile;
mod record;
mod sim;

#[cfg(test)]
mod tests;

use crate::model::model;
use params::Params;
use record::Recorder;

model! {
    "illumos-dce",
    "illumos' cache of destinations grows for weeks: the load balancer (B)",
    |p, seed, tables| Recorder::new(p, seed, tables)
}
