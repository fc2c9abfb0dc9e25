//! What a recorder on the simulated host would have written: connections, calls, waits, samples.

use std::collections::BTreeMap;

use recording::tables::{Call as CallRow, Socket, Wait};
use recording::{CallKind, TcpState, Waker};
use synth::{Counters, HOST, LEAST_NS, Life, PERIOD_NS, Sink, Tables};

use super::host::{cpu, describe, end, here, task};
use super::observer::{Call, Conn, Observer};
use super::outcome::Second;
use super::params::{Params, S};
use super::pcbs::{List, Pcb, State};
use crate::clock::{SEGMENT_NS, START_NS};

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    pub(super) p: &'a Params,
    pub(super) tables: &'a mut Tables,
    /// Connections that are open, by id.
    open: BTreeMap<u64, Life>,
    pub(super) workers: Vec<Worker>,
    pub(super) counters: Counters,
    /// Packets dropped that are still to be taken off those received.
    pub(super) dropped: u64,
    /// The stack of a search.
    search: u64,
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
        let search = describe(p, tables);
        Recorder {
            p,
            tables,
            open: BTreeMap::new(),
            workers: vec![Worker::default(); p.workers as usize],
            counters: Counters::default(),
            dropped: 0,
            search,
        }
    }

    /// Ends the recording.
    pub(super) fn finish(mut self) {
        self.tell_open();
        self.tables.manifest.end_ns = START_NS + self.p.duration * S;
    }

    /// A moment of the simulation on the recording's clock.
    pub(super) fn at(&self, sim_ns: u64) -> u64 {
        START_NS + sim_ns.saturating_sub(self.p.origin_ns())
    }

    /// Writes what is there of every open connection: a segment, or the recording, ends.
    fn tell_open(&mut self) {
        let open = self.open.values_mut();
        self.tables.extend(open.flat_map(Life::tell));
    }

    /// A sample of a connection, as the recorder takes it of each when it begins.
    fn sample(&mut self, local_port: u16, pcb: &Pcb, now_ns: u64) {
        let state = match pcb.state {
            State::Connecting => TcpState::SynSent,
            State::Live => TcpState::Established,
            State::TimeWait => TcpState::TimeWait,
            State::Gone => return,
        };
        let end = end(Conn {
            id: pcb.id,
            local_port,
            outbound: pcb.outbound,
        });
        let time_ns = self.at(now_ns);
        let is_connection = pcb.state != State::TimeWait;
        self.tables.add(Socket {
            congestion: is_connection.then(|| "newreno".into()),
            ..end.sample(time_ns, state)
        });
        if is_connection {
            let established = (pcb.state == State::Live).then_some(time_ns);
            let life = Life::older(end, pcb.outbound, established);
            self.open.insert(pcb.id, life);
        }
    }
}

impl Observer for Recorder<'_> {
    fn begins(&mut self, now_ns: u64, lists: &[List]) {
        for (port, list) in (0..=u16::MAX).zip(lists) {
            for pcb in list.all() {
                self.sample(port, pcb, now_ns);
            }
        }
    }

    fn accepted(&mut self, conn: Conn, now_ns: u64) {
        let life = Life::accepted(end(conn), self.at(now_ns));
        self.open.insert(conn.id, life);
    }

    fn established(&mut self, conn: Conn, _called_ns: u64, now_ns: u64) {
        let time_ns = self.at(now_ns);
        let life = self.open.get_mut(&conn.id);
        self.tables
            .extend(life.and_then(|life| life.establish(time_ns)));
    }

    fn closed(&mut self, conn: Conn, first: bool, now_ns: u64) {
        let Some(life) = self.open.remove(&conn.id) else {
            return;
        };
        let from = if first {
            TcpState::FinWait2
        } else {
            TcpState::LastAck
        };
        let mut bytes = [self.p.reply_bytes, self.p.request_bytes].map(u64::from);
        if conn.outbound {
            bytes.reverse();
        }
        let row = life.close(self.at(now_ns), from, bytes);
        self.tables.add(row);
    }

    fn blocked(&mut self, worker: u32, holder: u32, from_ns: u64, to_ns: u64) {
        self.workers[worker as usize].blocked.push((from_ns, to_ns));
        if to_ns - from_ns < LEAST_NS || to_ns > self.p.end_ns() {
            return;
        }
        let by = task(holder);
        self.tables.add(Wait {
            state: "D".into(),
            syscall: Some("connect".into()),
            waker: Waker::Task,
            waker_pid: by.pid,
            waker_tid: by.pid,
            waker_comm: by.comm.into(),
            waker_cpu: cpu(holder),
            ..task(worker).wait(self.at(to_ns), HOST, to_ns - from_ns)
        });
    }

    fn searches(&mut self, worker: u32, from_ns: u64, to_ns: u64) {
        self.workers[worker as usize]
            .searches
            .push((from_ns, to_ns));
        let until_ns = to_ns.min(self.p.end_ns());
        let mut sampled_ns = from_ns.next_multiple_of(PERIOD_NS);
        while sampled_ns < until_ns {
            let (time_ns, stack) = (self.at(sampled_ns), Some(self.search));
            self.tables
                .add(task(worker).on_cpu(time_ns, cpu(worker), stack));
            sampled_ns += PERIOD_NS;
        }
    }

    fn returned(&mut self, call: &Call) {
        let worker = &mut self.workers[call.worker as usize];
        worker.sleeps += u64::from(call.called_ns > worker.returned_ns);
        worker.returned_ns = call.returned_ns;
        if let Some(conn) = call.made {
            let life = Life::connects(end(conn), task(call.worker), self.at(call.called_ns));
            // One whose search began before the recording has been sampled.
            self.open.entry(conn.id).or_insert(life);
        }
        let took_ns = call.returned_ns - call.called_ns;
        if took_ns < LEAST_NS && call.made.is_some() {
            return;
        }
        let made = call.made.map(end);
        let (remote_addr, remote_port) = made.map_or_else(Default::default, |end| end.remote);
        let returned_ns = self.at(call.returned_ns);
        self.tables.add(CallRow {
            error: Some(match made {
                Some(_) => "EINPROGRESS".into(),
                None => "EADDRNOTAVAIL".into(),
            }),
            sock: made.map(|end| end.sock),
            family: 4,
            local_addr: here(),
            local_port: made.map_or(0, |end| end.local.1),
            remote_addr,
            remote_port,
            port_search_ns: Some(call.returned_ns - call.began_ns),
            ..task(call.worker).call(returned_ns, HOST, CallKind::Connect, took_ns)
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
