//! `trace timeline`: all that happened to connections, in order: changes of state, control packets with their
//! options, retransmissions, resets, drops, and system calls.

use std::io;

use ahash::AHashSet;
use analysis::attempts::{Tuple, tuple};
use analysis::flags::{ACK, SYN};
use analysis::owners::{self, Owner, Owners};
use analysis::words::duration;
use recording::tables::{Call, Event, Packet};
use recording::{Addr, EventKind, Filter, Row, TcpState};

use super::handshakes::options;
use super::retransmits::kind;
use crate::columns::{Unit, Value, columns, heads, json, left};
use crate::numbers::flags;
use crate::screen::Screen;
use crate::view::View;

/// Connections whose owner was asked for, remembered for their packets, which have none.
const MAX_ASKED: usize = 1 << 16;

/// Something that happened to a connection.
pub(crate) struct Moment {
    time_ns: u64,
    tuple: Tuple,
    owner: Owner,
    way: &'static str,
    kind: &'static str,
    says: String,
    packet: Option<Packet>,
}

columns! {
    Moment = "moment" {
        text TIME PID COMM LOCAL WAY REMOTE WHAT;
        json TIME PID COMM NETNS LOCAL WAY REMOTE KIND WHAT FLAGS SEQ ACKED MSS WINDOW_SCALE SACK TSVAL TSECR;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.time_ns);
    PID: heads::PID => |l, _| l.owner.pid.into();
    COMM: heads::COMM => |l, _| l.owner.comm.as_ref().into();
    NETNS: heads::NETNS => |l, _| Value::Netns(l.tuple.0);
    LOCAL: heads::LOCAL => |l, _| Value::Endpoint(l.tuple.1.0, l.tuple.1.1);
    /// `->` a packet that leaves, `<-` one that comes in.
    WAY: left("", 2, &["way"], Unit::Words) => |l, _| l.way.into();
    REMOTE: heads::REMOTE => |l, _| Value::Endpoint(l.tuple.2.0, l.tuple.2.1);
    /// What happened, in words.
    WHAT: left("WHAT", 1, &["what"], Unit::Words) => |l, _| (&*l.says).into();
    /// `packet`, `call`, or the kind of the event.
    KIND: json(&["kind"], Unit::Name) => |l, _| l.kind.into();
    /// Of a packet: its TCP flags, as a byte.
    FLAGS: json(&["flags"], Unit::Id) => |l, _| l.packet.as_ref().map(|p| u64::from(p.flags)).into();
    /// Its sequence number.
    SEQ: json(&["seq"], Unit::Seq) => |l, _| l.packet.as_ref().map(|p| u64::from(p.seq)).into();
    /// What it acknowledges.
    ACKED: json(&["ack"], Unit::Seq) => |l, _| l.packet.as_ref().map(|p| u64::from(p.ack)).into();
    /// The segment size that it offers.
    MSS: json(&["mss_bytes"], Unit::Bytes) => |l, _| l.packet.as_ref().and_then(|p| p.mss).map(u64::from).into();
    /// The window scaling that it offers: the shift.
    WINDOW_SCALE: json(&["window_scale"], Unit::Count)
        => |l, _| l.packet.as_ref().and_then(|p| p.window_scale).map(u64::from).into();
    /// Whether it permits SACK.
    SACK: json(&["sack_permitted"], Unit::Flag) => |l, _| l.packet.as_ref().map(|p| p.sack_permitted).into();
    /// Its timestamp.
    TSVAL: json(&["tsval"], Unit::Count) => |l, _| l.packet.as_ref().and_then(|p| p.tsval).map(u64::from).into();
    /// The timestamp that it echoes.
    TSECR: json(&["tsecr"], Unit::Count) => |l, _| l.packet.as_ref().and_then(|p| p.tsecr).map(u64::from).into();
}

#[derive(Default)]
pub(super) struct Timeline {
    owners: Owners,
    asked: AHashSet<Tuple>,
}

impl View for Timeline {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, &["packet", "call"]].concat()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        self.owners.learn(&row);
        let moment = match &row {
            Row::Event(e) => Some(self.event(e)),
            Row::Packet(p) => Some(packet(p)),
            Row::Call(c) => call(c),
            _ => None,
        };
        let Some(moment) = moment else {
            return Ok(());
        };
        if self.passes(&moment, &screen.how.filter) {
            screen.show(&moment)
        } else {
            Ok(())
        }
    }
}

impl Timeline {
    fn event(&self, e: &Event) -> Moment {
        Moment {
            time_ns: e.time_ns,
            tuple: tuple(e),
            owner: self.owners.of_event(e),
            way: "",
            kind: word(&e.kind),
            says: says(e),
            packet: None,
        }
    }

