//! What is behind an epoll descriptor, in words: its descriptors joined with sockets and listeners.
//!
//! Feed it the rows of `socket`, `listener` and `epoll` in order of time; ask it about a process and its
//! descriptor.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use recording::tables::Epoll;
use recording::{Addr, FileKind, Row};

use crate::place::Endpoint;
use crate::words::{count, plural};

/// Tables that it wants to see.
pub const TABLES: &[&str] = &["socket", "listener", "epoll"];

/// Sockets followed at a time.
const MAX_SOCKETS: usize = 1 << 20;
/// Sets followed, and descriptors of all of them; the recorder reads 1,024 of each at a time.
const MAX_SETS: usize = 1 << 12;
const MAX_MEMBERS: usize = 1 << 18;
/// Peers that a sentence names.
const NAMED: usize = 2;

/// The sets seen so far.
#[derive(Debug, Default)]
pub struct Epolls {
    sockets: AHashMap<u64, Socket>,
    /// Ports that something listens at.
    ports: AHashSet<u16>,
    sets: AHashMap<(u32, u32), Set>,
    members: usize,
}

/// A set of descriptors, as of its last reading.
#[derive(Debug, Default)]
struct Set {
    time_ns: u64,
    total: u32,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    fd: u32,
    kind: FileKind,
    inode: Option<u64>,
    events: u32,
}

/// Where a socket of TCP is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// It listens here.
    Listener(Endpoint),
    /// It is a connection, from its own end to the other.
    Connection(Endpoint, Endpoint),
}

/// A descriptor of a set.
#[derive(Debug)]
pub struct Behind<'e> {
    /// Its number.
    pub fd: u32,
    /// What it is.
    pub kind: &'e FileKind,
    /// The kernel's bits of what is waited for.
    pub events: u32,
    /// Where it is, if it is a socket of TCP that was sampled.
    pub socket: Option<Socket>,
}

impl Epolls {
    /// Learns from a row; ignores those of other tables.
    pub fn learn(&mut self, row: &Row) {
        match row {
            Row::Socket(s) => {
                let end = |addr: Addr, port| Endpoint::new(addr, port);
                let here = end(s.local_addr, s.local_port);
                let there = end(s.remote_addr, s.remote_port);
                self.socket(s.inode, Socket::Connection(here, there));
            }
            Row::Listener(l) => {
                self.ports.insert(l.local_port);
                let here = Endpoint::new(l.local_addr, l.local_port);
                self.socket(l.inode, Socket::Listener(here));
            }
            Row::Epoll(e) => self.member(e),
            _ => {}
        }
    }

    fn socket(&mut self, inode: Option<u64>, socket: Socket) {
        let Some(inode) = inode else { return };
        if self.sockets.len() < MAX_SOCKETS || self.sockets.contains_key(&inode) {
            self.sockets.insert(inode, socket);
        }
    }

    fn member(&mut self, e: &Epoll) {
        let key = (e.pid, e.epoll_fd);
        if self.sets.len() >= MAX_SETS && !self.sets.contains_key(&key) {
            return;
        }
        let set = self.sets.entry(key).or_default();
        if set.time_ns != e.time_ns {
            self.members -= set.members.len();
            set.members.clear();
            set.time_ns = e.time_ns;
        }
        set.total = e.total;
        if self.members < MAX_MEMBERS {
            self.members += 1;
            set.members.push(Member {
                fd: e.fd,
                kind: e.kind.clone(),
                inode: e.inode,
                events: e.events,
            });
        }
    }

    /// The descriptors behind one, and how many more there are; `None` where that is not known.
    pub fn behind(&self, pid: u32, fd: i32) -> Option<(Vec<Behind<'_>>, u64)> {
        let set = self.sets.get(&(pid, u32::try_from(fd).ok()?))?;
        let behind = set.members.iter().map(|m| Behind {
            fd: m.fd,
            kind: &m.kind,
            events: m.events,
            socket: m.inode.and_then(|inode| self.sockets.get(&inode).copied()),
        });
        let behind: Vec<Behind> = behind.collect();
        let left_out = u64::from(set.total).saturating_sub(behind.len() as u64);
        Some((behind, left_out))
    }

