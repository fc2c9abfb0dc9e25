//! What a recorder on the simulated host would have written: connections, calls, waits, samples.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use recording::tables::{Call as CallRow, Event, Sample, Socket, Wait};
use recording::{Addr, CallKind, EventKind, TcpState, Waker};

use super::outcome::Second;
use super::params::{MS, Params, S};
use super::pcbs::{List, Pcb, State};
use super::probe::{Call, Conn, Probe};
use crate::tables::{SEGMENT_NS, START_NS, Tables};

/// The host's one network stack.
pub(super) const HOST: u32 = 4_026_531_840;
/// The processes that connect, from this one on.
const WORKER_PID: u32 = 1_000;
pub(super) const WORKER: &str = "proxy";
/// Where they connect to: so many hosts, and their port.
pub(super) const BACKENDS: u64 = 4;
pub(super) const BACKEND_PORT: u16 = 8_080;
/// Sockets up to this one are listeners; those of connections follow.
const LISTENERS: u64 = 100;
/// Shorter calls that succeed, and shorter waits, have no row, as a live recorder has it by default.
const LEAST_NS: u64 = 10 * MS;
/// The profiler's samples are so far apart: 997 per second.
const PERIOD_NS: u64 = 1_003_009;
/// The stack of a search; its only one.
pub(super) const SEARCH_STACK: u64 = 1;

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    pub(super) p: &'a Params,
    pub(super) tables: &'a mut Tables,
    /// Connections that are open, by id.
    open: BTreeMap<u64, Open>,
    pub(super) workers: Vec<Worker>,
    pub(super) counters: BTreeMap<&'static str, i64>,
}

/// An open connection, and what is written of it so far.
struct Open {
    conn: Conn,
    /// connect() was called, of those that this host made; by which worker.
    called_ns: u64,
    worker: u32,
    established_ns: Option<u64>,
    /// Its changes of state so far are rows, or a sample says it; else its whole life will be one row.
    told: bool,
}

