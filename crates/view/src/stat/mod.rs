//! `tcpwhy stat`: what is, and how fast it changes; one question per view.

mod counters;
mod cpus;
pub(crate) mod detail;
mod listeners;
mod ports;
mod rank;
mod rounds;
mod sockets;
mod tables;
pub(crate) mod threads;
mod usage;

use crate::view::View;

/// What can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Counters of the network stack; also those that did not move.
    Counters {
        /// Also those that did not change.
        all: bool,
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
    Sockets,
    /// Listeners and their queues.
    Listeners {
        /// State changes are recorded, too: connections can be counted.
        events: bool,
    },
    /// Local ports in use per destination.
    Ports,
    /// Lookup structures of the kernel.
    Tables,
    /// The USE checklist.
    Use,
}

impl What {
    /// Whether one sample suffices: what it shows is, and is no change.
    pub fn is_state(&self) -> bool {
        matches!(
            self,
            What::Sockets | What::Listeners { .. } | What::Ports | What::Tables
        )
    }
}

/// The view; from a recording, reports are at least `every_ns` apart.
pub fn view(what: What, every_ns: u64) -> Box<dyn View> {
    match what {
        What::Counters { all } => Box::new(counters::Counters::new(all, every_ns)),
        What::Rank { name, all } => Box::new(rank::Rank::new(name, all, every_ns)),
        What::Cpus => Box::new(cpus::Cpus::new(false, every_ns)),
        What::Interrupts => Box::new(cpus::Cpus::new(true, every_ns)),
        What::Threads { all, sleeps } => Box::new(threads::Threads::new(all, sleeps, every_ns)),
        What::Sockets => Box::new(sockets::Sockets::new(every_ns)),
        What::Listeners { events } => Box::new(listeners::Listeners::new(events, every_ns)),
        What::Ports => Box::new(ports::Ports::new(every_ns)),
        What::Tables => Box::new(tables::Tables::new(every_ns)),
        What::Use => Box::new(usage::Usage::new(every_ns)),
    }
}