    /// The same in words: `listener 0.0.0.0:80, 35 connections (33 to 10.0.0.2:5432, 2 others), 1 eventfd`.
    pub fn says(&self, pid: u32, fd: i32) -> Option<String> {
        let (behind, left_out) = self.behind(pid, fd)?;
        let mut listeners = Vec::new();
        let mut peers: BTreeMap<String, u64> = BTreeMap::new();
        let mut others: BTreeMap<&str, u64> = BTreeMap::new();
        for one in &behind {
            match one.socket {
                Some(Socket::Listener(here)) => listeners.push(format!("listener {here}")),
                Some(Socket::Connection(here, there)) => {
                    // Every client that connected here has a port of its own.
                    let peer = if self.ports.contains(&here.port) {
                        format!("from {}", there.addr)
                    } else {
                        format!("to {there}")
                    };
                    *peers.entry(peer).or_default() += 1;
                }
                None => *others.entry(name(one.kind)).or_default() += 1,
            }
        }
        // None of them is known: they are not further ones.
        if listeners.is_empty() && peers.is_empty() {
            let sockets = others.remove(name(&FileKind::Socket));
            others.extend(sockets.map(|n| ("socket", n)));
        }
        let mut parts = Vec::new();
        let more = listeners.len().saturating_sub(NAMED);
        parts.extend(listeners.into_iter().take(NAMED));
        if more > 0 {
            parts.push(plural(more as u64, "further listener"));
        }
        parts.extend(connections(peers));
        parts.extend(others.into_iter().map(|(what, n)| plural(n, what)));
        if left_out > 0 {
            parts.push(format!("{} not looked at", count(left_out)));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn connections(peers: BTreeMap<String, u64>) -> Option<String> {
    let total: u64 = peers.values().sum();
    let mut peers: Vec<(String, u64)> = peers.into_iter().collect();
    peers.sort_by_key(|(_, n)| Reverse(*n));
    let many = plural(total, "connection");
    if let [(peer, _)] = &peers[..] {
        return Some(format!("{many} {peer}"));
    }
    let rest: u64 = peers.iter().skip(NAMED).map(|(_, n)| n).sum();
    let named = peers.iter().take(NAMED);
    let mut named: Vec<String> = named
        .map(|(peer, n)| format!("{} {peer}", count(*n)))
        .collect();
    if rest > 0 {
        named.push(plural(rest, "other"));
    }
    (total > 0).then(|| format!("{many} ({})", named.join(", ")))
}

/// What is counted of a kind.
fn name(kind: &FileKind) -> &'static str {
    match kind {
        // Of another family, or not sampled.
        FileKind::Socket => "further socket",
        FileKind::Epoll => "epoll set",
        FileKind::Eventfd => "eventfd",
        FileKind::Timerfd => "timerfd",
        FileKind::Signalfd => "signalfd",
        FileKind::Inotify => "inotify",
        FileKind::Pidfd => "pidfd",
        FileKind::IoUring => "io_uring",
        FileKind::Pipe => "pipe",
        FileKind::File => "file",
        FileKind::Other | FileKind::Unknown(_) => "other descriptor",
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use recording::tables::{Listener, Socket};

    use super::*;

    fn addr(text: &str) -> Addr {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn socket(inode: u64, local_port: u16, remote: &str, remote_port: u16) -> Row {
        let socket = Socket {
            inode: Some(inode),
            local_addr: addr("10.0.0.1"),
            local_port,
            remote_addr: addr(remote),
            remote_port,
            ..Socket::default()
        };
        socket.into()
    }

    fn member(time_ns: u64, fd: u32, kind: FileKind, total: u32) -> Row {
        let inode = (kind == FileKind::Socket).then_some(u64::from(fd) + 100);
        let epoll = Epoll {
            time_ns,
            pid: 7,
            epoll_fd: 4,
            fd,
            kind,
            inode,
            events: 1,
            total,
        };
        epoll.into()
    }

    #[test]
    fn a_set_is_told_by_what_its_sockets_are() {
        let mut epolls = Epolls::default();
        let listener = Listener {
            inode: Some(105),
            local_addr: addr("0.0.0.0"),
            local_port: 8080,
            ..Listener::default()
        };
        epolls.learn(&listener.into());
        for (inode, port) in [(106, 50_001), (107, 50_002), (108, 50_003)] {
            epolls.learn(&socket(inode, port, "10.0.0.2", 5432));
        }
        epolls.learn(&socket(109, 8080, "10.0.0.9", 40_000));
        epolls.learn(&member(1, 77, FileKind::Timerfd, 1));
        assert_eq!(epolls.says(7, 4).unwrap(), "1 timerfd");
        for fd in 5..11 {
            epolls.learn(&member(2, fd, FileKind::Socket, 20));
        }
        epolls.learn(&member(2, 11, FileKind::Eventfd, 20));
        assert_eq!(
            epolls.says(7, 4).unwrap(),
            "listener 0.0.0.0:8080, 4 connections (3 to 10.0.0.2:5432, 1 from 10.0.0.9), \
             1 eventfd, 1 further socket, 13 not looked at"
        );
        let (behind, left_out) = epolls.behind(7, 4).unwrap();
        assert_eq!((behind.len(), left_out), (7, 13));
        assert_eq!((epolls.says(7, 5), epolls.says(7, -1)), (None, None));
    }

    #[test]
    fn whatever_a_recording_holds_is_bounded() {
        let mut epolls = Epolls::default();
        for fd in 0..MAX_MEMBERS as u32 + 9 {
            epolls.learn(&member(1, fd, FileKind::Unknown("x\x1b[2J".into()), 3));
        }
        assert_eq!(epolls.behind(7, 4).unwrap().0.len(), MAX_MEMBERS);
        assert_eq!(epolls.says(7, 4).unwrap(), "262,144 other descriptors");
        epolls.learn(&member(3, 1, FileKind::Socket, 1));
        assert_eq!(epolls.says(7, 4).unwrap(), "1 socket", "not sampled");
        epolls.learn(&member(2, 1, FileKind::Pipe, 1));
        assert_eq!(
            epolls.says(7, 4).unwrap(),
            "1 pipe",
            "the room is free again"
        );
    }
}
