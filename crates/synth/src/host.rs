//! What is sampled of a host besides its connections: listeners, settings, tables.

use std::fmt::Display;

use recording::tables::{Listener, Setting, TableSize};
use recording::{Addr, FORMAT, Manifest, Namespace};

/// The initial namespace of every kernel.
pub const HOST: u32 = 4_026_531_840;
/// Shorter calls that succeed, and shorter waits, have no row unless the recorder is told to.
pub const LEAST_NS: u64 = 10_000_000;
/// Destinations with fewer ports in use have no row.
pub const LEAST_PORTS: u32 = 16;
/// The profiler's samples are so far apart: 997 per second.
pub const PERIOD_NS: u64 = 1_003_009;
/// TCP header flags of a SYN.
pub const SYN: u8 = 2;
/// Of an ACK.
pub const ACK: u8 = 16;
/// Of a reset that answers a SYN.
pub const RST_ACK: u8 = 20;
/// Of data.
pub const PSH_ACK: u8 = 24;

/// The manifest of a recording that begins, of a host with these namespaces.
pub fn manifest(producer: &str, start_ns: u64, namespaces: &[(u32, &str)]) -> Manifest {
    let namespace = |&(inode, name): &(u32, &str)| Namespace {
        inode,
        name: name.into(),
    };
    Manifest {
        format: FORMAT,
        producer: producer.into(),
        start_ns,
        end_ns: start_ns,
        namespaces: namespaces.iter().map(namespace).collect(),
        ..Manifest::default()
    }
}

/// A listening socket.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// Its namespace.
    pub netns: u32,
    /// The socket.
    pub sock: u64,
    /// Its inode, by which a task holds it.
    pub inode: u64,
    /// 4 or 6.
    pub family: u8,
    /// Where it listens.
    pub at: (Addr, u16),
    /// Limit of its queues.
    pub backlog: u32,
}

impl Listening {
    /// A sample of it: its queues are empty.
    pub fn sample(&self, time_ns: u64) -> Listener {
        Listener {
            time_ns,
            netns: self.netns,
            sock: self.sock,
            inode: Some(self.inode),
            family: self.family,
            local_addr: self.at.0,
            local_port: self.at.1,
            backlog: self.backlog,
            ..Listener::default()
        }
    }
}

/// Settings of a namespace.
pub fn settings<'a, V: Display>(
    time_ns: u64,
    netns: u32,
    all: impl IntoIterator<Item = (&'a str, V)>,
) -> impl Iterator<Item = Setting> {
    all.into_iter().map(move |(name, value)| Setting {
        time_ns,
        netns,
        name: name.into(),
        value: value.to_string().into(),
    })
}

/// How many entries a structure of a namespace has.
pub fn table_size(time_ns: u64, netns: u32, structure: &str, entries: u64) -> TableSize {
    TableSize {
        time_ns,
        netns,
        structure: structure.into(),
        entries,
        ..TableSize::default()
    }
}
