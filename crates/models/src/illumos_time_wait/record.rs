//! What a recorder on the simulated hosts would have written: connections, refusals, counters.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use recording::tables::{Event, Wait};
use recording::{Addr, EventKind, RetransmitKind, TcpState, Waker};

use super::outcome::Second;
use super::params::Params;
use super::probe::Probe;
use super::sim::{Conn, RESPONSE_BYTES};
use super::time_wait::End;
use crate::tables::{SEGMENT_NS, START_NS, Tables};

/// The namespace of the server's host.
pub(super) const SERVER: u32 = 4_026_531_840;
/// The namespace of hosts that connect from elsewhere.
pub(super) const CLIENTS: u32 = 4_026_532_200;
/// Where the server listens.
pub(super) const PORT: u16 = 3_000;
/// The server's process, which has one thread, and the clients'.
pub(super) const SERVER_PID: u32 = 2_000;
const CLIENT_PID: u32 = 1_000;
/// The listener's socket; those of connections follow.
pub(super) const LISTENER: u64 = 1;
/// Shorter sleeps have no row in `wait`, as a live recorder has it by default.
const LEAST_WAIT_NS: u64 = 10_000_000;
/// TCP header flags.
const SYN: u8 = 2;
const ACK: u8 = 16;
const RST_ACK: u8 = 20;

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    pub(super) p: &'a Params,
    pub(super) tables: &'a mut Tables,
    /// Connections that are there, by id.
    pub(super) open: BTreeMap<u64, Open>,
    /// Connections that ended and times that the server's thread fell asleep, in this second.
    pub(super) closed: u64,
    pub(super) sleeps: u64,
    pub(super) counters: BTreeMap<(u32, &'static str), i64>,
    /// TIME_WAITs that began since the last sample and are still there, by the client's end: the
    /// socket, and the sequence number that it expects.
    pub(super) time_waits: BTreeMap<u64, (u64, End, u32)>,
}

/// A connection, and what is written of it so far.
pub(super) struct Open {
    pub(super) end: End,
    opened_ns: u64,
    /// When its handshake was over for the client.
    pub(super) established_ns: Option<u64>,
    attempts: u32,
    /// Its changes of state so far are rows; else its whole life will be one.
    client_told: bool,
    server_told: bool,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(p: &'a Params, tables: &'a mut Tables) -> Recorder<'a> {
        let mut recorder = Recorder {
            p,
            tables,
            open: BTreeMap::new(),
            closed: 0,
            sleeps: 0,
            counters: BTreeMap::new(),
            time_waits: BTreeMap::new(),
        };
        recorder.begin();
        recorder
    }

    /// Ends the recording.
    pub(super) fn finish(mut self) {
        self.tell_open();
        self.tables.ends(self.p.end_ns());
    }

    pub(super) fn client_netns(&self) -> u32 {
        match self.p.loopback() {
            true => SERVER,
            false => CLIENTS,
        }
    }

    pub(super) fn server_addr(&self) -> Addr {
        Addr::from(match self.p.loopback() {
            true => Ipv4Addr::LOCALHOST,
            false => Ipv4Addr::new(198, 18, 0, 1),
        })
    }

    /// Loopback addresses from 127.0.0.1 on; other hosts in the range set aside for tests.
    pub(super) fn client_addr(&self, nth: u32) -> Addr {
        let (high, low) = ((nth / 250) as u8, (nth % 250) as u8 + 1);
        Addr::from(match self.p.loopback() {
            true => Ipv4Addr::new(127, 0, high, low),
            false => Ipv4Addr::new(198, 18, high + 1, low),
        })
    }

    /// A row of the client's end.
    fn client(&self, id: u64, end: End, at_ns: u64, kind: EventKind) -> Event {
        Event {
            time_ns: START_NS + at_ns,
            kind,
            netns: self.client_netns(),
            sock: Some(LISTENER + 1 + 2 * id),
            family: 4,
            local_addr: self.client_addr(end.address),
            local_port: end.port,
            remote_addr: self.server_addr(),
            remote_port: PORT,
            ..Event::default()
        }
    }

    /// A row of the server's end.
    fn server(&self, id: u64, end: End, at_ns: u64, kind: EventKind) -> Event {
        Event {
            netns: SERVER,
            sock: Some(LISTENER + 2 + 2 * id),
            local_addr: self.server_addr(),
            local_port: PORT,
            remote_addr: self.client_addr(end.address),
            remote_port: end.port,
            ..self.client(id, end, at_ns, kind)
        }
    }

    /// Writes what is not written yet of the client's opening: its life is not one row.
    fn tell_opening(&mut self, id: u64) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut open.client_told, true) {
            return;
        }
        let (end, opened_ns, established) = (open.end, open.opened_ns, open.established_ns);
        let row = self.client(id, end, opened_ns, EventKind::State);
        self.tables.add(Event {
            pid: Some(CLIENT_PID),
            comm: Some("client".into()),
            ..change(row, TcpState::Close, TcpState::SynSent)
        });
        if let Some(at_ns) = established {
            let row = self.client(id, end, at_ns, EventKind::State);
            self.tables.add(Event {
                retransmits: Some(0),
                ..change(row, TcpState::SynSent, TcpState::Established)
            });
        }
    }

    /// Writes what is there of every open connection: a segment, or the recording, ends.
    fn tell_open(&mut self) {
        let ids: Vec<u64> = self.open.keys().copied().collect();
        for id in ids {
            self.tell_opening(id);
            let delay_ns = self.p.delay_ns();
            let Some(open) = self.open.get_mut(&id) else {
                continue;
            };
            let untold = open.established_ns.filter(|_| !open.server_told);
            let Some(at_ns) = untold else {
                continue;
            };
            open.server_told = true;
            let end = open.end;
            let row = self.server(id, end, at_ns + delay_ns, EventKind::State);
            self.tables.add(Event {
                retransmits: Some(0),
                ..change(row, TcpState::SynRecv, TcpState::Established)
            });
        }
    }
}

