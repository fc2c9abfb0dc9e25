//! `stat sockets`: connections with all that the kernel knows of them, as `ss -tin` shows it; those in
//! TIME_WAIT as a count.

use std::collections::BTreeMap;
use std::io;

use analysis::owners::{Owner, Owners, Place};
use analysis::words::count;
use recording::tables::Socket;
use recording::{Addr, Filter, Row, Table, TcpState};

use super::detail::{Derived, words};
use super::rounds::Sampler;
use crate::columns::{Unit, Value, columns, heads, json, left, right, row};
use crate::numbers::endpoint;
use crate::screen::Screen;

/// A connection: a sample of it, whose it is, and what it did since the sample before, where that is known.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    pub(crate) row: Box<Socket>,
    pub(crate) owner: Owner,
    pub(crate) since: Option<Since>,
    /// It has not been accepted yet.
    pub(crate) unaccepted: bool,
}

/// What a connection did between two samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    /// Segments that it retransmitted.
    pub(crate) retrans: u32,
    /// Bits a second, both directions.
    pub(crate) bits_per_s: Option<u64>,
}

columns! {
    Sampled = "socket" {
        text STATE RECVQ SENDQ LOCAL REMOTE PID COMM NETNS;
        json TIME PID COMM NETNS ROW SEND_RATE DELIVERY_RATE PACING_RATIO RWND_LIMITED SNDBUF_LIMITED;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.row.time_ns);
    ROW: row(Socket::INFO) => |l, _| Value::Row(l.row.cells());
    /// State of the connection.
    STATE: left("STATE", 11, &["state"], Unit::Name) => |l, _| (&l.row.state).into();
    /// Bytes that the application has not read.
    RECVQ: right("RECV-Q", 7, &["recv_queue"], Unit::Bytes) => |l, _| l.row.recv_queue.into();
    /// Bytes that the other end has not acknowledged.
    SENDQ: right("SEND-Q", 7, &["send_queue"], Unit::Bytes) => |l, _| l.row.send_queue.into();
    LOCAL: heads::LOCAL => |l, _| Value::Endpoint(l.row.local_addr, l.row.local_port);
    REMOTE: heads::REMOTE => |l, _| Value::Endpoint(l.row.remote_addr, l.row.remote_port);
    /// Process that holds it; none until it is accepted.
    PID: heads::PID => |l, _| l.owner.pid.into();
    COMM: heads::COMM => |l, _| l.owner.comm.as_ref().into();
    NETNS: heads::NETNS => |l, _| Value::Netns(l.row.netns);
    /// Cwnd × mss ÷ rtt: what the window lets through, as `ss` computes it.
    SEND_RATE: json(&["send_bits_per_s"], Unit::BitsPerSecond) => |l, _| Derived::of(&l.row).send_bits_per_s.into();
    /// Segments delivered in the last rate sample ÷ its time.
    DELIVERY_RATE: json(&["delivery_bits_per_s"], Unit::BitsPerSecond)
        => |l, _| Derived::of(&l.row).delivery_bits_per_s.into();
    /// Pacing rate ÷ send rate; Linux means 2 in slow start and 1.2 after it.
    PACING_RATIO: json(&["pacing_ratio"], Unit::Ratio) => |l, _| Derived::of(&l.row).pacing_ratio.into();
    /// Share of the busy time that waited for the peer's window.
    RWND_LIMITED: json(&["rwnd_limited_percent"], Unit::Percent)
        => |l, _| Derived::of(&l.row).rwnd_limited_percent.into();
    /// Share of the busy time that waited for the send buffer.
    SNDBUF_LIMITED: json(&["sndbuf_limited_percent"], Unit::Percent)
        => |l, _| Derived::of(&l.row).sndbuf_limited_percent.into();
}

/// Lines come as the rows do: a snapshot may hold any number of sockets.
pub(super) struct Sockets {
    owners: Owners,
    every_ns: u64,
    /// Time of the round that was shown last.
    shown_ns: Option<u64>,
    /// Whether the round is shown; `None` before its first row.
    showing: Option<bool>,
    /// Also each that is in TIME_WAIT. JSON has them all.
    all: bool,
    waiting: Waiting,
}

/// Where sockets in TIME_WAIT are kept apart; further ones are counted together.
const MAX_PLACES: usize = 1 << 12;
/// How many of these places are shown.
const PLACES_SHOWN: usize = 10;

/// Sockets in TIME_WAIT: how many of each listener, and to each destination.
#[derive(Debug, Default)]
struct Waiting {
    places: BTreeMap<(u32, bool, Addr, u16), u64>,
    elsewhere: u64,
    /// Those whose listener was not known yet: listeners are sampled after sockets.
    unplaced: Vec<(Place, (Addr, u16))>,
}

