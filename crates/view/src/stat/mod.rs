//! `tcpwhy stat`: what is, and how fast it changes; one question per view.

pub(crate) mod checked;
pub(crate) mod counters;
pub(crate) mod cpus;
pub(crate) mod detail;
mod largest;
pub(crate) mod listeners;
pub(crate) mod ports;
pub(crate) mod pressure;
pub(crate) mod rank;
pub(crate) mod requests;
mod rounds;
pub(crate) mod sockets;
pub(crate) mod tables;
pub(crate) mod threads;
mod usage;

use crate::view::View;
use rounds::InRounds;
pub use usage::Lines;

/// What can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Counters of the network stack; also those that did not move.
    Counters {
        /// Also those that did not change.
        all: bool,
        /// Only those that count what fails.
        errors_only: bool,
    },
    /// Counters by how they move with this one.
    Rank {
        /// `TCPSynRetrans` or `TcpExt.TCPSynRetrans`.
        name: String,
        /// Not only the first twenty.
        all: bool,
    },
    /// CPUs.
    Cpus,
    /// Interrupts and softirqs by line and CPU.
    Interrupts,
    /// What threads do with their time.
    Threads {
        /// Not only the first twenty.
        all: bool,
        /// In which system calls they sleep, too.
        sleeps: bool,
    },
    /// Connections.
    Sockets {
        /// Those in TIME_WAIT one by one, too.
        all: bool,
    },
    /// Listeners and their queues.
    Listeners {
        /// State changes are recorded, too: connections can be counted.
        events: bool,
    },
    /// Local ports in use per destination.
    Ports,
    /// Requests and their answers.
    Requests,
    /// Lookup structures of the kernel.
    Tables,
    /// The USE checklist.
    Use(Lines),
}

impl What {
    /// Whether one sample suffices: it shows what is, not what changes.
    pub fn is_state(&self) -> bool {
        matches!(
            self,
            What::Sockets { .. } | What::Listeners { .. } | What::Ports | What::Tables
        )
    }
}

/// The view; from a recording, reports are at least `every_ns` apart.
pub fn view(what: What, every_ns: u64) -> Box<dyn View> {
    match what {
        What::Counters { all, errors_only } => {
            InRounds::boxed(counters::Counters::new(all, errors_only), every_ns)
        }
        What::Rank { name, all } => InRounds::boxed(rank::Rank::new(name, all), every_ns),
        What::Cpus => InRounds::boxed(cpus::Cpus::default(), every_ns),
        What::Interrupts => InRounds::boxed(cpus::Cpus::interrupts(), every_ns),
        What::Threads { all, sleeps } => {
            InRounds::boxed(threads::Threads::new(all, sleeps), every_ns)
        }
        // It decides itself which rounds are shown.
        What::Sockets { all } => InRounds::boxed(sockets::Sockets::new(all, every_ns), 0),
        What::Listeners { events } => InRounds::boxed(listeners::Listeners::new(events), every_ns),
        What::Ports => InRounds::boxed(ports::Ports::default(), every_ns),
        What::Requests => InRounds::boxed(requests::Requests::default(), every_ns),
        What::Tables => InRounds::boxed(tables::Tables::default(), every_ns),
        What::Use(lines) => InRounds::boxed(usage::Usage::new(lines), every_ns),
    }
}
