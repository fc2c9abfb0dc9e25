//! What the sources see of the real kernel: root, and one test at a time.

mod accept_waits;
mod census;
mod common;
mod ends;
mod host_names;
mod namespaces;
mod odd_packets;
mod one_clock;
mod packets_with_events;
mod sleeps;
mod usage;