    fn passes(&mut self, moment: &Moment, filter: &Filter) -> bool {
        let (netns, (local, local_port), (remote, remote_port)) = moment.tuple;
        let asked = filter.netns_ok(netns)
            && filter.ports_ok(local_port, remote_port)
            && filter.addrs_ok(local, remote);
        if moment.packet.is_some() && !Owner::default().passes(filter) {
            return asked && self.asked.contains(&moment.tuple);
        }
        let asked = asked && moment.owner.passes(filter);
        if asked && self.asked.len() < MAX_ASKED {
            self.asked.insert(moment.tuple);
        }
        asked
    }
}

fn word(kind: &EventKind) -> &'static str {
    let known = EventKind::ALL.iter().find(|k| *k == kind);
    known.map_or("event", EventKind::as_str)
}

fn says(e: &Event) -> String {
    let state = e.state.as_ref().map_or("?", TcpState::as_str);
    let reason = |says: String| match &e.reason {
        Some(reason) => format!("{says}: {reason}"),
        None => says,
    };
    match &e.kind {
        EventKind::State => {
            let before = e.old_state.as_ref().map_or("?", TcpState::as_str);
            let mut says = format!("{before} -> {state}");
            if let Some(agreed) = options(e) {
                says += &format!(", agreed on {agreed}");
            }
            if e.cookie == Some(true) {
                says += ", from a SYN cookie";
            }
            if let Some(backlog) = e.backlog {
                says += &format!(", backlog {backlog}");
            }
            if let Some(error) = &e.error {
                says += &format!(", {error}");
            }
            says
        }
        EventKind::Retransmit | EventKind::SynAckRetransmit => {
            let attempt = e.attempt.map_or(String::new(), |n| format!(" {n}"));
            let what = match kind(e) {
                "" => String::new(),
                what => format!(" ({what})"),
            };
            format!("retransmission{attempt} in {state}{what}")
        }
        EventKind::ResetSent if e.state.is_none() => reason("reset sent, by no socket".into()),
        EventKind::ResetSent => reason(format!("reset sent in {state}")),
        EventKind::ResetReceived => reason(format!("reset received in {state}")),
        EventKind::Drop => {
            let says = reason(format!("dropped here: {}", flags(e.flags)));
            match &e.location {
                Some(location) => format!("{says} in {location}"),
                None => says,
            }
        }
        EventKind::NoRoute => {
            let error = e.error.as_deref().unwrap_or("an error");
            format!("connect() ended with {error}: a route of this host rejects it")
        }
        other => other.as_str().to_string(),
    }
}

fn packet(p: &Packet) -> Moment {
    let (source, to) = ((p.src_addr, p.src_port), (p.dst_addr, p.dst_port));
    let (local, remote, way) = if p.outgoing {
        (source, to, "->")
    } else {
        (to, source, "<-")
    };
    let mut says = format!("{} seq {}", flags(Some(p.flags)), p.seq);
    if p.flags & ACK != 0 {
        says += &format!(" ack {}", p.ack);
    }
    if p.flags & SYN != 0 {
        says += &format!(" offers {}", offered(p));
    }
    Moment {
        time_ns: p.time_ns,
        tuple: (p.netns, local, remote),
        owner: Owner::default(),
        way,
        kind: "packet",
        says,
        packet: Some(p.clone()),
    }
}

/// The options of a SYN or SYN-ACK, named as those agreed on.
fn offered(p: &Packet) -> String {
    let mut all = Vec::new();
    all.extend(p.mss.map(|mss| format!("mss:{mss}")));
    all.extend(p.tsval.map(|_| "ts".to_string()));
    all.extend(p.sack_permitted.then(|| "sack".to_string()));
    all.extend(p.window_scale.map(|shift| format!("wscale:{shift}")));
    if all.is_empty() {
        "no options".into()
    } else {
        all.join(" ")
    }
}

/// A call on a connection; `None` for waits on many sockets and for calls on listeners.
fn call(c: &Call) -> Option<Moment> {
    let nowhere = Addr::default();
    if c.sock.is_none() || (c.remote_addr == nowhere && c.remote_port == 0) {
        return None;
    }
    let took = duration(c.duration_ns);
    let came = match (&c.error, c.result) {
        (Some(error), _) => error.to_string(),
        (None, Some(result)) => result.to_string(),
        (None, None) => "?".into(),
    };
    Some(Moment {
        time_ns: c.time_ns,
        tuple: (
            c.netns,
            (c.local_addr, c.local_port),
            (c.remote_addr, c.remote_port),
        ),
        owner: Owner {
            pid: Some(c.pid),
            comm: Some(c.comm.clone()),
            cgroup: Some(c.cgroup),
        },
        way: "",
        kind: "call",
        says: format!("{}() returned {came} after {took}", c.call.as_str()),
        packet: None,
    })
}
