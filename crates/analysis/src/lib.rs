//! Second waist of tcpwhy: what a recording tells, derived once, for whoever explains or shows it.
//!
//! Nothing here judges, and nothing knows which producer made the recording. Everything is bounded: a
//! recording of any size takes a bounded amount of memory, and what was folded away is counted.

#![doc = include_str!("../README.md")]
#![warn(clippy::missing_errors_doc)]

mod accept_queue;
pub mod account;
mod activity;
pub mod attempts;
pub mod binds;
mod bounded;
mod conn;
mod connections;
mod counters;
mod cpus;
pub mod denied;
mod devices;
pub mod epolls;
pub mod flags;
mod flow;
mod fold;
mod health;
pub mod heartbeats;
mod interrupts;
mod link;
mod listeners;
mod microstates;
pub mod owners;
mod packets;
mod pairs;
mod place;
pub mod ports;
mod processes;
pub mod profile;
mod refusals;
mod resets;
pub mod resources;
pub mod searches;
mod series;
mod settings;
mod shut;
mod sleeps;
pub mod stacks;
mod stalls;
pub mod standing;
pub mod stats;
mod story;
pub mod structures;
mod sums;
mod tally;
mod threads;
pub mod timeline;
mod timers;
mod transfers;
mod troubles;
mod waits;
pub mod words;

pub use accept_queue::AcceptQueue;
pub use activity::Activity;
pub use binds::Binds;
pub use conn::{Agreed, Conn, ConnId, Outcome, Sampled, Side};
pub use counters::{Counters, Rise};
pub use cpus::{Cpu, CpuTimes, Cpus};
pub use denied::Denied;
pub use devices::Devices;
pub use epolls::Epolls;
pub use flow::Flow;
pub use health::{Health, HealthNote, NoteKind};
pub use heartbeats::Heartbeats;
pub use interrupts::Interrupts;
pub use listeners::{ListenSock, Listener, Listeners};
pub use microstates::{Microstate, Microstates};
pub use packets::{Group, KEPT_REMOTES, Packets, What};
pub use place::{Endpoint, Netns};
pub use ports::Ports;
pub use processes::{Doing, ProcessState, Processes};
pub use profile::Profile;
pub use refusals::{Refusals, Refused, Retry, Seen, TIME_WAIT_NS};
pub use resets::{Rejected, Resets, Sent, Why};
pub use searches::Searches;
pub use series::Series;
pub use settings::Settings;
pub use shut::Shut;
pub use sleeps::Sleeps;
pub use stalls::{Passed, STALL, Stall, Stuck, Way};
pub use story::Story;
pub use structures::Structures;
pub use sums::Sums;
pub use tally::{Places, Tally};
pub use threads::{Thread, Threads};
pub use timers::timer;
pub use transfers::{Dropped, Resends, SLOTS, Transfer, Transfers, is_firewall};
pub use troubles::{Trouble, Troubles};
pub use waits::{Arrival, Waited, Waits};