/// Sockets that may wait for their listener to be sampled.
const MAX_UNPLACED: usize = 1 << 16;

impl Waiting {
    fn add(&mut self, s: &Socket, owners: &Owners) {
        let (local, remote) = ((s.local_addr, s.local_port), (s.remote_addr, s.remote_port));
        let listener = owners.listening_place(s.netns, local.0, local.1);
        if listener.is_none() && self.unplaced.len() < MAX_UNPLACED {
            self.unplaced.push(((s.netns, local.0, local.1), remote));
        } else {
            self.count(s.netns, listener, remote);
        }
    }

    fn count(&mut self, netns: u32, listener: Option<Place>, remote: (Addr, u16)) {
        let place = match listener {
            Some((netns, addr, port)) => (netns, true, addr, port),
            None => (netns, false, remote.0, remote.1),
        };
        if self.places.len() >= MAX_PLACES && !self.places.contains_key(&place) {
            self.elsewhere += 1;
        } else {
            *self.places.entry(place).or_default() += 1;
        }
    }

    /// A line for each place, the fullest first.
    fn show(&mut self, owners: &Owners, screen: &mut Screen) -> io::Result<()> {
        for ((netns, addr, port), remote) in std::mem::take(&mut self.unplaced) {
            self.count(netns, owners.listening_place(netns, addr, port), remote);
        }
        let Waiting {
            places, elsewhere, ..
        } = std::mem::take(self);
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        for ((netns, listens, addr, port), n) in places.iter().take(PLACES_SHOWN) {
            let of = if *listens { "of the listener" } else { "to" };
            let netns = screen.how.netns(*netns);
            screen.more(&format!(
                "TIME_WAIT {:>9} {of} {} ({netns})",
                count(*n),
                endpoint(*addr, *port)
            ))?;
        }
        let further = places.iter().skip(PLACES_SHOWN);
        let further = further.fold(elsewhere, |sum, (_, n)| sum.saturating_add(*n));
        match further {
            0 => Ok(()),
            n => screen.more(&format!("TIME_WAIT {:>9} elsewhere", count(n))),
        }
    }
}

impl Sockets {
    pub(super) fn new(all: bool, every_ns: u64) -> Sockets {
        Sockets {
            owners: Owners::default(),
            every_ns,
            shown_ns: None,
            showing: None,
            all,
            waiting: Waiting::default(),
        }
    }

    /// Whether the round that begins now is shown.
    fn open(&mut self, time_ns: u64) -> bool {
        let least = self.every_ns - self.every_ns / 10;
        let since = |shown| time_ns.saturating_sub(shown);
        let showing = self.shown_ns.is_none_or(|shown| since(shown) >= least);
        if showing {
            self.shown_ns = Some(time_ns);
        }
        showing
    }
}

impl Sampler for Sockets {
    /// Namespace and socket.
    type Key = (u32, u64);

    fn tables(&self) -> Vec<&'static str> {
        vec!["socket", "listener", "holder"]
    }

    fn key(&mut self, row: &Row, filter: &Filter) -> Option<Self::Key> {
        self.owners.learn(row);
        match row {
            Row::Socket(s) => filter.netns_ok(s.netns).then_some((s.netns, s.sock)),
            _ => None,
        }
    }

    fn add(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        let Row::Socket(row) = row else { return Ok(()) };
        let showing = match self.showing {
            Some(showing) => showing,
            None => self.open(row.time_ns),
        };
        self.showing = Some(showing);
        let owner = self.owners.of_socket(&row);
        let f = &screen.how.filter;
        let asked = f.ports_ok(row.local_port, row.remote_port)
            && f.addrs_ok(row.local_addr, row.remote_addr)
            && owner.passes(f);
        if !showing || !asked {
            return Ok(());
        }
        if row.state == TcpState::TimeWait && !self.all && !screen.is_json() {
            self.waiting.add(&row, &self.owners);
            return Ok(());
        }
        let line = Sampled {
            row,
            owner,
            since: None,
            unaccepted: false,
        };
        screen.show(&line)?;
        let words = words(&line.row, &Derived::of(&line.row));
        if screen.is_json() || words.is_empty() {
            return Ok(());
        }
        let width = screen.how.width.unwrap_or(usize::MAX).max(20);
        for line in crate::wrap::wrap(&words, width - 8, width - 8) {
            screen.more(&format!("        {line}"))?;
        }
        Ok(())
    }

    fn close(&mut self, _: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        if self.showing.take() == Some(true) {
            self.waiting.show(&self.owners, screen)?;
            screen.end_report();
        }
        Ok(())
    }
}
