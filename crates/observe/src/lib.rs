//! The live producer: watches a Linux host with eBPF and /proc and writes a recording.
//!
//! Needs no kprobe and no fentry, which hardened hosts refuse: BTF tracepoints, iterators and
//! kernel stacks taken inside a tracepoint tell the same. Changes nothing on the host.

mod addresses;
mod budget;
mod calls;
mod census;
mod cgroups;
mod command;
mod counters;
mod doctor;
mod errno;
mod error;
mod events;
mod filter;
mod foreign;
mod health;
mod heartbeats;
mod holders;
mod host;
mod iter;
mod kernel;
mod limits;
mod netlink;
mod netns;
mod nic;
mod open_files;
mod options;
mod pace;
mod packets;
mod part;
mod processes;
mod procfile;
mod profile;
mod requests;
mod rights;
mod ring;
mod ring_source;
mod sampler;
mod session;
mod settings;
mod sockets;
mod sockstat;
mod space;
mod stacks;
mod start;
mod tasks;
mod usage;
mod walks;
mod watcher;
mod wire;
mod worker;

pub use cgroups::resolve as resolve_cgroups;
pub use command::ends_with_us;
pub use doctor::{Checkup, checkup};
pub use error::Error;
pub use host::boot_id;
pub use limits::with_own_limits;
pub use netns::resolve as resolve_netns;
pub use options::Options;
pub use part::Part;
pub use profile::{ProfileOptions, affordable_hz};
pub use recording::{Filter, Prefix};
pub use rights::Lack;
pub use session::Session;