/// What a worker does.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    /// When it searched and when it waited for the lock, ns; what is over is forgotten each second.
    pub(super) searches: Vec<(u64, u64)>,
    pub(super) blocked: Vec<(u64, u64)>,
    /// Until when its last connect() lasted.
    returned_ns: u64,
    /// In this second: times that it fell asleep.
    pub(super) sleeps: u64,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(p: &'a Params, tables: &'a mut Tables) -> Recorder<'a> {
        let mut recorder = Recorder {
            p,
            tables,
            open: BTreeMap::new(),
            workers: vec![Worker::default(); p.workers as usize],
            counters: BTreeMap::new(),
        };
        recorder.describe();
        recorder
    }

    /// Ends the recording.
    pub(super) fn finish(mut self) {
        self.tell_open();
        self.tables.ends(self.p.duration * S);
    }

    /// A moment of the simulation on the recording's clock.
    pub(super) fn at(&self, sim_ns: u64) -> u64 {
        START_NS + sim_ns.saturating_sub(self.p.origin_ns())
    }

    pub(super) fn here(&self) -> Addr {
        Addr::from(Ipv4Addr::new(198, 18, 0, 1))
    }

    /// The other side: clients are as many as it takes that no two connections have the same ends.
    fn there(&self, conn: Conn) -> (Addr, u16) {
        if conn.outbound {
            return (backend(conn.id % BACKENDS), BACKEND_PORT);
        }
        let (host, port) = (conn.id / 64_000, conn.id % 64_000);
        let client = Ipv4Addr::new(198, 19, (host >> 8) as u8, host as u8);
        (Addr::from(client), 1_024 + port as u16)
    }

    pub(super) fn listener(nth: u16) -> u64 {
        1 + u64::from(nth)
    }

    pub(super) fn pid(worker: u32) -> u32 {
        WORKER_PID + worker
    }

    fn event(&self, conn: Conn, at_ns: u64, from: TcpState, to: TcpState) -> Event {
        let (remote_addr, remote_port) = self.there(conn);
        Event {
            time_ns: self.at(at_ns),
            kind: EventKind::State,
            netns: HOST,
            sock: Some(LISTENERS + conn.id),
            family: 4,
            local_addr: self.here(),
            local_port: conn.local_port,
            remote_addr,
            remote_port,
            old_state: Some(from),
            state: Some(to),
            ..Event::default()
        }
    }

    /// Writes what is there of every open connection: a segment, or the recording, ends.
    fn tell_open(&mut self) {
        let ids = self.open.iter().filter(|(_, open)| !open.told);
        let ids: Vec<u64> = ids.map(|(id, _)| *id).collect();
        for id in ids {
            let Some(open) = self.open.get_mut(&id) else {
                continue;
            };
            open.told = true;
            let (conn, called_ns, worker) = (open.conn, open.called_ns, open.worker);
            let established = open.established_ns;
            if conn.outbound {
                let row = Event {
                    pid: Some(Recorder::pid(worker)),
                    comm: Some(WORKER.into()),
                    ..self.event(conn, called_ns, TcpState::Close, TcpState::SynSent)
                };
                self.tables.add(row);
            }
            if let Some(at_ns) = established {
                self.tell_established(conn, at_ns);
            }
        }
    }

    fn tell_established(&mut self, conn: Conn, at_ns: u64) {
        let from = if conn.outbound {
            TcpState::SynSent
        } else {
            TcpState::SynRecv
        };
        let row = self.event(conn, at_ns, from, TcpState::Established);
        self.tables.add(Event {
            retransmits: Some(0),
            ..row
        });
    }

    /// A sample of a connection, as the recorder takes it of each when it begins.
    fn sample(&mut self, local_port: u16, pcb: &Pcb, now_ns: u64) {
        let state = match pcb.state {
            State::Connecting => TcpState::SynSent,
            State::Live => TcpState::Established,
            State::TimeWait => TcpState::TimeWait,
            State::Gone => return,
        };
        let conn = Conn {
            id: pcb.id,
            local_port,
            outbound: pcb.outbound,
        };
        let (remote_addr, remote_port) = self.there(conn);
        let is_connection = pcb.state != State::TimeWait;
        self.tables.add(Socket {
            time_ns: self.at(now_ns),
            netns: HOST,
            sock: LISTENERS + pcb.id,
            family: 4,
            state,
            local_addr: self.here(),
            local_port,
            remote_addr,
            remote_port,
            congestion: is_connection.then(|| "newreno".into()),
            ..Socket::default()
        });
        if is_connection {
            let open = Open {
                conn,
                called_ns: now_ns,
                worker: 0,
                established_ns: Some(now_ns).filter(|_| pcb.state == State::Live),
                told: true,
            };
            self.open.insert(pcb.id, open);
        }
    }
}

pub(super) fn backend(nth: u64) -> Addr {
    Addr::from(Ipv4Addr::new(198, 18, 1, nth as u8 + 1))
}

