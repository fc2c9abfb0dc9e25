//! What a recorder on the simulated hosts would have written: connections, refusals, counters.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use recording::tables::{Event, Wait};
use recording::{Addr, EventKind, RetransmitKind, TcpState, Waker};
use synth::{ACK, Counters, End, HOST, LEAST_NS, Life, RST_ACK, SYN, Sink, Tables, Task};

use super::conn::Conn;
use super::observer::Observer;
use super::outcome::Second;
use super::params::Params;
use super::sim::RESPONSE_BYTES;
use crate::clock::{SEGMENT_NS, START_NS};

/// The namespace of the server's host.
pub(super) const SERVER: u32 = HOST;
/// The namespace of hosts that connect from elsewhere.
pub(super) const CLIENTS: u32 = 4_026_532_200;
/// Where the server listens.
pub(super) const PORT: u16 = 3_000;
/// The server, which has one thread.
pub(super) const SERVER_TASK: Task = Task::new(2_000, "server");
/// Who connects.
const CLIENT_TASK: Task = Task::new(1_000, "client");
/// The listener's socket; those of connections follow.
pub(super) const LISTENER: u64 = 1;

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    pub(super) p: &'a Params,
    pub(super) tables: &'a mut Tables,
    /// Connections that are there, by id.
    pub(super) open: BTreeMap<u64, Open>,
    /// Connections that ended and times that the server's thread fell asleep, in this second.
    pub(super) closed: u64,
    pub(super) sleeps: u64,
    /// CPU time of the server.
    pub(super) user_ms: u64,
    pub(super) counters: Counters,
    /// TIME_WAITs that began since the last sample and are still there, by the client's end: the
    /// server's, and the sequence number that it expects.
    pub(super) time_waits: BTreeMap<u64, (End, u32)>,
}

/// A connection.
pub(super) struct Open {
    pub(super) client: Life,
    /// From its establishment on.
    server: Option<Life>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(p: &'a Params, tables: &'a mut Tables) -> Recorder<'a> {
        let mut recorder = Recorder {
            p,
            tables,
            open: BTreeMap::new(),
            closed: 0,
            sleeps: 0,
            user_ms: 0,
            counters: Counters::default(),
            time_waits: BTreeMap::new(),
        };
        recorder.begin();
        recorder
    }

    /// Ends the recording.
    pub(super) fn finish(mut self) {
        self.tell_open();
        self.tables.manifest.end_ns = START_NS + self.p.end_ns();
    }

    pub(super) fn client_netns(&self) -> u32 {
        if self.p.loopback() { SERVER } else { CLIENTS }
    }

    pub(super) fn server_addr(&self) -> Addr {
        Addr::from(if self.p.loopback() {
            Ipv4Addr::LOCALHOST
        } else {
            Ipv4Addr::new(198, 18, 0, 1)
        })
    }

    /// Loopback addresses from 127.0.0.1 on; other hosts in the range set aside for tests.
    pub(super) fn client_addr(&self, nth: u32) -> Addr {
        let (high, low) = ((nth / 250) as u8, (nth % 250) as u8 + 1);
        Addr::from(if self.p.loopback() {
            Ipv4Addr::new(127, 0, high, low)
        } else {
            Ipv4Addr::new(198, 18, high + 1, low)
        })
    }

    fn client(&self, conn: &Conn) -> End {
        End {
            netns: self.client_netns(),
            sock: LISTENER + 1 + 2 * conn.id,
            family: 4,
            local: (self.client_addr(conn.end.address), conn.end.port),
            remote: (self.server_addr(), PORT),
        }
    }

    fn server(&self, conn: &Conn) -> End {
        self.client(conn).peer(SERVER, LISTENER + 2 + 2 * conn.id)
    }

    /// When the server's part of what happens now does, and the client's after that.
    fn after(&self, now_ns: u64) -> (u64, u64) {
        let delay_ns = self.p.delay_ns();
        let at_server = START_NS + now_ns + delay_ns;
        (at_server, at_server + delay_ns)
    }

    /// Something is told of the client: its life is not one row.
    fn tell_opening(&mut self, id: u64) {
        if let Some(open) = self.open.get_mut(&id) {
            self.tables.extend(open.client.tell());
        }
    }

    /// Writes what is there of every open connection: a segment, or the recording, ends.
    fn tell_open(&mut self) {
        for open in self.open.values_mut() {
            self.tables.extend(open.client.tell());
            let server = open.server.as_mut();
            self.tables.extend(server.into_iter().flat_map(Life::tell));
        }
    }
}

