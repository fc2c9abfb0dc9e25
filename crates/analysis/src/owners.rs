//! Whose a socket is: the process that made it, never the one that happens to be on the CPU.
//!
//! Feed it the rows of `event`, `socket`, `listener`, `holder` and `process` in order of time; ask it about
//! a row after feeding it that row.

use std::collections::VecDeque;

use ahash::AHashMap;
use recording::tables::{Event, Listener, Socket};
use recording::{Addr, EventKind, Filter, Row, TcpState, Text};
use serde::Serialize;

/// Sockets and files followed at a time; a host in trouble has a few hundred thousand.
const MAX_SOCKETS: usize = 1 << 20;
/// Closed sockets remembered: a reset may be reported after the end of the socket that it ended.
const KEPT_CLOSED: usize = 1 << 16;
/// Listening places followed.
const MAX_LISTENERS: usize = 1 << 16;
/// Processes kept of those that share a listener.
const MAX_SHARING: usize = 256;

/// Tables that it wants to see.
pub const TABLES: &[&str] = &["event", "socket", "listener", "holder", "process"];

/// Namespace, address and port that something listens at.
pub type Place = (u32, Addr, u16);

/// The process that owns a socket, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Process.
    pub pid: Option<u32>,
    /// Its command name.
    pub comm: Option<Text>,
    /// Its cgroup v2 id.
    pub cgroup: Option<u64>,
}

impl Owner {
    /// Whether the filter asks for it.
    pub fn passes(&self, filter: &Filter) -> bool {
        filter.task_ok(self.pid, self.comm.as_deref(), self.cgroup)
    }
}

/// Owners of sockets, learnt row by row.
#[derive(Debug, Default)]
pub struct Owners {
    /// Connections seen to begin, with whether they have ended; and those only sampled.
    socks: AHashMap<u64, Sock>,
    closed: VecDeque<u64>,
    /// The process that holds a file, by its inode.
    holders: AHashMap<u64, (u32, Text)>,
    listeners: AHashMap<Place, Sock>,
    /// All holders of a file that several processes hold, as workers hold a listener's; the first is their parent.
    shared: AHashMap<u64, Vec<(u32, Text)>>,
    /// The parents of processes that hold sockets.
    parents: AHashMap<u32, u32>,
}

#[derive(Clone, Debug, Default)]
struct Sock {
    /// Fixed when the socket was made, if that was seen.
    made_by: Option<Owner>,
    inode: Option<u64>,
    cgroup: Option<u64>,
    /// The peer's port: the kernel reuses the memory, and with it the id, for other sockets.
    remote_port: u16,
    ended: bool,
}

impl Owners {
    /// Learns from a row; ignores those of other tables.
    pub fn learn(&mut self, row: &Row) {
        match row {
            Row::Event(e) if e.kind == EventKind::State => self.state(e),
            Row::Socket(s) if s.inode.is_some() || s.cgroup.is_some() => {
                let known = self.socks.get_mut(&s.sock);
                let known = known.filter(|k| !k.ended && k.remote_port == s.remote_port);
                match known {
                    Some(known) => known.inode = known.inode.or(s.inode),
                    None => self.remember(
                        s.sock,
                        Sock {
                            inode: s.inode,
                            cgroup: s.cgroup,
                            remote_port: s.remote_port,
                            ..Sock::default()
                        },
                    ),
                }
            }
            Row::Listener(l) => {
                let place = (l.netns, l.local_addr, l.local_port);
                if let Some(known) = self.listeners.get_mut(&place) {
                    known.inode = l.inode;
                    known.cgroup = l.cgroup.or(known.cgroup);
                } else if self.listeners.len() < MAX_LISTENERS {
                    let sock = Sock {
                        inode: l.inode,
                        cgroup: l.cgroup,
                        ..Sock::default()
                    };
                    self.listeners.insert(place, sock);
                }
            }
            Row::Holder(h) if self.holders.len() < MAX_SOCKETS => {
                // The first one counts: the parent of a server's workers has the lowest pid.
                let holder = (h.pid, h.comm.clone());
                let first = self
                    .holders
                    .entry(h.inode)
                    .or_insert_with(|| holder.clone());
                if first.0 != h.pid
                    && (self.shared.len() < MAX_LISTENERS || self.shared.contains_key(&h.inode))
                {
                    let first = first.clone();
                    let all = self.shared.entry(h.inode).or_insert_with(|| vec![first]);
                    if all.len() < MAX_SHARING && all.iter().all(|(pid, _)| *pid != h.pid) {
                        all.push(holder);
                    }
                }
            }
            Row::Process(p) if self.parents.len() < MAX_LISTENERS => {
                self.parents.insert(p.pid, p.ppid);
            }
            _ => {}
        }
    }