impl Probe for Recorder<'_> {
    fn begins(&mut self, now_ns: u64, lists: &[List]) {
        for (port, list) in (0..=u16::MAX).zip(lists) {
            for pcb in list.all() {
                self.sample(port, pcb, now_ns);
            }
        }
    }

    fn accepted(&mut self, conn: Conn, now_ns: u64) {
        let open = Open {
            conn,
            called_ns: now_ns,
            worker: 0,
            established_ns: Some(now_ns),
            told: false,
        };
        self.open.insert(conn.id, open);
    }

    fn established(&mut self, conn: Conn, _called_ns: u64, now_ns: u64) {
        let told = self.open.get_mut(&conn.id).is_some_and(|open| {
            open.established_ns = Some(now_ns);
            open.told
        });
        if told {
            self.tell_established(conn, now_ns);
        }
    }

    fn closed(&mut self, conn: Conn, first: bool, now_ns: u64) {
        let Some(open) = self.open.remove(&conn.id) else {
            return;
        };
        let from = if first {
            TcpState::FinWait2
        } else {
            TcpState::LastAck
        };
        let established = open.established_ns.filter(|_| !open.told);
        let whole = established.is_some() && conn.outbound;
        let bytes = (
            u64::from(self.p.reply_bytes),
            u64::from(self.p.request_bytes),
        );
        let (sent, received) = if conn.outbound {
            (bytes.1, bytes.0)
        } else {
            bytes
        };
        let row = Event {
            pid: whole.then(|| Recorder::pid(open.worker)),
            comm: whole.then(|| WORKER.into()),
            connect_ns: whole.then(|| self.at(open.called_ns)),
            established_ns: established.map(|at_ns| self.at(at_ns)),
            retransmits: Some(0),
            bytes_acked: Some(sent),
            bytes_received: Some(received),
            ..self.event(conn, now_ns, from, TcpState::Close)
        };
        self.tables.add(row);
    }

    fn blocked(&mut self, worker: u32, holder: u32, from_ns: u64, to_ns: u64) {
        self.workers[worker as usize].blocked.push((from_ns, to_ns));
        if to_ns - from_ns < LEAST_NS || to_ns > self.p.end_ns() {
            return;
        }
        let (pid, waker_pid) = (Recorder::pid(worker), Recorder::pid(holder));
        self.tables.add(Wait {
            time_ns: self.at(to_ns),
            pid,
            tid: pid,
            comm: WORKER.into(),
            netns: HOST,
            state: "D".into(),
            syscall: Some("connect".into()),
            waited_ns: to_ns - from_ns,
            runqueue_ns: Some(0),
            waker: Waker::Task,
            waker_pid,
            waker_tid: waker_pid,
            waker_comm: WORKER.into(),
            waker_cpu: self.cpu(holder),
            ..Wait::default()
        });
    }

    fn searches(&mut self, worker: u32, from_ns: u64, to_ns: u64) {
        self.workers[worker as usize]
            .searches
            .push((from_ns, to_ns));
        let pid = Recorder::pid(worker);
        let until_ns = to_ns.min(self.p.end_ns());
        let mut sampled_ns = from_ns.next_multiple_of(PERIOD_NS);
        while sampled_ns < until_ns {
            self.tables.add(Sample {
                time_ns: self.at(sampled_ns),
                cpu: self.cpu(worker),
                pid,
                tid: pid,
                comm: WORKER.into(),
                softirq: false,
                kernel_stack: Some(SEARCH_STACK),
                user_stack: None,
            });
            sampled_ns += PERIOD_NS;
        }
    }

    fn returned(&mut self, call: &Call) {
        let worker = &mut self.workers[call.worker as usize];
        worker.sleeps += u64::from(call.called_ns > worker.returned_ns);
        worker.returned_ns = call.returned_ns;
        if let Some(conn) = call.made {
            let open = Open {
                conn,
                called_ns: call.called_ns,
                worker: call.worker,
                established_ns: None,
                told: false,
            };
            // One whose search began before the recording has been sampled.
            self.open.entry(conn.id).or_insert(open);
        }
        let took_ns = call.returned_ns - call.called_ns;
        if took_ns < LEAST_NS && call.made.is_some() {
            return;
        }
        let (remote_addr, remote_port) = match call.made {
            Some(conn) => self.there(conn),
            None => (Addr::default(), 0),
        };
        let pid = Recorder::pid(call.worker);
        self.tables.add(CallRow {
            time_ns: self.at(call.returned_ns),
            pid,
            tid: pid,
            comm: WORKER.into(),
            netns: HOST,
            call: CallKind::Connect,
            duration_ns: took_ns,
            error: Some(match call.made {
                Some(_) => "EINPROGRESS".into(),
                None => "EADDRNOTAVAIL".into(),
            }),
            sock: call.made.map(|conn| LISTENERS + conn.id),
            family: 4,
            local_addr: self.here(),
            local_port: call.made.map_or(0, |conn| conn.local_port),
            remote_addr,
            remote_port,
            port_search_ns: Some(call.returned_ns - call.began_ns),
            ..CallRow::default()
        });
    }

    fn second(&mut self, now_ns: u64, second: &Second, lists: &[List]) {
        let since_ns = now_ns - self.p.origin_ns();
        self.measure(now_ns, second, lists);
        if since_ns > 0 && since_ns.is_multiple_of(SEGMENT_NS) {
            self.tell_open();
            self.tables.seal();
        }
    }
}

impl Recorder<'_> {
    pub(super) fn cpu(&self, worker: u32) -> u32 {
        worker % CPUS
    }
}

/// CPUs of the host; nothing depends on it.
pub(super) const CPUS: u32 = 2;
