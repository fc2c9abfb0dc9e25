//! The lab on the real kernel: root, and one test at a time.

mod common;
mod engine;
mod link;
mod namespaces;
mod programs;
mod workload;