    fn state(&mut self, e: &Event) {
        let (old, new) = (e.old_state.as_ref(), e.state.as_ref());
        let made_by = Owner {
            pid: e.pid,
            comm: e.comm.clone(),
            cgroup: e.cgroup,
        };
        match (old, new) {
            (Some(TcpState::Close), Some(TcpState::Listen)) => {
                let place = (e.netns, e.local_addr, e.local_port);
                if self.listeners.len() < MAX_LISTENERS || self.listeners.contains_key(&place) {
                    let made_by = Some(made_by);
                    let sock = Sock {
                        made_by,
                        ..Sock::default()
                    };
                    self.listeners.insert(place, sock);
                }
            }
            (Some(TcpState::Close), Some(_)) => {
                if let Some(sock) = e.sock {
                    let made_by = Some(made_by);
                    self.remember(
                        sock,
                        Sock {
                            made_by,
                            remote_port: e.remote_port,
                            ..Sock::default()
                        },
                    );
                }
            }
            (Some(TcpState::SynRecv), Some(TcpState::Established)) => {
                if let Some(sock) = e.sock {
                    // Also when nothing is known: the id may have been another socket's.
                    let made_by = self.listening(e);
                    self.remember(
                        sock,
                        Sock {
                            made_by,
                            remote_port: e.remote_port,
                            ..Sock::default()
                        },
                    );
                }
            }
            (_, Some(TcpState::Close)) => self.ended(e.sock),
            _ => {}
        }
    }

    fn remember(&mut self, id: u64, sock: Sock) {
        if self.socks.len() < MAX_SOCKETS || self.socks.contains_key(&id) {
            self.socks.insert(id, sock);
        }
    }

    fn ended(&mut self, sock: Option<u64>) {
        let Some(id) = sock else { return };
        let Some(known) = self.socks.get_mut(&id) else {
            return;
        };
        known.ended = true;
        self.closed.push_back(id);
        if self.closed.len() > KEPT_CLOSED
            && let Some(oldest) = self.closed.pop_front()
            && self.socks.get(&oldest).is_some_and(|s| s.ended)
        {
            self.socks.remove(&oldest);
        }
    }

    /// The owner of the socket that a row is about.
    pub fn of_event(&self, e: &Event) -> Owner {
        if e.pid.is_some() {
            return Owner {
                pid: e.pid,
                comm: e.comm.clone(),
                cgroup: e.cgroup,
            };
        }
        let known = e.sock.and_then(|id| self.socks.get(&id));
        if let Some(owner) = known.and_then(|s| self.owner(s)) {
            return owner;
        }
        // A request, a listener, or an accepted connection older than the recording: the listener's owner. Not so a
        // socket that connects, nor one in TIME_WAIT, which has no owner.
        match e.state {
            None | Some(TcpState::SynSent | TcpState::TimeWait) => Owner::default(),
            Some(_) => self.listening(e).unwrap_or_default(),
        }
    }

    /// The owner of a sampled socket.
    pub fn of_socket(&self, s: &Socket) -> Owner {
        let seen = Sock {
            inode: s.inode,
            cgroup: s.cgroup,
            remote_port: s.remote_port,
            ..Sock::default()
        };
        self.of_seen(s.sock, seen)
    }

    fn of_seen(&self, sock: u64, seen: Sock) -> Owner {
        let held = seen.inode.and_then(|i| self.holders.get(&i));
        // The current holder says more than the maker: servers hand connections to workers.
        let known = self.socks.get(&sock).filter(|_| held.is_none());
        let known = known.filter(|k| k.remote_port == seen.remote_port);
        known
            .and_then(|s| self.owner(s))
            .or_else(|| self.owner(&seen))
            .unwrap_or_default()
    }

