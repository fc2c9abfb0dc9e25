//! What to do about a finding, in words and as a program can apply it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::shell::ShellCommand;
use crate::undo::Undo;

/// Something to do about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// What to do.
    #[serde(rename = "do")]
    pub action: String,
    /// A command that does it, or shows where to.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub command: Option<ShellCommand>,
    /// Where it applies.
    pub r#where: String,
    /// What it may cost.
    pub risk: String,
    /// What takes it back, where the command changes something; a command where one does it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub undo: Option<Undo>,
    /// What it will change, from this recording's numbers.
    pub expected: String,
    /// The same for programs; null when no change on this host does it.
    pub change: Option<Change>,
}

impl Advice {
    /// To do so.
    pub fn to(action: impl Into<String>) -> Advice {
        Advice {
            action: action.into(),
            command: None,
            r#where: String::new(),
            risk: String::new(),
            undo: None,
            expected: String::new(),
            change: None,
        }
    }
    /// By this command; `None` where it cannot be pasted into a shell.
    pub fn by(mut self, command: Option<ShellCommand>) -> Advice {
        self.command = command;
        self
    }
    /// There.
    pub fn at(mut self, place: impl Into<String>) -> Advice {
        self.r#where = place.into();
        self
    }
    /// At this cost.
    pub fn risk(mut self, risk: impl Into<String>) -> Advice {
        self.risk = risk.into();
        self
    }
    /// What takes it back.
    pub fn undo(mut self, how: Option<impl Into<Undo>>) -> Advice {
        self.undo = how.map(Into::into);
        self
    }
    /// With this effect.
    pub fn effect(mut self, effect: impl Into<String>) -> Advice {
        self.expected = effect.into();
        self
    }
    /// Whether its command only shows where to do it: what a command changes can be taken back, and this
    /// says how.
    pub fn only_looks(&self) -> bool {
        self.undo.is_none()
    }
    /// As a program can apply it.
    pub fn change(mut self, change: Change) -> Advice {
        self.change = Some(change);
        self
    }
}

