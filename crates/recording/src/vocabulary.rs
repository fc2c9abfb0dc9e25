//! Every word that columns hold and code knows, declared once.

use std::fmt;
use std::sync::LazyLock;

use crate::Text;
use crate::limits;
use crate::word::{VocabularyInfo, Word, vocabulary};

vocabulary! {
    /// What the kernel did to a connection.
    EventKind = "event kind" {
        /// The socket changed state.
        State = "state";
        /// A segment was retransmitted.
        Retransmit = "retransmit";
        /// A SYN-ACK was retransmitted.
        SynAckRetransmit = "synack-retransmit";
        /// A reset was sent.
        ResetSent = "reset-sent";
        /// A reset was received.
        ResetReceived = "reset-received";
        /// A TCP packet was thrown away.
        Drop = "drop";
        /// A route of this host rejected a connect.
        NoRoute = "no-route";
    }
}

vocabulary! {
    /// The state of a socket, by the kernel's name.
    TcpState = "TCP state" {
        /// Open.
        Established = "ESTABLISHED";
        /// connect() was called; the SYN is not answered yet.
        SynSent = "SYN_SENT";
        /// The SYN of the other side is answered; the handshake is not complete.
        SynRecv = "SYN_RECV";
        /// This side closed; its FIN is not acknowledged yet.
        FinWait1 = "FIN_WAIT1";
        /// This side closed, and the other side has acknowledged that.
        FinWait2 = "FIN_WAIT2";
        /// This side closed first, both have closed; late segments are waited for.
        TimeWait = "TIME_WAIT";
        /// No connection.
        Close = "CLOSE";
        /// The other side closed; this one has not.
        CloseWait = "CLOSE_WAIT";
        /// Both have closed, the other side first; this side's FIN is not acknowledged yet.
        LastAck = "LAST_ACK";
        /// Waits for connections.
        Listen = "LISTEN";
        /// Both closed at the same time.
        Closing = "CLOSING";
        /// A request of a listener: as SYN_RECV, without a socket of its own.
        NewSynRecv = "NEW_SYN_RECV";
        /// Has a port, without a connection.
        BoundInactive = "BOUND_INACTIVE";
    }
}

impl TcpState {
    /// The handshake of an accepted connection is under way.
    pub fn is_half_open(&self) -> bool {
        matches!(self, TcpState::SynRecv | TcpState::NewSynRecv)
    }

    /// Some side has closed, and the socket is not gone yet (FIN_WAIT1 to CLOSING, TIME_WAIT apart).
    pub fn is_closing(&self) -> bool {
        use TcpState::{CloseWait, Closing, FinWait1, FinWait2, LastAck};
        matches!(self, FinWait1 | FinWait2 | CloseWait | LastAck | Closing)
    }

    /// The socket that goes from this state to CLOSE had closed first: a TIME_WAIT socket follows.
    pub fn closed_first(&self) -> bool {
        matches!(self, TcpState::FinWait2 | TcpState::Closing)
    }

    /// The other side of the socket that goes from this state to CLOSE had closed.
    pub fn peer_closed(&self) -> bool {
        use TcpState::{CloseWait, Closing, LastAck};
        matches!(self, CloseWait | LastAck | Closing)
    }

    /// The program of a socket in this state has closed it.
    pub fn own_closed(&self) -> bool {
        use TcpState::{Closing, FinWait1, FinWait2, LastAck, TimeWait};
        matches!(self, FinWait1 | FinWait2 | Closing | LastAck | TimeWait)
    }
}

vocabulary! {
    /// What made the kernel retransmit.
    RetransmitKind = "retransmit kind" {
        /// The retransmission timer.
        Rto = "rto";
        /// A tail loss probe.
        Tlp = "tlp";
        /// Duplicate ACKs.
        Fast = "fast";
        /// The reordering timer.
        Rack = "rack";
        /// None of these.
        Other = "other";
    }
}

vocabulary! {
    /// What woke a thread.
    Waker = "waker" {
        /// Another thread.
        Task = "task";
        /// A softirq, mostly for a packet.
        Softirq = "softirq";
        /// An interrupt.
        Irq = "irq";
        /// A timer that ran out, in whatever context.
        Timer = "timer";
        /// Kernel symbols cannot be read, or the wakeup was not seen, as it came in the middle of another.
        NotSeen = "unknown";
    }
}

vocabulary! {
    /// A signal that stops a process, or lets it go on.
    SignalName = "signal" {
        /// Lets it go on.
        Continue = "SIGCONT";
        /// Stops it, whatever it does about that.
        Stop = "SIGSTOP";
        /// Asks it to stop, mostly for Ctrl-Z on its terminal.
        TerminalStop = "SIGTSTP";
        /// Stops it as it reads from its terminal in the background.
        TerminalInput = "SIGTTIN";
        /// Stops it as it writes to its terminal in the background.
        TerminalOutput = "SIGTTOU";
    }
}