    /// The owner of what listens at a place, or on every address at its port.
    pub fn of_listener(&self, netns: u32, addr: Addr, port: u16) -> Option<Owner> {
        let found = places(netns, addr, port).into_iter();
        let found = found.filter_map(|place| self.listeners.get(&place));
        // The process that accepts there now says more than the one that called listen(): servers leave that to
        // workers.
        let accepts = |s: &Sock| {
            let accepting = s.inode.map(|inode| self.accepting(inode))?;
            let (pid, comm) = accepting.first()?;
            Some(Owner {
                pid: Some(*pid),
                comm: Some(comm.clone()),
                cgroup: s.cgroup,
            })
        };
        found
            .filter_map(|s| accepts(s).or_else(|| self.owner(s)))
            .next()
    }

    /// Owner of a listener that was sampled: the process that accepts there (the first of several), or holds it, or
    /// else called listen() there.
    pub fn of_listening(&self, l: &Listener) -> Owner {
        if let Some(first) = self.accept_at(l).into_iter().next() {
            return first;
        }
        let seen = Sock {
            inode: l.inode,
            cgroup: l.cgroup,
            ..Sock::default()
        };
        let held = self.of_seen(l.sock, seen);
        match held.pid {
            Some(_) => held,
            None => (self.of_listener(l.netns, l.local_addr, l.local_port)).unwrap_or(held),
        }
    }

    /// The processes that accept at a listener: of several holders the workers, as their parent only started it.
    /// Empty when no holder is known.
    pub fn accept_at(&self, l: &Listener) -> Vec<Owner> {
        let Some(inode) = l.inode else {
            return Vec::new();
        };
        self.accepting(inode)
            .into_iter()
            .map(|(pid, comm)| Owner {
                pid: Some(*pid),
                comm: Some(comm.clone()),
                cgroup: l.cgroup,
            })
            .collect()
    }

    fn accepting(&self, inode: u64) -> Vec<&(u32, Text)> {
        let Some(all) = self.shared.get(&inode) else {
            return self.holders.get(&inode).into_iter().collect();
        };
        let parent = |pid: u32| self.parents.get(&pid).copied();
        let began = |pid: u32| all.iter().any(|(other, _)| parent(*other) == Some(pid));
        let workers = all.iter().filter(|(pid, _)| !began(*pid));
        workers.collect()
    }

    /// Where something listens for connections to a local address: there, or on every address.
    pub fn listening_place(&self, netns: u32, addr: Addr, port: u16) -> Option<Place> {
        let mut places = places(netns, addr, port).into_iter();
        places.find(|place| self.listeners.contains_key(place))
    }

    fn listening(&self, e: &Event) -> Option<Owner> {
        self.of_listener(e.netns, e.local_addr, e.local_port)
    }

    fn owner(&self, sock: &Sock) -> Option<Owner> {
        if let Some(owner) = &sock.made_by {
            return Some(owner.clone());
        }
        let held = sock.inode.and_then(|i| self.holders.get(&i));
        if held.is_none() && sock.cgroup.is_none() {
            return None;
        }
        Some(Owner {
            pid: held.map(|h| h.0),
            comm: held.map(|h| h.1.clone()),
            cgroup: sock.cgroup,
        })
    }
}

