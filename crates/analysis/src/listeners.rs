//! Listeners: one per namespace, address and port, with the sockets that listen there over time.

use ahash::{AHashMap, AHashSet};
use recording::tables::{Event, Listener as Row};
use recording::{Error, Recording, RowRef, Text};

use super::conn::ConnId;
use super::place::{Endpoint, EventRow};
use super::processes::{Held, Processes};
use crate::AcceptQueue;

/// More listeners than this are not followed; a dense host has a few thousand.
const MAX_LISTENERS: usize = 65_536;
/// Sockets followed per listener: SO_REUSEPORT makes one per worker, a restart one more.
const MAX_SOCKETS: usize = 256;
/// Beginnings and ends of listening sockets that are kept, over all listeners.
const MAX_CHANGES: usize = 65_536;

/// What listens at one address and port of a namespace.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Network namespace.
    pub netns: u32,
    /// Address and port listened on.
    pub local: Endpoint,
    /// Its sockets, several with SO_REUSEPORT or after a restart.
    pub socks: Vec<ListenSock>,
    /// Processes that hold it.
    pub holders: Vec<Held>,
    /// The last listen() that we saw.
    pub call: Option<ListenCall>,
    /// When a socket stopped listening here.
    pub closed_ns: Option<u64>,
    /// Every socket that stopped listening here, in order of time.
    pub ended: Vec<ListenEnd>,
    /// Every socket that began to, and when.
    began: Vec<(u64, u64, Option<u32>)>,
    /// Ends on this host that it accepted, in order of time.
    pub accepted: Vec<ConnId>,
    /// Ends on this host that connected to it, or tried.
    pub clients: Vec<ConnId>,
}

/// One listening socket and what its samples say.
#[derive(Clone, Debug)]
pub struct ListenSock {
    /// The socket.
    pub sock: u64,
    inode: Option<u64>,
    /// Processes that hold it.
    pub held_by: Vec<u32>,
    /// Limit of its accept queue, as last sampled; one more may wait.
    pub backlog: u32,
    /// The kernel has logged "Possible SYN flooding" for it.
    pub warned: bool,
    /// How often it was sampled.
    pub samples: u32,
    /// Samples in which the accept queue was at least three quarters full: one that overflows is
    /// often caught just after an accept().
    pub crowded_samples: u32,
    /// Samples in which a connection waited in it.
    pub waiting_samples: u32,
    /// Connections that waited in it, summed over all samples.
    waiting: u64,
    /// Samples in which it was full.
    full_samples: u32,
    /// When the first and the last of those were taken.
    crowded_ns: Option<(u64, u64)>,
    /// Its accept queue when it was first sampled.
    pub first_queue: u32,
    /// And when it was last sampled.
    pub last_queue: u32,
    first_drops: u32,
    last_drops: u32,
    /// The longest that its accept queue was, and the row that says so.
    pub longest_accept_queue: (u32, RowRef),
    /// The longest that a connection was seen to wait for accept().
    longest_wait_ms: Option<(u32, RowRef)>,
    /// The most connections in SYN_RECV at once.
    pub longest_syn_queue: (u32, RowRef),
    /// Requests in SYN_RECV in the sample of the longest SYN queue whose SYN-ACK was not repeated.
    pub young: u32,
    /// The first sample.
    pub first_row: RowRef,
    /// The last sample.
    pub last_row: RowRef,
}

/// A listen() call.
#[derive(Clone, Debug)]
pub struct ListenCall {
    pub time_ns: u64,
    pub pid: Option<u32>,
    pub comm: Option<Text>,
    pub backlog: Option<u32>,
    pub row: EventRow,
}

/// A socket that stopped listening.
#[derive(Clone, Copy, Debug)]
pub struct ListenEnd {
    /// The socket.
    pub sock: u64,
    /// When it did.
    pub time_ns: u64,
    /// The process that had called listen(), if that was seen.
    pub pid: Option<u32>,
    row: EventRow,
}

