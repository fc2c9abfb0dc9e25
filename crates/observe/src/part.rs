//! The parts of a recording that can be asked for, each with the thread that fills it.

use recording::Writer;

use crate::calls::{self, CallOptions};
use crate::census::take_census;
use crate::error::Error;
use crate::events::EventOptions;
use crate::health::HealthLog;
use crate::packets::{self, PacketOptions};
use crate::sampler::{SampleOptions, sample};
use crate::session::Options;
use crate::usage::{UsageOptions, watch_usage};
use crate::watcher::watch;
use crate::worker::{Report, Worker};

/// A part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Connections opened and closed, retransmissions, resets, drops.
    Events,
    /// Samples of sockets, listeners, counters and settings in every namespace.
    Sockets,
    /// How much of the host is used.
    Host,
    /// How full port ranges and lookup structures are.
    Ports,
    /// System calls on TCP sockets that take long or fail.
    Calls,
    /// SYN, SYN-ACK, RST and FIN on the wire.
    Packets,
}

impl Part {
    /// All parts: name, whether it is recorded unless the user says otherwise, what it gives.
    pub const ALL: &[(Part, &str, bool, &str)] = &[
        (
            Part::Events,
            "events",
            true,
            "connections opened and closed, retransmissions, resets, drops",
        ),
        (
            Part::Sockets,
            "sockets",
            true,
            "samples of sockets, listeners, counters and settings in every namespace",
        ),
        (
            Part::Host,
            "host",
            true,
            "CPUs, interrupts, and the USE checklist of every resource",
        ),
        (
            Part::Ports,
            "ports",
            true,
            "local ports in use to each destination, and how full the lookup structures are",
        ),
        (
            Part::Calls,
            "calls",
            false,
            "system calls on TCP sockets that take long or fail, and every listen()",
        ),
        (
            Part::Packets,
            "packets",
            false,
            "SYN, SYN-ACK, RST and FIN with their options, on the wire of every namespace",
        ),
    ];

    /// The parts recorded unless the user says otherwise.
    pub fn by_default() -> impl Iterator<Item = Part> {
        let parts = Part::ALL.iter();
        parts.filter(|(_, _, default, _)| *default).map(|p| p.0)
    }

    /// The part of this name.
    pub fn named(name: &str) -> Option<Part> {
        Part::ALL.iter().find(|p| p.1 == name).map(|p| p.0)
    }

    /// Starts the thread that fills it.
    pub(crate) fn start(
        self,
        options: &Options,
        sock_key: [u64; 2],
        writer: &Writer,
        health: &HealthLog,
    ) -> Result<(Worker, Report), Error> {
        let health = health.clone();
        match self {
            Part::Events => {
                let options = EventOptions {
                    filter: options.filter.clone(),
                    ring_bytes: options.ring_bytes,
                    all_states: options.all_states,
                    sock_key,
                };
                let table = writer.table()?;
                Worker::start("watcher", move |c| watch(&options, table, &health, &c))
            }
            Part::Sockets => {
                let options = SampleOptions {
                    netns: options.filter.netns.clone(),
                    interval: options.interval,
                    sock_key,
                };
                let writer = writer.clone();
                Worker::start("sampler", move |c| sample(&options, &writer, &health, &c))
            }
            Part::Host => {
                let options = UsageOptions {
                    netns: options.filter.netns.clone(),
                    interval: options.interval,
                };
                let writer = writer.clone();
                Worker::start("host", move |c| watch_usage(&options, &writer, &health, &c))
            }
            Part::Ports => {
                let (filter, writer) = (options.filter.clone(), writer.clone());
                Worker::start("ports", move |c| take_census(&filter, &writer, &health, &c))
            }
            Part::Calls => {
                let options = CallOptions {
                    filter: options.filter.clone(),
                    ring_bytes: options.ring_bytes,
                    over: options.call_over,
                    sock_key,
                };
                let table = writer.table()?;
                Worker::start("calls", move |c| calls::watch(&options, table, &health, &c))
            }
            Part::Packets => {
                let options = PacketOptions {
                    filter: options.filter.clone(),
                    ring_bytes: options.ring_bytes,
                    interval: options.interval,
                };
                let table = writer.table()?;
                Worker::start("packets", move |c| {
                    packets::watch(&options, table, &health, &c)
                })
            }
        }
    }
}