vocabulary! {
    /// What a file descriptor is.
    FileKind = "descriptor" {
        /// A socket, of TCP or not.
        Socket = "socket";
        /// One of epoll itself.
        Epoll = "eventpoll";
        /// A counter by which threads wake each other.
        Eventfd = "eventfd";
        /// A timer.
        Timerfd = "timerfd";
        /// Signals.
        Signalfd = "signalfd";
        /// Changes of files.
        Inotify = "inotify";
        /// A process, for its end.
        Pidfd = "pidfd";
        /// A ring of requests to the kernel.
        IoUring = "io_uring";
        /// A pipe or FIFO.
        Pipe = "pipe";
        /// A file or device with a name.
        File = "file";
        /// Something else, or closed since.
        Other = "other";
    }
}

vocabulary! {
    /// A family of system calls, by its best-known name.
    CallKind = "call" {
        /// connect.
        Connect = "connect";
        /// accept, accept4.
        Accept = "accept";
        /// bind.
        Bind = "bind";
        /// listen.
        Listen = "listen";
        /// close.
        Close = "close";
        /// shutdown.
        Shutdown = "shutdown";
        /// sendmsg, sendto, sendmmsg, write, writev, sendfile.
        Sendmsg = "sendmsg";
        /// recvmsg, recvfrom, recvmmsg, read, readv.
        Recvmsg = "recvmsg";
        /// epoll_wait, epoll_pwait, epoll_pwait2.
        EpollWait = "epoll_wait";
        /// poll, ppoll.
        Poll = "poll";
        /// select, pselect6.
        Select = "select";
    }
}

vocabulary! {
    /// Which end of its exchanges an end of a connection is.
    Role = "role" {
        /// It answers: a listener has its port.
        Server = "server";
        /// It asks.
        Client = "client";
    }
}

vocabulary! {
    /// What of an exchange took so long.
    Timed = "time of an exchange" {
        /// The whole of it.
        Response = "response";
        /// The application's work on the answer.
        Think = "think";
    }
}

vocabulary! {
    /// What carries a flow of messages.
    Transport = "transport" {
        /// A connection.
        Tcp = "tcp";
        /// Datagrams.
        Udp = "udp";
    }
}

vocabulary! {
    /// What a recorder says of a source.
    HealthKind = "health" {
        /// Records were lost.
        Lost = "lost";
        /// Records found no place.
        Dropped = "dropped";
        /// Something could not be read.
        Partial = "partial";
        /// It was sampled less often.
        Slowed = "slowed";
        /// It began later than it should have.
        Late = "late";
        /// It was switched off before the end: it cost too much.
        Shed = "shed";
    }
}

vocabulary! {
    /// Something that fills tables.
    SourceName = "source" {
        /// Changes of state.
        States = "state";
        /// Retransmitted segments.
        Retransmits = "retransmit";
        /// Retransmitted SYN-ACKs.
        SynAckRetransmits = "synack-retransmit";
        /// Resets sent.
        ResetsSent = "reset-sent";
        /// Resets sent for packets of no socket: refused connects.
        ResetsUnmatched = "reset-unmatched";
        /// Resets received.
        ResetsReceived = "reset-received";
        /// Packets dropped.
        Drops = "drop";
        /// Connects that a route of this host rejected.
        NoRoutes = "no-routes";
        /// The same of IPv6.
        NoRoutes6 = "no-routes6";
        /// Kernel symbols: SYN cookies told from ordinary handshakes, what made a segment be retransmitted.
        Symbols = "symbols";
        /// Network namespaces other than the recorder's own.
        Namespaces = "namespaces";
        /// Samples of connections and listeners.
        Sockets = "sockets";
        /// How long connections waited for accept() between two samples.
        AcceptWaits = "accept-waits";
        /// Which processes hold which sockets.
        Holders = "holders";
        /// SNMP and TcpExt counters.
        Counters = "counters";
        /// The sysctls that matter to TCP, and the addresses of interfaces.
        Settings = "settings";
        /// Processes that listen, and what cgroups are called.
        Processes = "processes";
        /// Control packets on the wire.
        Packets = "packets";
        /// System calls that failed or took long.
        Calls = "calls";
        /// How long connect() looks for a free local port.
        PortSearch = "port-search";
        /// Long waits of threads.
        Waits = "waits";
        /// Who woke a thread.
        WaitWaker = "wait-waker";
        /// Where in the kernel a thread slept.
        WaitSlept = "wait-slept";
        /// The connection whose packet woke a thread.
        WaitPacket = "wait-packet";
        /// Whether that packet had been retransmitted.
        WaitRetransmit = "wait-retransmit";
        /// Who stopped a process, and let it go on.
        Signals = "signals";
        /// What threads do with their time.
        Threads = "threads";
        /// The descriptors behind those of epoll that threads sleep on.
        Epolls = "epolls";
        /// Requests and their answers.
        Requests = "requests";
        /// Messages at regular intervals that were late.
        Heartbeats = "heartbeats";
        /// The CPU profile.
        Profile = "profile";
        /// Names of its functions.
        ProfileSymbols = "profile-symbols";
        /// Stacks of all the sources that take any.
        Stacks = "stacks";
        /// Local ports in use.
        Ports = "ports";
        /// How full TCP's hash tables are.
        Tables = "tables";
        /// The kernel's largest and fastest growing caches.
        Slabs = "slabs";
        /// Time of each CPU; softnet.
        Cpus = "cpus";
        /// Interrupts by line and CPU.
        Interrupts = "interrupts";
        /// Use, saturation and errors of the host's resources.
        Resources = "resources";
        /// Pressure stall information.
        Pressure = "pressure";
        /// Open files of the processes that hold TCP sockets.
        Owners = "owners";
        /// CPU time, throttling and memory of their cgroups.
        Cgroups = "cgroups";
        /// Timer ticks per second.
        Hz = "hz";
        /// The host as a whole.
        Host = "host";
        /// The recorder itself.
        Recorder = "recorder";
        /// The connection-tracking table.
        Conntrack = "conntrack";
        /// The neighbour table of IPv4.
        Neighbours = "neighbours";
        /// The neighbour table of IPv6.
        Neighbours6 = "neighbours6";
        /// The cache of metrics by destination.
        TcpMetrics = "tcp-metrics";
        /// Exceptions of IPv4 routes.
        RouteExceptions = "route-exceptions";
        /// Exceptions of IPv6 routes.
        RouteExceptions6 = "route-exceptions6";
        /// Rules of nftables.
        NftRules = "nft-rules";
        /// Rules of IPv4 routing.
        IpRules = "ip-rules";
        /// Rules of IPv6 routing.
        IpRules6 = "ip-rules6";
    }
}

