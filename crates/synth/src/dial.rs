//! One connection and its fate, as the rows that both of its ends leave.

use recording::tables::{Event, Socket};
use recording::{EventKind, RetransmitKind, TcpState};

use crate::fixture::at_ms;
use crate::{ACK, CLIENT, End, Fixture, Opening, RST_ACK, SERVER, SYN, Task, place};

/// Segment size of Ethernet with timestamps, bytes.
const MSS: u32 = 1_448;
/// Who connects.
const CLIENT_TASK: Task = Task::new(77, "wrk");

/// A connection to make.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Namespace of the client; `None` when it is on another host.
    pub client: Option<u32>,
    /// Namespace of the server; `None` when it is on another host.
    pub server: Option<u32>,
    /// The client's address and port.
    pub from: String,
    /// The server's.
    pub to: &'static str,
    /// When connect() is called, ms from the start.
    pub at_ms: f64,
    /// How long it takes, ms.
    pub took_ms: f64,
    /// What becomes of it.
    pub fate: Fate,
    /// SYNs retransmitted.
    pub retries: u32,
    /// Segments that the client retransmits once it is established.
    pub resends: u32,
    /// Made from a SYN cookie.
    pub cookie: Option<bool>,
    /// SACK, window scaling, timestamps.
    pub options: [bool; 3],
    /// Round trip, µs.
    pub rtt_us: u32,
    /// Bytes that the client sends.
    pub sends: u64,
    /// At this rate, bytes/s.
    pub rate: u64,
    /// Its congestion window.
    pub cwnd: u32,
    /// Share of the busy time that it waits for the window.
    pub rwnd_share: f64,
    /// When it ends, ms from the start; `None` when it outlives the recording.
    pub ends_ms: Option<f64>,
    /// Both ends were established before the recording began: no events.
    pub older: bool,
    /// The listener's socket is IPv6 and the connection IPv4.
    pub mapped: bool,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Both ends are established.
    Established,
    /// A reset answers.
    Refused,
    /// Nothing answers.
    Unanswered,
    /// It fails with this error, which no reset brought.
    Fails(&'static str),
    /// The client is established, the server has dropped its last ACK.
    Ghost,
}

impl Default for Dial {
    fn default() -> Dial {
        Dial {
            client: Some(CLIENT),
            server: Some(SERVER),
            from: "10.79.0.2:40000".into(),
            to: "10.79.0.1:5000",
            at_ms: 100.0,
            took_ms: 10.4,
            fate: Fate::Established,
            retries: 0,
            resends: 0,
            cookie: Some(false),
            options: [true, true, true],
            rtt_us: 10_400,
            sends: 0,
            rate: 1_000_000,
            cwnd: 10,
            rwnd_share: 0.0,
            ends_ms: None,
            older: false,
            mapped: false,
        }
    }
}

impl Fixture {
    /// A connection, or the attempt to make one.
    pub fn dial(&mut self, dial: Dial) {
        dial.rows(self);
    }
}

impl Dial {
    /// Writes its rows; its ends on this host, the client's first.
    pub(crate) fn rows(&self, fixture: &mut Fixture) -> [Option<End>; 2] {
        let (from, from_port, _) = place(&self.from);
        let (to, to_port, family) = place(self.to);
        let nth = fixture.events.len() as u64 + fixture.sockets.len() as u64;
        let sock = 0xffff_8880_0000_0000 + nth * 4_096;
        let end = End {
            netns: 0,
            sock,
            family,
            local: (from, from_port),
            remote: (to, to_port),
        };
        let client = self.client.map(|netns| End { netns, ..end });
        let server = self.server.map(|netns| End {
            family: if self.mapped { 6 } else { family },
            ..end.peer(netns, sock + 2_048)
        });
        if !self.older {
            if let Some(client) = &client {
                self.client_events(client, &mut fixture.events);
            }
            if let Some(server) = &server {
                self.server_events(server, &mut fixture.events);
            }
        }
        if self.fate == Fate::Established && (self.sends > 0 || self.older) {
            let client = client.map(|end| self.sample(&end, true));
            let server = server.map(|end| self.sample(&end, false));
            fixture.sockets.extend(client.into_iter().chain(server));
        }
        [client, server]
    }

    fn opening(&self, retransmits: u32) -> Opening {
        let [sack, window_scaling, timestamps] = self.options;
        Opening {
            sack,
            window_scaling,
            timestamps,
            mss: MSS,
            rtt_us: self.rtt_us,
            retransmits,
        }
    }