impl ListenEnd {
    /// The row that says so.
    pub fn row(&self) -> RowRef {
        self.row.into()
    }
}

impl Listener {
    fn new(netns: u32, local: Endpoint) -> Listener {
        Listener {
            netns,
            local,
            socks: Vec::new(),
            holders: Vec::new(),
            call: None,
            closed_ns: None,
            ended: Vec::new(),
            began: Vec::new(),
            accepted: Vec::new(),
            clients: Vec::new(),
        }
    }

    /// The backlog of the socket that dropped most; among equals, of the one sampled last.
    pub fn backlog(&self) -> Option<u32> {
        let worst = self.socks.iter().max_by_key(|s| (s.drops(), s.last_row));
        match worst {
            Some(sock) => Some(sock.backlog),
            None => self.call.as_ref()?.backlog,
        }
    }

    /// The end after which resets of its unaccepted connections came, at this moment.
    pub fn ended_before(&self, time_ns: u64) -> Option<&ListenEnd> {
        let earlier = self.ended.partition_point(|e| e.time_ns <= time_ns);
        self.ended.get(earlier.checked_sub(1)?)
    }

    /// The processes of a socket that ended: those that held it, else the one that had called listen().
    pub fn owners(&self, end: &ListenEnd) -> Vec<u32> {
        let sampled = self.socks.iter().find(|s| s.sock == end.sock);
        let held = sampled.map(|s| s.held_by.clone()).unwrap_or_default();
        if held.is_empty() {
            end.pid.into_iter().collect()
        } else {
            held
        }
    }

    /// How many other sockets listened here when this one ended.
    pub fn others(&self, end: &ListenEnd) -> usize {
        let mut socks: Vec<u64> = self.socks.iter().map(|s| s.sock).collect();
        socks.extend(self.began.iter().map(|(sock, ..)| sock));
        socks.sort_unstable();
        socks.dedup();
        let listened = |sock: u64| {
            let began = self.began.iter().filter(|(s, ..)| *s == sock);
            let began = began.map(|(_, at, _)| *at).min();
            let ended = self.ended.iter().filter(|e| e.sock == sock);
            let ended = ended.map(|e| e.time_ns).max();
            began.is_none_or(|at| at <= end.time_ns) && ended.is_none_or(|at| at > end.time_ns)
        };
        let others = socks.into_iter().filter(|sock| *sock != end.sock);
        others.filter(|sock| listened(*sock)).count()
    }

    /// Packets dropped at its sockets during the recording; `None` when it was not sampled.
    pub fn drops(&self) -> Option<u64> {
        let drops = self.socks.iter().map(|s| u64::from(s.drops()));
        (!self.socks.is_empty()).then(|| drops.sum())
    }

    /// The socket whose accept queue was the longest.
    pub fn fullest(&self) -> Option<&ListenSock> {
        self.socks.iter().max_by_key(|s| s.longest_accept_queue.0)
    }

    /// The socket with the most connections in SYN_RECV at once.
    pub fn most_half_open(&self) -> Option<&ListenSock> {
        self.socks.iter().max_by_key(|s| s.longest_syn_queue.0)
    }

    /// In how many samples the accept queue of a socket was at least three quarters full, and out of how many.
    pub fn crowded_samples(&self) -> (u64, u64) {
        let sum = |of: fn(&ListenSock) -> u32| self.socks.iter().map(|s| u64::from(of(s))).sum();
        (sum(|s| s.crowded_samples), sum(|s| s.samples))
    }

