//! Part `host`: how much of the host is used: CPUs, interrupts, the USE checklist.

mod cgroups;
mod cpus;
mod descriptors;
mod devices;
mod disks;
mod hierarchy;
mod interfaces;
mod interrupts;
mod lines;
mod memory;
mod owners;
mod pressure;
mod socket_memory;
mod sources;
mod worker;

pub use hierarchy::{Version, mounted as mounted_hierarchies};
pub use sources::checkup;
pub use worker::{UsageOptions, watch_usage};
