//! Every table of a recording, declared once: row, columns, units, what null means.
//!
//! Raw in, derived out: the tables hold what the kernel said; rates and judgements are computed
//! by readers. Names of states and reasons are the running kernel's own.

mod connection;
mod finding;
mod health;
mod heartbeat;
mod host;
mod namespace;
mod request;
mod socket;
mod task;

pub use connection::{Call, Event, Packet};
pub use finding::{Answer, Episode, Finding};
pub use health::Health;
pub use heartbeat::{Gap, Heartbeat};
pub use host::{Cpu, Interrupt, Resource, TableSize};
pub use namespace::{Counter, HostName, InterfaceAddress, Setting};
pub use request::{Exchange, Request, RequestPart, RequestTime};
pub use socket::{Holder, Listener, PortUse, Socket};
pub use task::{Cgroup, Epoll, Frame, Process, Sample, Signal, Stack, Thread, ThreadSleep, Wait};

use crate::table::{Table, TableInfo};

/// Every table, in the order of the documentation, for who does something with each.
macro_rules! each_table {
    ($with:ident) => {
        $with! {
            Event,
            Packet,
            Call,
            Socket,
            Listener,
            Holder,
            PortUse,
            Request,
            RequestTime,
            Exchange,
            Gap,
            Heartbeat,
            Process,
            Cgroup,
            Thread,
            ThreadSleep,
            Epoll,
            Wait,
            Signal,
            Sample,
            Stack,
            Frame,
            Cpu,
            Interrupt,
            Resource,
            TableSize,
            Counter,
            Setting,
            InterfaceAddress,
            HostName,
            Health,
            Finding,
            Episode,
            Answer,
        }
    };
}
pub(crate) use each_table;

macro_rules! all {
    ($($table:ident,)+) => {
        /// All tables, in the order of the documentation.
        pub const ALL: &[TableInfo] = &[$($table::INFO),+];
    };
}
each_table!(all);