    /// When the first and the last of those samples were taken, ns of CLOCK_MONOTONIC.
    pub fn crowded_ns(&self) -> Option<(u64, u64)> {
        let spans = self.socks.iter().filter_map(|s| s.crowded_ns);
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// By how much the accept queues grew during the recording; negative when they shrank.
    pub fn queue_growth(&self) -> i64 {
        let grew = |s: &ListenSock| i64::from(s.last_queue) - i64::from(s.first_queue);
        self.socks.iter().map(grew).sum()
    }

    /// Whether the kernel has logged "Possible SYN flooding" for it.
    pub fn warned(&self) -> bool {
        self.socks.iter().any(|s| s.warned)
    }
}

impl ListenSock {
    fn new(at: RowRef, row: &Row) -> ListenSock {
        ListenSock {
            sock: row.sock,
            inode: row.inode,
            held_by: Vec::new(),
            backlog: row.backlog,
            warned: false,
            samples: 0,
            crowded_samples: 0,
            waiting_samples: 0,
            waiting: 0,
            full_samples: 0,
            crowded_ns: None,
            first_queue: row.accept_queue,
            last_queue: row.accept_queue,
            first_drops: row.drops,
            last_drops: row.drops,
            longest_accept_queue: (row.accept_queue, at),
            longest_wait_ms: None,
            longest_syn_queue: (row.syn_queue, at),
            young: row.syn_queue_young,
            first_row: at,
            last_row: at,
        }
    }

    /// Its accept queue when it was the longest.
    pub fn fullest(&self) -> AcceptQueue {
        AcceptQueue {
            waiting: self.longest_accept_queue.0,
            backlog: self.backlog,
        }
    }

    /// Connections that waited in it on average over its samples.
    pub fn mean_queue(&self) -> f64 {
        self.waiting as f64 / f64::from(self.samples.max(1))
    }

    /// Whether a connection was seen to wait in it for so long, ns; where waits were not measured, whether any sample
    /// found one waiting.
    pub fn waited(&self, ns: u64) -> bool {
        match self.longest_wait() {
            Some((longest, _)) => longest >= ns,
            None => self.waiting_samples > 0,
        }
    }

    /// The longest that a connection was seen to wait in it, ns, and the row that says so; `None` where that was not
    /// measured.
    pub fn longest_wait(&self) -> Option<(u64, RowRef)> {
        let (ms, row) = self.longest_wait_ms?;
        Some((u64::from(ms) * 1_000_000, row))
    }

    /// Packets dropped at this socket during the recording.
    pub fn drops(&self) -> u32 {
        self.last_drops.saturating_sub(self.first_drops)
    }

    /// Whether the accept queue was full in every sample, at least two of them, and as long in the last as in the
    /// first.
    pub fn stood_full(&self) -> bool {
        let throughout = self.samples >= 2 && self.full_samples == self.samples;
        throughout && self.first_queue == self.last_queue
    }

    fn add(&mut self, at: RowRef, row: &Row) {
        self.samples = self.samples.saturating_add(1);
        self.backlog = row.backlog;
        self.warned |= row.synflood_warned;
        self.last_queue = row.accept_queue;
        self.last_drops = row.drops;
        self.last_row = at;
        self.waiting_samples += u32::from(row.accept_queue > 0);
        self.waiting = self.waiting.saturating_add(row.accept_queue.into());
        self.full_samples += u32::from(AcceptQueue::of(row).is_full());
        if AcceptQueue::of(row).is_crowded() {
            self.crowded_samples += 1;
            let (first, last) = self.crowded_ns.unwrap_or((row.time_ns, row.time_ns));
            self.crowded_ns = Some((first.min(row.time_ns), last.max(row.time_ns)));
        }
        if row.accept_queue > self.longest_accept_queue.0 {
            self.longest_accept_queue = (row.accept_queue, at);
        }
        if let Some(ms) = row.accept_wait_ms {
            let longest = self.longest_wait_ms.filter(|(longest, _)| *longest >= ms);
            self.longest_wait_ms = longest.or(Some((ms, at)));
        }
        if row.syn_queue > self.longest_syn_queue.0 {
            self.longest_syn_queue = (row.syn_queue, at);
            self.young = row.syn_queue_young;
        }
    }
}

/// All listeners, found by address.
#[derive(Debug, Default)]
pub struct Listeners {
    /// All of them.
    pub all: Vec<Listener>,
    by_place: AHashMap<(u32, Endpoint), u32>,
    by_port: AHashMap<(u32, u16), Vec<u32>>,
    by_netns: AHashMap<u32, Vec<u32>>,
    by_holder: AHashMap<u32, Vec<u32>>,
    /// Beginnings and ends that were kept.
    changes: usize,
    /// Samples of listeners and of their sockets beyond the bounds.
    pub folded: u64,
}

impl Listeners {
    /// Reads the samples and the holders of the sockets.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn read(recording: &Recording) -> Result<Listeners, Error> {
        let mut listeners = Listeners::default();
        for batch in recording.scan::<Row>()? {
            for (at, row) in batch?.rows() {
                listeners.sample(at, &row);
            }
        }
        Ok(listeners)
    }