fn places(netns: u32, addr: Addr, port: u16) -> [Place; 3] {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let any = [
        addr,
        IpAddr::from(Ipv4Addr::UNSPECIFIED).into(),
        IpAddr::from(Ipv6Addr::UNSPECIFIED).into(),
    ];
    any.map(|addr| (netns, addr, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::tables::Holder;

    fn state(sock: u64, old: TcpState, new: TcpState, port: u16) -> Event {
        Event {
            kind: EventKind::State,
            sock: Some(sock),
            old_state: Some(old),
            state: Some(new),
            local_port: port,
            ..Event::default()
        }
    }

    fn pid(owners: &Owners, e: &Event) -> Option<u32> {
        owners.of_event(e).pid
    }

    #[test]
    fn fixed_when_the_socket_was_made() {
        let mut owners = Owners::default();
        let connect = Event {
            pid: Some(7),
            comm: Some("curl".into()),
            ..state(1, TcpState::Close, TcpState::SynSent, 0)
        };
        owners.learn(&connect.into());
        let close = state(1, TcpState::SynSent, TcpState::Close, 0);
        owners.learn(&close.clone().into());
        assert_eq!(pid(&owners, &close), Some(7), "also after its end");
    }

    #[test]
    fn of_several_that_hold_a_listener_the_workers_accept() {
        use recording::tables::Process;
        let mut owners = Owners::default();
        let listener = Listener {
            inode: Some(4),
            local_port: 80,
            ..Listener::default()
        };
        for pid in [9, 11, 10] {
            let comm = "nginx".into();
            let holder = Holder {
                inode: 4,
                pid,
                comm,
                ..Holder::default()
            };
            owners.learn(&holder.into());
        }
        owners.learn(&listener.clone().into());
        let pids = |owners: &Owners| -> Vec<_> {
            let all = owners.accept_at(&listener).into_iter();
            all.filter_map(|o| o.pid).collect()
        };
        assert_eq!(pids(&owners), [9, 11, 10], "nobody is known to be a parent");
        for pid in [10, 11] {
            let process = Process {
                pid,
                ppid: 9,
                ..Process::default()
            };
            owners.learn(&process.into());
        }
        assert_eq!(pids(&owners), [11, 10]);
        assert_eq!(owners.of_listening(&listener).pid, Some(11));
    }

    #[test]
    fn accepted_sockets_are_the_listeners() {
        let mut owners = Owners::default();
        let listen = Event {
            pid: Some(9),
            comm: Some("nginx".into()),
            ..state(1, TcpState::Close, TcpState::Listen, 80)
        };
        owners.learn(&listen.into());
        let accepted = state(2, TcpState::SynRecv, TcpState::Established, 80);
        owners.learn(&accepted.into());
        assert_eq!(
            pid(
                &owners,
                &state(2, TcpState::Established, TcpState::Close, 80)
            ),
            Some(9)
        );
        assert_eq!(
            pid(
                &owners,
                &state(3, TcpState::default(), TcpState::NewSynRecv, 80)
            ),
            Some(9)
        );
        assert_eq!(
            pid(
                &owners,
                &state(4, TcpState::default(), TcpState::SynSent, 80)
            ),
            None
        );
        assert_eq!(
            pid(
                &owners,
                &state(5, TcpState::default(), TcpState::Established, 81)
            ),
            None
        );
    }

    #[test]
    fn older_sockets_are_their_holders() {
        let mut owners = Owners::default();
        let holder = |inode, pid, comm: &str| Holder {
            inode,
            pid,
            comm: comm.into(),
            ..Holder::default()
        };
        owners.learn(&holder(11, 5, "sshd").into());
        owners.learn(&holder(11, 6, "child").into());
        owners.learn(&holder(12, 8, "redis").into());
        let socket = Socket {
            sock: 1,
            inode: Some(11),
            cgroup: Some(3),
            ..Socket::default()
        };
        owners.learn(&socket.into());
        let listener = Listener {
            inode: Some(12),
            local_port: 6379,
            ..Listener::default()
        };
        owners.learn(&listener.into());
        let owner = owners.of_event(&state(1, TcpState::default(), TcpState::Established, 22));
        assert_eq!((owner.pid, owner.cgroup), (Some(5), Some(3)));
        assert_eq!(
            pid(
                &owners,
                &state(2, TcpState::default(), TcpState::Established, 6379)
            ),
            Some(8)
        );
    }

    #[test]
    fn a_sample_of_another_socket_with_the_same_id_has_another_owner() {
        let mut owners = Owners::default();
        let made = Event {
            pid: Some(7),
            remote_port: 80,
            ..state(1, TcpState::Close, TcpState::SynSent, 0)
        };
        owners.learn(&made.into());
        let sampled = |remote_port| Socket {
            sock: 1,
            remote_port,
            ..Socket::default()
        };
        assert_eq!(owners.of_socket(&sampled(80)).pid, Some(7));
        assert_eq!(owners.of_socket(&sampled(50_000)).pid, None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut owners = Owners::default();
        for sock in 0..200_000 {
            let connect = Event {
                pid: Some(7),
                ..state(sock, TcpState::Close, TcpState::SynSent, 0)
            };
            owners.learn(&connect.into());
            owners.learn(&state(sock, TcpState::SynSent, TcpState::Close, 0).into());
        }
        assert!(owners.socks.len() <= KEPT_CLOSED + 1);
    }
}
