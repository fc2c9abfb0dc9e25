//! What the models compute, record, and are told to have.

mod check;
mod common;
mod freebsd_tcptw;
mod illumos_dce;
mod linux_syn_queue;
mod recording;