impl Probe for Recorder<'_> {
    fn opened(&mut self, conn: &Conn) {
        let open = Open {
            end: conn.end,
            opened_ns: conn.opened_ns,
            established_ns: None,
            attempts: 0,
            client_told: false,
            server_told: false,
        };
        self.open.insert(conn.id, open);
    }

    fn refused(&mut self, conn: &Conn, now_ns: u64) {
        self.time_waits.remove(&conn.end.key());
        self.tell_opening(conn.id);
        let delay_ns = self.p.delay_ns();
        let syn = self.server(conn.id, conn.end, now_ns + delay_ns, EventKind::Drop);
        self.tables.add(Event {
            sock: None,
            state: Some(TcpState::TimeWait),
            location: Some("tcp_time_wait_processing".into()),
            flags: Some(SYN),
            seq: Some(conn.iss),
            ..syn
        });
        let reset = self.client(
            conn.id,
            conn.end,
            now_ns + 2 * delay_ns,
            EventKind::ResetSent,
        );
        self.tables.add(Event {
            state: Some(TcpState::SynSent),
            reason: Some("TCPS_SYN_SENT-Bad_seq".into()),
            flags: Some(ACK),
            ..reset
        });
    }

    fn rejected(&mut self, conn: &Conn, now_ns: u64) {
        self.tell_opening(conn.id);
        self.open.remove(&conn.id);
        let delay_ns = self.p.delay_ns();
        let sent = self.server(conn.id, conn.end, now_ns + delay_ns, EventKind::ResetSent);
        self.tables.add(Event {
            sock: None,
            state: Some(TcpState::TimeWait),
            flags: Some(SYN),
            seq: Some(conn.iss),
            ..sent
        });
        let back_ns = now_ns + 2 * delay_ns;
        let received = self.client(conn.id, conn.end, back_ns, EventKind::ResetReceived);
        self.tables.add(Event {
            state: Some(TcpState::SynSent),
            flags: Some(RST_ACK),
            ..received
        });
        let failed = self.client(conn.id, conn.end, back_ns, EventKind::State);
        self.tables
            .add(change(failed, TcpState::SynSent, TcpState::Close));
    }

    fn resent(&mut self, conn: &Conn, now_ns: u64) {
        if let Some(open) = self.open.get_mut(&conn.id) {
            open.attempts = conn.attempt;
        }
        let syn = self.client(conn.id, conn.end, now_ns, EventKind::Retransmit);
        self.tables.add(Event {
            state: Some(TcpState::SynSent),
            retransmit_kind: Some(RetransmitKind::Rto),
            attempt: Some(conn.attempt),
            flags: Some(SYN),
            seq: Some(conn.iss),
            ..syn
        });
    }

    fn established(&mut self, conn: &Conn, now_ns: u64) {
        self.time_waits.remove(&conn.end.key());
        let at_ns = now_ns + 2 * self.p.delay_ns();
        let Some(open) = self.open.get_mut(&conn.id) else {
            return;
        };
        open.established_ns = Some(at_ns);
        if open.client_told {
            let retransmits = Some(open.attempts);
            let row = self.client(conn.id, conn.end, at_ns, EventKind::State);
            self.tables.add(Event {
                retransmits,
                ..change(row, TcpState::SynSent, TcpState::Established)
            });
        }
    }

    fn woken(&mut self, conn: &Conn, at_ns: u64, slept_ns: u64) {
        self.sleeps += 1;
        if slept_ns < LEAST_WAIT_NS {
            return;
        }
        let resent = conn.attempt > 0;
        // Over loopback the sender's own processing reaches the receiver: a timer's, or a thread's.
        let (waker, waker_pid) = match (self.p.loopback(), resent) {
            (true, true) => (Waker::Timer, 0),
            (true, false) => (Waker::Task, CLIENT_PID),
            (false, _) => (Waker::Softirq, 0),
        };
        let wait = Wait {
            time_ns: START_NS + at_ns,
            pid: SERVER_PID,
            tid: SERVER_PID,
            comm: "server".into(),
            netns: SERVER,
            state: "S".into(),
            syscall: Some("portfs".into()),
            waited_ns: slept_ns,
            runqueue_ns: Some(0),
            waker,
            waker_pid,
            waker_tid: waker_pid,
            waker_comm: if waker_pid > 0 { "client" } else { "" }.into(),
            cause_sock: Some(LISTENER + 2 + 2 * conn.id),
            cause_family: 4,
            cause_local_addr: self.server_addr(),
            cause_local_port: PORT,
            cause_remote_addr: self.client_addr(conn.end.address),
            cause_remote_port: conn.end.port,
            cause_attempt: Some(conn.attempt),
            cause_sender_state: resent.then_some(TcpState::SynSent),
            cause_answer: resent.then_some(false),
            cause_sent_ago_ns: resent.then(|| 3 * self.p.delay_ns()),
            ..Wait::default()
        };
        self.tables.add(wait);
    }

    fn closed(&mut self, conn: &Conn, _server_ns: u64, now_ns: u64) {
        self.closed += 1;
        let Some(open) = self.open.remove(&conn.id) else {
            return;
        };
        if self.p.leaves_time_wait() {
            let expected = conn.after(conn.iss, self.p.request_bytes);
            let sock = LISTENER + 2 + 2 * conn.id;
            self.time_waits
                .insert(conn.end.key(), (sock, conn.end, expected));
        }
        let delay_ns = self.p.delay_ns();
        let received = u64::from(conn.requests) * u64::from(self.p.request_bytes);
        let sent = u64::from(conn.requests) * u64::from(RESPONSE_BYTES);
        let life = |told: bool| !told && open.established_ns.is_some();
        let row = self.client(conn.id, conn.end, now_ns, EventKind::State);
        let whole = life(open.client_told);
        self.tables.add(Event {
            pid: whole.then_some(CLIENT_PID),
            comm: whole.then(|| "client".into()),
            connect_ns: whole.then_some(START_NS + open.opened_ns),
            established_ns: open.established_ns.filter(|_| whole).map(|t| START_NS + t),
            retransmits: Some(open.attempts),
            bytes_acked: Some(received),
            bytes_received: Some(sent),
            ..change(row, TcpState::LastAck, TcpState::Close)
        });
        // The server is in TIME_WAIT once the client's FIN has come.
        let row = self.server(conn.id, conn.end, now_ns + delay_ns, EventKind::State);
        let whole = life(open.server_told);
        let established = open.established_ns.filter(|_| whole);
        self.tables.add(Event {
            established_ns: established.map(|t| START_NS + t + delay_ns),
            retransmits: Some(0),
            bytes_acked: Some(sent),
            bytes_received: Some(received),
            ..change(row, TcpState::FinWait2, TcpState::Close)
        });
    }

    fn second(&mut self, now_ns: u64, second: &Second) {
        self.sample(now_ns, second);
        if now_ns.is_multiple_of(SEGMENT_NS) {
            self.tell_open();
            self.tables.seal();
        }
    }
}

fn change(row: Event, from: TcpState, to: TcpState) -> Event {
    Event {
        old_state: Some(from),
        state: Some(to),
        ..row
    }
}