    /// The inodes of all sockets that listen.
    pub fn listening(&self) -> AHashSet<u64> {
        self.inodes().map(|(_, inode)| inode).collect()
    }

    /// Takes their holders.
    pub fn hold(&mut self, holders: &AHashMap<u64, Vec<Held>>) {
        let of: Vec<_> = self.inodes().collect();
        for (index, inode) in of {
            let listener = &mut self.all[index];
            let sock = listener.socks.iter_mut().find(|s| s.inode == Some(inode));
            if let Some(sock) = sock {
                let pids = holders.get(&inode).into_iter().flatten();
                sock.held_by = pids.map(|h| h.pid).collect();
            }
            for held in holders.get(&inode).into_iter().flatten() {
                let of_holder = self.by_holder.entry(held.pid).or_default();
                // The sockets of one listener come one after the other.
                if of_holder.last() != Some(&(index as u32)) {
                    of_holder.push(index as u32);
                    listener.holders.push(held.clone());
                }
            }
        }
    }

    /// Puts those first that another holder started: masters leave accept() to their workers.
    pub(crate) fn workers_first(&mut self, processes: &Processes) {
        let parent = |pid: u32| processes.get(pid).map(|s| s.ppid);
        for listener in &mut self.all {
            let held_by: AHashSet<u32> = listener.holders.iter().map(|h| h.pid).collect();
            let is_worker = |pid| parent(pid).is_some_and(|parent| held_by.contains(&parent));
            listener.holders.sort_by_key(|h| !is_worker(h.pid));
        }
    }

    fn inodes(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let of = |l: &Listener| l.socks.iter().filter_map(|s| s.inode).collect::<Vec<_>>();
        let all = self.all.iter().enumerate();
        all.flat_map(move |(i, l)| of(l).into_iter().map(move |inode| (i, inode)))
    }

    fn sample(&mut self, at: RowRef, row: &Row) {
        let local = Endpoint::new(row.local_addr, row.local_port);
        let Some(index) = self.at(row.netns, local) else {
            return;
        };
        let socks = &mut self.all[index as usize].socks;
        let known = socks.iter().position(|s| s.sock == row.sock);
        let known = match known {
            Some(i) => i,
            None if socks.len() < MAX_SOCKETS => {
                socks.push(ListenSock::new(at, row));
                socks.len() - 1
            }
            None => {
                self.folded += 1;
                return;
            }
        };
        socks[known].add(at, row);
    }

    /// The listener at exactly this place, made if there is none yet; `None` beyond the bound.
    pub fn at(&mut self, netns: u32, local: Endpoint) -> Option<u32> {
        if let Some(index) = self.by_place.get(&(netns, local)) {
            return Some(*index);
        }
        if self.all.len() >= MAX_LISTENERS {
            self.folded += 1;
            return None;
        }
        let index = self.all.len() as u32;
        self.all.push(Listener::new(netns, local));
        self.by_place.insert((netns, local), index);
        self.by_port
            .entry((netns, local.port))
            .or_default()
            .push(index);
        self.by_netns.entry(netns).or_default().push(index);
        Some(index)
    }

