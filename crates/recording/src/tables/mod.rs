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

/// All tables, in the order of the documentation.
pub const ALL: &[TableInfo] = &[
    Event::INFO,
    Packet::INFO,
    Call::INFO,
    Socket::INFO,
    Listener::INFO,
    Holder::INFO,
    PortUse::INFO,
    Request::INFO,
    RequestTime::INFO,
    Exchange::INFO,
    Gap::INFO,
    Heartbeat::INFO,
    Process::INFO,
    Cgroup::INFO,
    Thread::INFO,
    ThreadSleep::INFO,
    Epoll::INFO,
    Wait::INFO,
    Signal::INFO,
    Sample::INFO,
    Stack::INFO,
    Frame::INFO,
    Cpu::INFO,
    Interrupt::INFO,
    Resource::INFO,
    TableSize::INFO,
    Counter::INFO,
    Setting::INFO,
    InterfaceAddress::INFO,
    HostName::INFO,
    Health::INFO,
    Finding::INFO,
    Episode::INFO,
    Answer::INFO,
];
