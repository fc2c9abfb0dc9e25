//! SYNs that a TIME_WAIT socket refused, what clients made of it, and when SYNs were retransmitted.

use ahash::{AHashMap, AHashSet};
use recording::tables::Event;
use recording::{EventKind, RowRef, TcpState};

use super::flags::opens;
use super::place::{Endpoint, EventRow};

/// Rows kept of each kind; those beyond are counted. About 50 MB in all.
const MAX_KEPT: usize = 1 << 18;
/// Sockets in SYN_SENT, and TIME_WAIT sockets, followed at one time.
const MAX_FOLLOWED: usize = 1 << 18;
/// TCP_TIMEWAIT_LEN: a constant of the kernel, 60 s.
pub const TIME_WAIT_NS: u64 = 60_000_000_000;

/// What TIME_WAIT sockets and clients in SYN_SENT did.
#[derive(Debug, Default)]
pub struct Refusals {
    /// SYNs that met a TIME_WAIT socket and were refused.
    pub refused: Vec<Refused>,
    /// Resets that clients sent in SYN_SENT: an ACK came that fits no SYN of theirs.
    pub strays: Vec<Seen>,
    /// SYNs that met an established socket of the same ends, whose end is `local`.
    pub half_open: Vec<Seen>,
    /// Both ends of these, the server's first.
    half_open_ends: AHashSet<(Endpoint, Endpoint)>,
    /// SYNs retransmitted.
    pub retries: Vec<Retry>,
    /// Ends that closed first, by their place: each leaves a TIME_WAIT socket there.
    pub closed_first: AHashMap<(u32, Endpoint), u64>,
    /// When the last SYN of each socket in SYN_SENT was sent.
    last_syn: AHashMap<u64, u64>,
    /// TIME_WAIT sockets by namespace and both ends.
    time_waits: AHashMap<(u32, Endpoint, Endpoint), TimeWait>,
    /// Rows beyond the bound.
    pub folded: u64,
}

/// A TIME_WAIT socket.
#[derive(Clone, Copy, Debug)]
struct TimeWait {
    began_ns: u64,
    /// It refused a SYN, so a reset came: that ends it, unless net.ipv4.tcp_rfc1337 is 1.
    reset: bool,
}

/// A SYN that a TIME_WAIT socket refused.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// At the TIME_WAIT socket, whose end is `local`.
    pub seen: Seen,
    /// By its timestamp (PAWS), not by its sequence number.
    pub paws: bool,
    /// When the earlier connection of the same ends closed; `None` when that was not seen.
    pub closed_ns: Option<u64>,
}

/// Something that happened between two ends.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When it happened.
    pub time_ns: u64,
    /// Network namespace.
    pub netns: u32,
    /// End on this host.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    row: EventRow,
}

/// A SYN retransmitted.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// When and where.
    pub seen: Seen,
    /// Since the SYN before it, ns.
    pub after_ns: u64,
}

impl Seen {
    fn of(at: RowRef, row: &Event) -> Seen {
        Seen {
            time_ns: row.time_ns,
            netns: row.netns,
            local: Endpoint::new(row.local_addr, row.local_port),
            remote: Endpoint::new(row.remote_addr, row.remote_port),
            row: at.into(),
        }
    }

    /// The row that says so.
    pub fn row(&self) -> RowRef {
        self.row.into()
    }

    fn ends(&self) -> (u32, Endpoint, Endpoint) {
        (self.netns, self.local, self.remote)
    }
}

impl Refusals {
    /// Takes note of an event; feed them in order of time.
    pub(super) fn event(&mut self, at: RowRef, kind: &EventKind, state: &TcpState, row: &Event) {
        match (kind, state) {
            (EventKind::State, _) => self.state(at, state, row),
            (EventKind::Retransmit, TcpState::SynSent) => {
                let known = row.sock.and_then(|s| self.last_syn.insert(s, row.time_ns));
                if let Some(before) = known {
                    let after_ns = row.time_ns.saturating_sub(before);
                    let seen = Seen::of(at, row);
                    keep(
                        &mut self.retries,
                        &mut self.folded,
                        Retry { seen, after_ns },
                    );
                }
            }
            (EventKind::ResetSent, TcpState::SynSent) => {
                keep(&mut self.strays, &mut self.folded, Seen::of(at, row));
            }
            (EventKind::Drop, state) if met_established(state, row) => {
                let seen = Seen::of(at, row);
                if self.half_open.len() < MAX_KEPT {
                    self.half_open_ends.insert((seen.local, seen.remote));
                }
                keep(&mut self.half_open, &mut self.folded, seen);
            }
            (EventKind::Drop, TcpState::TimeWait) if opens(row.flags) => {
                let seen = Seen::of(at, row);
                let met = self.time_waits.get_mut(&seen.ends());
                let refused = Refused {
                    seen,
                    paws: row.reason.as_deref() == Some("TCP_RFC7323_TW_PAWS"),
                    closed_ns: met.as_ref().map(|t| t.began_ns),
                };
                if let Some(met) = met {
                    met.reset = true;
                }
                keep(&mut self.refused, &mut self.folded, refused);
            }
            _ => {}
        }
    }

    fn state(&mut self, at: RowRef, state: &TcpState, row: &Event) {
        let Some(sock) = row.sock else { return };
        if *state == TcpState::SynSent {
            if self.last_syn.len() < MAX_FOLLOWED {
                self.last_syn.insert(sock, row.time_ns);
            }
            return;
        }
        self.last_syn.remove(&sock);
        let seen = Seen::of(at, row);
        match state {
            TcpState::Established => drop(self.time_waits.remove(&seen.ends())),
            // The last state change that is seen of an end that closed first.
            TcpState::Close if row.old_state.as_ref().is_some_and(TcpState::closed_first) => {
                let place = (seen.netns, seen.local);
                if self.closed_first.len() < MAX_FOLLOWED || self.closed_first.contains_key(&place)
                {
                    *self.closed_first.entry(place).or_default() += 1;
                }
                if self.time_waits.len() < MAX_FOLLOWED {
                    let time_wait = TimeWait {
                        began_ns: row.time_ns,
                        reset: false,
                    };
                    self.time_waits.insert(seen.ends(), time_wait);
                }
            }
            _ => {}
        }
    }

    /// Whether it was an established socket that answered the SYN of a client.
    pub fn met_half_open(&self, stray: &Seen) -> bool {
        self.half_open_ends.contains(&(stray.remote, stray.local))
    }

    /// TIME_WAIT sockets that a namespace must hold at a time, by what closed during the
    /// recording, and whether a reset ends them; `None` when too many were followed to know.
    pub fn held(&self, netns: u32, at_ns: u64, reset_ends: bool) -> Option<u64> {
        let since = at_ns.saturating_sub(TIME_WAIT_NS);
        let of_netns = self.time_waits.iter().filter(|((n, ..), _)| *n == netns);
        let held = of_netns
            .filter(|(_, t)| (since..=at_ns).contains(&t.began_ns) && !(t.reset && reset_ends));
        (self.time_waits.len() < MAX_FOLLOWED).then(|| held.count() as u64)
    }
}

/// Whether a drop is of a SYN that came to a socket past SYN_RECV, by the kernel's name of it.
fn met_established(state: &TcpState, row: &Event) -> bool {
    let invalid = row.reason.as_deref() == Some("TCP_INVALID_SYN");
    invalid && opens(row.flags) && *state != TcpState::TimeWait
}

fn keep<T>(all: &mut Vec<T>, folded: &mut u64, one: T) {
    if all.len() < MAX_KEPT {
        all.push(one)
    } else {
        *folded += 1
    }
}