impl EventKind {
    /// The source whose records these events are, most of them; `None` of a later version's.
    pub fn source(&self) -> Option<SourceName> {
        Some(match self {
            EventKind::State => SourceName::States,
            EventKind::Retransmit => SourceName::Retransmits,
            EventKind::SynAckRetransmit => SourceName::SynAckRetransmits,
            EventKind::ResetSent => SourceName::ResetsSent,
            EventKind::ResetReceived => SourceName::ResetsReceived,
            EventKind::Drop => SourceName::Drops,
            EventKind::NoRoute => SourceName::NoRoutes,
            EventKind::Unknown(_) => return None,
        })
    }
}

impl SourceName {
    /// The part of a recording that it belongs to, as `--with` takes it; `None` for what every
    /// recording has, and for sources of a later version.
    pub fn part(&self) -> Option<&'static str> {
        use SourceName as S;
        Some(match self {
            S::States | S::Retransmits | S::SynAckRetransmits | S::ResetsSent => "events",
            S::ResetsUnmatched | S::ResetsReceived | S::Drops | S::Symbols => "events",
            S::NoRoutes | S::NoRoutes6 => "events",
            S::Sockets | S::AcceptWaits | S::Holders | S::Counters => "sockets",
            S::Settings | S::Processes => "sockets",
            S::Packets => "packets",
            S::Calls | S::PortSearch => "calls",
            S::Waits | S::WaitWaker | S::WaitSlept => "waits",
            S::WaitPacket | S::WaitRetransmit | S::Signals => "waits",
            S::Threads | S::Epolls => "threads",
            S::Requests => "requests",
            S::Heartbeats => "heartbeats",
            S::Profile | S::ProfileSymbols => "profile",
            S::Ports | S::Tables | S::Slabs | S::Conntrack | S::TcpMetrics => "ports",
            S::Neighbours | S::Neighbours6 | S::RouteExceptions | S::RouteExceptions6 => "ports",
            S::NftRules | S::IpRules | S::IpRules6 => "ports",
            S::Cpus | S::Interrupts | S::Resources | S::Pressure | S::Owners | S::Cgroups => "host",
            S::Namespaces | S::Stacks | S::Hz | S::Host | S::Recorder | S::Unknown(_) => {
                return None;
            }
        })
    }
}

/// All vocabularies, in the order of the documentation.
pub const ALL: &[VocabularyInfo] = &[
    EventKind::INFO,
    TcpState::INFO,
    RetransmitKind::INFO,
    CallKind::INFO,
    Waker::INFO,
    SignalName::INFO,
    FileKind::INFO,
    Role::INFO,
    Timed::INFO,
    Transport::INFO,
    HealthKind::INFO,
    SourceName::INFO,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_later_version_survives_a_round_trip() {
        let later = TcpState::from(Text::from("HALF_SHUT"));
        assert_eq!(later, TcpState::Unknown("HALF_SHUT".into()));
        assert_eq!(later.text(), "HALF_SHUT");
        let json = serde_json::to_string(&later).unwrap();
        assert_eq!(serde_json::from_str::<TcpState>(&json).unwrap(), later);
    }

    #[test]
    fn every_word_comes_back_as_itself() {
        for state in TcpState::ALL {
            assert_eq!(&TcpState::from(state.text().clone()), state);
            assert_eq!(state.text(), state.as_str());
        }
        for info in ALL {
            let mut words: Vec<_> = info.words.iter().map(|(word, _)| word).collect();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), info.words.len(), "{}", info.name);
        }
    }
}