impl Observer for Recorder<'_> {
    fn opened(&mut self, conn: &Conn) {
        let opened_ns = START_NS + conn.opened_ns;
        let open = Open {
            client: Life::connects(self.client(conn), CLIENT_TASK, opened_ns),
            server: None,
        };
        self.open.insert(conn.id, open);
    }

    fn refused(&mut self, conn: &Conn, now_ns: u64) {
        self.time_waits.remove(&conn.end.key());
        self.tell_opening(conn.id);
        let (client, server) = (self.client(conn), self.server(conn));
        let (at_server, at_client) = self.after(now_ns);
        self.tables.add(Event {
            state: Some(TcpState::TimeWait),
            location: Some("tcp_time_wait_processing".into()),
            seq: Some(conn.iss),
            ..server.stray(at_server, EventKind::Drop, SYN)
        });
        self.tables.add(Event {
            state: Some(TcpState::SynSent),
            reason: Some("TCPS_SYN_SENT-Bad_seq".into()),
            flags: Some(ACK),
            ..client.event(at_client, EventKind::ResetSent)
        });
    }

    fn rejected(&mut self, conn: &Conn, now_ns: u64) {
        self.tell_opening(conn.id);
        self.open.remove(&conn.id);
        let (client, server) = (self.client(conn), self.server(conn));
        let (at_server, at_client) = self.after(now_ns);
        self.tables.add(Event {
            state: Some(TcpState::TimeWait),
            seq: Some(conn.iss),
            ..server.stray(at_server, EventKind::ResetSent, SYN)
        });
        self.tables.add(Event {
            state: Some(TcpState::SynSent),
            flags: Some(RST_ACK),
            ..client.event(at_client, EventKind::ResetReceived)
        });
        self.tables
            .add(client.change(at_client, TcpState::SynSent, TcpState::Close));
    }

    fn resent(&mut self, conn: &Conn, now_ns: u64) {
        if let Some(open) = self.open.get_mut(&conn.id) {
            open.client.retransmits = conn.attempt;
        }
        let (client, at_ns) = (self.client(conn), START_NS + now_ns);
        let (state, kind) = (TcpState::SynSent, RetransmitKind::Rto);
        self.tables.add(Event {
            flags: Some(SYN),
            seq: Some(conn.iss),
            ..client.retransmit(at_ns, state, kind, conn.attempt)
        });
    }

    fn established(&mut self, conn: &Conn, now_ns: u64) {
        self.time_waits.remove(&conn.end.key());
        let (_, at_client) = self.after(now_ns);
        let server = Life::accepted(self.server(conn), at_client + self.p.delay_ns());
        if let Some(open) = self.open.get_mut(&conn.id) {
            open.server = Some(server);
            self.tables.extend(open.client.establish(at_client));
        }
    }

    fn woken(&mut self, conn: &Conn, at_ns: u64, slept_ns: u64) {
        self.sleeps += 1;
        if slept_ns < LEAST_NS {
            return;
        }
        let resent = conn.attempt > 0;
        let nobody = Task::new(0, "");
        // Over loopback the sender's own processing reaches the receiver: a timer's, or a thread's.
        let (waker, by) = match (self.p.loopback(), resent) {
            (true, true) => (Waker::Timer, nobody),
            (true, false) => (Waker::Task, CLIENT_TASK),
            (false, _) => (Waker::Softirq, nobody),
        };
        let cause = self.server(conn);
        self.tables.add(Wait {
            state: "S".into(),
            syscall: Some("portfs".into()),
            waker,
            waker_pid: by.pid,
            waker_tid: by.pid,
            waker_comm: by.comm.into(),
            cause_sock: Some(cause.sock),
            cause_family: cause.family,
            cause_local_addr: cause.local.0,
            cause_local_port: cause.local.1,
            cause_remote_addr: cause.remote.0,
            cause_remote_port: cause.remote.1,
            cause_attempt: Some(conn.attempt),
            cause_sender_state: resent.then_some(TcpState::SynSent),
            cause_answer: resent.then_some(false),
            cause_sent_ago_ns: resent.then(|| 3 * self.p.delay_ns()),
            ..SERVER_TASK.wait(START_NS + at_ns, SERVER, slept_ns)
        });
    }

    fn closed(&mut self, conn: &Conn, _server_ns: u64, now_ns: u64) {
        self.closed += 1;
        let Some(open) = self.open.remove(&conn.id) else {
            return;
        };
        if self.p.leaves_time_wait() {
            let expected = conn.after(conn.iss, self.p.request_bytes);
            let server = self.server(conn);
            self.time_waits.insert(conn.end.key(), (server, expected));
        }
        let requests = u64::from(conn.requests) * u64::from(self.p.request_bytes);
        let responses = u64::from(conn.requests) * u64::from(RESPONSE_BYTES);
        let bytes = [requests, responses];
        let row = open
            .client
            .close(START_NS + now_ns, TcpState::LastAck, bytes);
        self.tables.add(row);
        // The server is in TIME_WAIT once the client's FIN has come.
        let (at_server, _) = self.after(now_ns);
        let bytes = [responses, requests];
        let server = open.server;
        let row = server.map(|life| life.close(at_server, TcpState::FinWait2, bytes));
        self.tables.extend(row);
    }

    fn second(&mut self, now_ns: u64, second: &Second) {
        self.sample(now_ns, second);
        if now_ns.is_multiple_of(SEGMENT_NS) {
            self.tell_open();
            self.tables.seal();
        }
    }
}