    fn client_events(&self, end: &End, events: &mut Vec<Event>) {
        let done = self.at_ms + self.took_ms;
        let retransmit =
            |ms, state, attempt| end.retransmit(at_ms(ms), state, RetransmitKind::Rto, attempt);
        events.push(end.unbound().connect(at_ms(self.at_ms), CLIENT_TASK));
        events.extend((1..=self.retries).map(|attempt| {
            let ms = self.at_ms + 1_000.0 * f64::from(attempt);
            retransmit(ms, TcpState::SynSent, attempt)
        }));
        match self.fate {
            Fate::Established | Fate::Ghost => {
                let opening = self.opening(self.retries);
                events.push(end.established(at_ms(done), TcpState::SynSent, opening));
                events.extend((1..=self.resends).map(|attempt| {
                    let ms = done + 200.0 * f64::from(attempt);
                    retransmit(ms, TcpState::Established, attempt)
                }));
                events.extend(self.close(end, TcpState::FinWait2, true));
            }
            Fate::Refused => {
                events.push(Event {
                    state: Some(TcpState::SynSent),
                    flags: Some(RST_ACK),
                    ..end.event(at_ms(done), EventKind::ResetReceived)
                });
                events.push(end.change(at_ms(done), TcpState::SynSent, TcpState::Close));
            }
            Fate::Fails(error) => events.push(Event {
                error: Some(error.into()),
                ..end.change(at_ms(done), TcpState::SynSent, TcpState::Close)
            }),
            Fate::Unanswered => events.extend(
                self.ends_ms
                    .map(|ms| end.change(at_ms(ms), TcpState::SynSent, TcpState::Close)),
            ),
        }
    }

    fn server_events(&self, end: &End, events: &mut Vec<Event>) {
        let done = self.at_ms + self.took_ms + 0.01;
        match self.fate {
            Fate::Established => {
                events.push(Event {
                    cookie: self.cookie,
                    ..end.established(at_ms(done), TcpState::SynRecv, self.opening(0))
                });
                events.extend(self.close(end, TcpState::LastAck, false));
            }
            Fate::Refused => {
                for kind in [EventKind::Drop, EventKind::ResetSent] {
                    events.push(Event {
                        reason: Some("NO_SOCKET".into()),
                        location: Some("tcp_v4_rcv".into()),
                        seq: Some(1),
                        ..end.stray(at_ms(done - 0.02), kind, SYN)
                    });
                }
            }
            Fate::Ghost => events.push(Event {
                state: Some(TcpState::Listen),
                reason: Some("TCP_LISTEN_OVERFLOW".into()),
                location: Some("tcp_v4_rcv".into()),
                ..end.stray(at_ms(done), EventKind::Drop, ACK)
            }),
            Fate::Unanswered | Fate::Fails(_) => {}
        }
    }

    /// Bytes that an end has sent, and received.
    fn bytes(&self, sends: bool) -> [u64; 2] {
        if sends {
            [self.sends, 0]
        } else {
            [0, self.sends]
        }
    }

    fn cwnd(&self, sends: bool) -> u32 {
        if sends { self.cwnd } else { Opening::WINDOW }
    }

    fn close(&self, end: &End, from: TcpState, sends: bool) -> Option<Event> {
        let [sent, received] = self.bytes(sends);
        self.ends_ms.map(|ms| Event {
            rtt_us: Some(self.rtt_us),
            cwnd: Some(self.cwnd(sends)),
            retransmits: Some(if sends { self.retries } else { 0 }),
            bytes_acked: Some(sent),
            bytes_received: Some(received),
            ..end.change(at_ms(ms), from, TcpState::Close)
        })
    }

    /// The sample after it has sent everything.
    fn sample(&self, end: &End, sends: bool) -> Socket {
        let [sack, window_scaling, timestamps] = self.options;
        let [sent, received] = self.bytes(sends);
        let sending_us = self.sends * 1_000_000 / self.rate.max(1);
        let busy_us = if sends { sending_us } else { 0 };
        let began = self.at_ms + self.took_ms;
        let window = if window_scaling { 3_000_000 } else { 65_535 };
        let time_ns = at_ms(began + sending_us as f64 / 1e3);
        Socket {
            inode: Some(end.sock),
            congestion: Some("cubic".into()),
            sack: Some(sack),
            window_scaling: Some(window_scaling),
            timestamps: Some(timestamps),
            snd_mss: Some(MSS),
            rtt_us: Some(self.rtt_us),
            cwnd: Some(self.cwnd(sends)),
            snd_wnd: Some(window),
            rcv_wnd: Some(window),
            bytes_acked: Some(sent),
            bytes_received: Some(received),
            busy_us: Some(busy_us),
            rwnd_limited_us: Some((busy_us as f64 * self.rwnd_share) as u64),
            ..end.sample(time_ns, TcpState::Established)
        }
    }
}