    /// A socket began to listen.
    pub fn began(&mut self, at: EventRow, row: &Event) {
        let local = Endpoint::new(row.local_addr, row.local_port);
        let Some(index) = self.at(row.netns, local) else {
            return;
        };
        let listener = &mut self.all[index as usize];
        listener.call = Some(ListenCall {
            time_ns: row.time_ns,
            pid: row.pid,
            comm: row.comm.clone(),
            backlog: row.backlog,
            row: at,
        });
        if let Some(sock) = row.sock
            && self.changes < MAX_CHANGES
        {
            listener.began.push((sock, row.time_ns, row.pid));
            self.changes += 1;
        }
        // All that it ever dropped, it dropped during the recording.
        let new = listener.socks.iter_mut().find(|s| Some(s.sock) == row.sock);
        if let Some(sock) = new {
            (sock.first_drops, sock.first_queue) = (0, 0);
        }
    }

    /// A socket stopped listening.
    pub fn ended(&mut self, at: EventRow, row: &Event) {
        let local = Endpoint::new(row.local_addr, row.local_port);
        let Some(index) = self.by_place.get(&(row.netns, local)) else {
            return;
        };
        let listener = &mut self.all[*index as usize];
        listener.closed_ns = Some(row.time_ns);
        let Some(sock) = row.sock.filter(|_| self.changes < MAX_CHANGES) else {
            return;
        };
        let called = listener.began.iter().rev().find(|(s, ..)| *s == sock);
        let pid = called.and_then(|(.., pid)| *pid);
        listener.ended.push(ListenEnd {
            sock,
            time_ns: row.time_ns,
            pid,
            row: at,
        });
        self.changes += 1;
    }

    /// The listener that takes a connection to `to`, as the kernel looks it up: the exact
    /// address before the wildcard, the socket's own family before the other.
    pub fn taking(&self, netns: u32, to: Endpoint, family: u8) -> Option<u32> {
        let find = |place| self.by_place.get(&(netns, place)).copied();
        let [v4, v6] = wildcards(to.port);
        let is_v4 = to.addr.ip().is_ipv4();
        find(to).or_else(|| match (is_v4, family) {
            (false, _) => find(v6),
            (true, 6) => find(v6).or_else(|| find(v4)),
            (true, _) => find(v4).or_else(|| find(v6)),
        })
    }

    /// The listener at exactly this place.
    pub fn place(&self, netns: u32, local: Endpoint) -> Option<u32> {
        self.by_place.get(&(netns, local)).copied()
    }

    /// The listeners that a process holds, in their order.
    pub fn of_holder(&self, pid: u32) -> &[u32] {
        self.by_holder.get(&pid).map_or(&[], |indices| indices)
    }

    /// Whether two processes hold a listener in common.
    pub fn share_one(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.of_holder(a), self.of_holder(b));
        let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
        few.iter().any(|index| many.binary_search(index).is_ok())
    }

    /// The listeners of a namespace, in their order.
    pub fn of_netns(&self, netns: u32) -> impl Iterator<Item = (u32, &Listener)> + Clone {
        let indices = self.by_netns.get(&netns).into_iter().flatten();
        indices.filter_map(|i| Some((*i, self.all.get(*i as usize)?)))
    }

    /// Listeners of a namespace at the port, whatever their address.
    pub fn at_port(&self, netns: u32, port: u16) -> impl Iterator<Item = &Listener> + Clone {
        let indices = self.by_port.get(&(netns, port)).into_iter().flatten();
        indices.filter_map(|i| self.all.get(*i as usize))
    }
}

fn wildcards(port: u16) -> [Endpoint; 2] {
    use std::net::{Ipv4Addr, Ipv6Addr};
    let v4 = Ipv4Addr::UNSPECIFIED.into();
    let v6 = std::net::IpAddr::from(Ipv6Addr::UNSPECIFIED).into();
    [Endpoint::new(v4, port), Endpoint::new(v6, port)]
}