/// An advice as a program can apply it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Change {
    /// Set a sysctl.
    Sysctl {
        /// Inode of the namespace it is set in.
        netns: u32,
        /// Name, as sysctl prints it.
        name: Cow<'static, str>,
        /// Value.
        value: String,
    },
    /// Call listen() with a larger backlog.
    Backlog {
        /// Address and port.
        listener: String,
        /// The backlog.
        value: u32,
    },
    /// Let the application call accept() sooner.
    AcceptFaster {
        /// Address and port.
        listener: String,
    },
    /// Give a process, or the whole host, more CPUs.
    MoreCpus {
        /// The process; null: the host.
        pid: Option<u32>,
    },
    /// Let a process have more descriptors open.
    OpenFiles {
        /// The process.
        pid: u32,
        /// Descriptors.
        value: u64,
    },
    /// Start what should listen there.
    StartListener {
        /// Address and port.
        at: String,
    },
    /// Give a hash table so many buckets; one of a namespace of its own is made anew with it.
    HashBuckets {
        /// Inode of the namespace whose table it is; 0 for the host's.
        netns: u32,
        /// The table, as in `table_size`.
        table: Cow<'static, str>,
        /// Buckets.
        value: u64,
    },
    /// Replace rules that are compared one after the other by one look-up in a set.
    RulesToSet {
        /// Inode of the namespace.
        netns: u32,
        /// The rules, as in `table_size`.
        table: Cow<'static, str>,
    },
    /// Let connect() choose the local port, not bind().
    ConnectChoosesPort {
        /// The process that connects.
        pid: u32,
    },
    /// Leave SO_REUSEADDR off where bind() only asks whether a port is free.
    BindWithoutReuse {
        /// The process that calls bind().
        pid: u32,
    },
    /// Spread connections over so many addresses.
    MoreAddresses {
        /// Address and port that they go to now.
        to: String,
        /// Addresses.
        value: u32,
    },
    /// Let the firewall of a namespace pass SYNs.
    AllowSyns {
        /// Inode of the namespace.
        netns: u32,
        /// Address and port they go to.
        at: String,
    },
    /// Make the path let SYNs pass.
    PassSyns {
        /// Address and port they go to.
        at: String,
    },
    /// Let the client close its connections first.
    ClientClosesFirst {
        /// Address and port it connects to.
        at: String,
    },
    /// Let the clients close connections that are idle for so long, before the other side does.
    CloseIdle {
        /// Address and port they connect to.
        to: String,
        /// The other side's idle timeout, s.
        seconds: u64,
    },
    /// Let the server keep connections that are idle for so long and longer.
    KeepIdle {
        /// Address and port where it listens.
        listener: String,
        /// Its present idle timeout, rounded up, s.
        seconds: u64,
    },
    /// Let the clients keep connections open, and send many requests over each.
    KeepConnections {
        /// Address and port they connect to.
        to: String,
    },
    /// Exempt connections from connection tracking.
    Untrack {
        /// Inode of the namespace.
        netns: u32,
        /// Address and port they go to.
        at: String,
    },
    /// Let processes run only when nobody else wants the CPU.
    RunWhenIdle {
        /// The processes.
        pids: Vec<u32>,
    },
    /// Grant a cgroup more CPU time.
    CpuQuota {
        /// Its path.
        cgroup: String,
        /// CPU time per time.
        cpus: f64,
    },
    /// Make the box on the path leave TCP options alone.
    KeepOptions {
        /// Address and port.
        listener: String,
    },
    /// Let a device's queueing discipline hold more.
    QueueLimit {
        /// Inode of the device's namespace.
        netns: u32,
        /// The device; null when the recording does not tell which of several it is.
        device: Option<String>,
        /// Bytes that may wait.
        bytes: u64,
    },
    /// Find and repair what loses, reorders or delays packets between two addresses.
    RepairPath {
        /// Address of the sender.
        from: String,
        /// Address of the receiver.
        to: String,
    },
    /// Let the hosts of a path agree on segments that pass: lower the MSS option in their SYNs.
    ClampMss {
        /// Inode of the senders' namespace.
        netns: u32,
        /// Address of the other side.
        to: String,
        /// The largest segment, bytes.
        mss: u32,
    },
    /// Send with another congestion control.
    Congestion {
        /// Inode of the senders' namespace.
        netns: u32,
        /// Its name.
        value: Cow<'static, str>,
    },
    /// Set TCP_NODELAY, or write each message at once.
    NoDelay {
        /// Inode of the namespace of those who write.
        netns: u32,
        /// Address and port they write to; of a server's answers, where it listens.
        to: String,
    },
    /// Take TCP_CORK off, or write without MSG_MORE, where a message ends.
    Uncork {
        /// Inode of the namespace of those who write.
        netns: u32,
        /// Address and port they write to; of a server's answers, where it listens.
        to: String,
    },
    /// Let the application close without SO_LINGER 0.
    CloseGently {
        /// Address and port where it listens.
        listener: String,
    },
    /// Keep the listening socket open when its process ends, or accept what waits first.
    HandListenerOn {
        /// Address and port where it listens.
        listener: String,
    },
    /// Make whoever drops the packets of connections, or answers them with resets, let them pass.
    PassPackets {
        /// Inode of the namespace of the firewall; null when it is not on this host.
        netns: Option<u32>,
        /// Address and port they go to.
        at: String,
    },
    /// Let the application read what clients send to its end before it closes.
    ReadToEnd {
        /// Address and port where it receives.
        listener: String,
    },
    /// Let connections have a larger receive buffer at the other end.
    ReceiveBuffer {
        /// Address of the receiver.
        to: String,
        /// At least so many bytes.
        bytes: u64,
    },
    /// Give an interface longer rings or more queues, or replace what damages its frames.
    InterfaceQueues {
        /// Inode of its namespace.
        netns: u32,
        /// Its name.
        device: String,
    },
    /// Let connections have a larger send buffer.
    SendBuffer {
        /// The process that sends.
        pid: Option<u32>,
        /// At least so many bytes.
        bytes: u64,
    },
    /// Let the application answer sooner.
    AnswerFaster {
        /// Address and port that the requests go to.
        at: String,
    },
    /// Let the application read sooner.
    ReadFaster {
        /// Address and port where it receives.
        listener: String,
    },
}
