//! The parts of a recording that can be asked for.

/// A part of a recording, in the order in which they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// SYN, SYN-ACK, RST and FIN on the wire: before the events, none of which is then without its packets.
    Packets,
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
    /// Long waits of threads, and the packet, timer or thread that ended each.
    Waits,
    /// What each thread does with its time.
    Threads,
    /// Requests and their answers, by listener and destination.
    Requests,
    /// Messages at regular intervals that were late.
    Heartbeats,
    /// What each CPU is at, many times a second.
    Profile,
}

/// When a part is recorded unless the user says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// When the recording is made to be explained at once.
    Explaining,
    /// When it is asked for.
    Asked,
}

impl Part {
    /// All parts: name, when it is recorded unless the user says otherwise, what it gives.
    pub const ALL: &[(Part, &str, When, &str)] = &[
        (
            Part::Events,
            "events",
            When::Always,
            "connections opened and closed, retransmissions, resets, drops",
        ),
        (
            Part::Sockets,
            "sockets",
            When::Always,
            "samples of sockets, listeners, counters and settings in every namespace",
        ),
        (
            Part::Host,
            "host",
            When::Always,
            "CPUs, interrupts, and the USE checklist of every resource",
        ),
        (
            Part::Ports,
            "ports",
            When::Always,
            "local ports in use to each destination, and how full the lookup structures are",
        ),
        (
            Part::Calls,
            "calls",
            When::Asked,
            "slow and failing system calls on TCP sockets, and every listen()",
        ),
        (
            Part::Packets,
            "packets",
            When::Asked,
            "SYN, SYN-ACK, RST and FIN with their options, on the wire of every namespace",
        ),
        (
            Part::Waits,
            "waits",
            When::Explaining,
            "long waits of threads, and the packet, timer or thread that ended each",
        ),
        (
            Part::Threads,
            "threads",
            When::Explaining,
            "what each thread does with its time: running, runnable, asleep, locked, on disk",
        ),
        (
            Part::Requests,
            "requests",
            When::Explaining,
            "requests and their answers, by listener and destination: how long they took, and where the time went",
        ),
        (
            Part::Heartbeats,
            "heartbeats",
            When::Explaining,
            "messages that came at regular intervals and then were delayed, and the CPU that received them",
        ),
        (
            Part::Profile,
            "profile",
            When::Explaining,
            "what each CPU runs, many times a second: functions of the kernel and of programs",
        ),
    ];

    /// The parts recorded unless the user says otherwise: those safe at any load.
    pub fn by_default() -> impl Iterator<Item = Part> {
        let parts = Part::ALL.iter();
        parts.filter(|p| p.2 == When::Always).map(|p| p.0)
    }

    /// The parts that every cause rests on: for some seconds of recording they cost little.
    pub fn to_explain() -> impl Iterator<Item = Part> {
        let parts = Part::ALL.iter();
        parts.filter(|p| p.2 != When::Asked).map(|p| p.0)
    }

    /// What is switched off, in this order, when recording costs more than it may: parts that one thread fills
    /// go together.
    pub(crate) const SHED: &[&[Part]] = &[
        &[Part::Profile],
        &[Part::Requests],
        &[Part::Waits, Part::Threads],
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let of = Part::ALL.iter().find(|p| p.0 == self);
        of.map_or("", |p| p.1)
    }

    /// The part of this name.
    pub fn named(name: &str) -> Option<Part> {
        Part::ALL.iter().find(|p| p.1 == name).map(|p| p.0)
    }
}
