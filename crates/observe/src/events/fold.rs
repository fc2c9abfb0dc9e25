//! Whole lives: a connection that opens, lives undisturbed and ends within a segment becomes one
//! row instead of five, which is most of what recording a busy host costs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::wire::{tw_bits, tw_event, tw_kind};

/// A row to be written: a record, and for a whole life when it began.
#[derive(Clone, Copy)]
pub struct Step {
    /// The record; of a life its last, with what the others told.
    pub event: tw_event,
    /// When connect() was called; 0 when not a life or not known.
    pub connect_ns: u64,
    /// When the connection was established; 0 when not a life.
    pub established_ns: u64,
    /// The kernel stack, as in the table `stack`.
    pub stack: Option<u64>,
}

impl From<tw_event> for Step {
    fn from(event: tw_event) -> Step {
        Step {
            event,
            connect_ns: 0,
            established_ns: 0,
            stack: None,
        }
    }
}

/// Connections that may wait for their end. Beyond, all are written as they are: memory is bounded.
const MOST_YOUNG: usize = 1 << 16;

const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const CLOSE: u8 = 7;

/// Joins the records of a life; hand it records in the order of the ring, per connection in order
/// of time.
pub struct Fold {
    on: bool,
    /// By socket: places in `slots` of its connect and of its establishment.
    young: HashMap<u64, Young, BuildHasherDefault<Already>>,
    slots: Vec<tw_event>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Young {
    connect: Option<u32>,
    established: Option<u32>,
}

impl Fold {
    /// When not `on`, every record is a row.
    pub fn new(on: bool) -> Fold {
        Fold {
            on,
            young: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes a record; what it completes is added to `out`.
    pub fn take(&mut self, e: &tw_event, out: &mut Vec<Step>) {
        let has_sock = u32::from(e.bits) & tw_bits::TW_HAS_SOCK.0 != 0;
        if !self.on || !has_sock {
            out.push((*e).into());
            return;
        }
        let change = u32::from(e.kind) == tw_kind::TW_STATE.0;
        let undisturbed = e.retransmits == 0;
        match (e.old_state, e.state) {
            // One that is bound to a port beforehand says something that a life does not.
            (CLOSE, SYN_SENT) if change && e.local_port == 0 => {
                self.flush_sock(e.sock, out);
                let connect = Some(self.keep(e));
                let young = Young {
                    connect,
                    established: None,
                };
                self.young.insert(e.sock, young);
                if self.young.len() > MOST_YOUNG {
                    self.flush(out);
                }
            }
            (SYN_SENT, ESTABLISHED) if change && undisturbed => match self.young.get(&e.sock) {
                Some(&Young {
                    connect: Some(connect),
                    established: None,
                }) if self.same(connect, e) => {
                    let young = Young {
                        connect: Some(connect),
                        established: Some(self.keep(e)),
                    };
                    self.young.insert(e.sock, young);
                }
                _ => {
                    self.flush_sock(e.sock, out);
                    out.push((*e).into());
                }
            },
            (SYN_RECV, ESTABLISHED) if change && undisturbed => {
                self.flush_sock(e.sock, out);
                let young = Young {
                    connect: None,
                    established: Some(self.keep(e)),
                };
                self.young.insert(e.sock, young);
                if self.young.len() > MOST_YOUNG {
                    self.flush(out);
                }
            }
            (_, CLOSE) if change => match self.young.remove(&e.sock) {
                Some(Young {
                    connect,
                    established: Some(established),
                }) if self.same(established, e) => out.push(self.life(connect, established, e)),
                young => {
                    self.write(young.unwrap_or_default(), out);
                    out.push((*e).into());
                }
            },
            _ => {
                self.flush_sock(e.sock, out);
                out.push((*e).into());
            }
        }
    }

    /// Writes all that wait for their end.
    pub fn flush(&mut self, out: &mut Vec<Step>) {
        for (_, young) in std::mem::take(&mut self.young) {
            self.write(young, out);
        }
    }

    /// Whether a record is of the connection in the slot. Where records were lost, the socket may
    /// have become another connection.
    fn same(&self, slot: u32, e: &tw_event) -> bool {
        let kept = &self.slots[slot as usize];
        kept.remote_addr == e.remote_addr && kept.remote_port == e.remote_port
    }

    fn flush_sock(&mut self, sock: u64, out: &mut Vec<Step>) {
        if let Some(young) = self.young.remove(&sock) {
            self.write(young, out);
        }
    }

    fn life(&mut self, connect: Option<u32>, established: u32, end: &tw_event) -> Step {
        let mut event = *end;
        let began = self.give_back(established);
        event.mss = began.mss;
        event.bits |= began.bits;
        let connect = connect.map(|c| self.give_back(c));
        if let Some(connect) = &connect {
            event.pid = connect.pid;
            event.comm = connect.comm;
            event.cgroup = connect.cgroup;
        }
        Step {
            event,
            connect_ns: connect.map_or(0, |c| c.time_ns),
            established_ns: began.time_ns,
            stack: None,
        }
    }

    fn write(&mut self, young: Young, out: &mut Vec<Step>) {
        for slot in [young.connect, young.established].into_iter().flatten() {
            let event = self.give_back(slot);
            out.push(event.into());
        }
    }

    fn keep(&mut self, e: &tw_event) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = *e;
                slot
            }
            None => {
                self.slots.push(*e);
                self.slots.len() as u32 - 1
            }
        }
    }

    fn give_back(&mut self, slot: u32) -> tw_event {
        self.free.push(slot);
        self.slots[slot as usize]
    }
}

/// The ids of sockets are random already: they are their own hash.
#[derive(Default)]
struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_ne_bytes(word);
        }
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(time_ns: u64, sock: u64, old_state: u8, state: u8) -> tw_event {
        tw_event {
            time_ns,
            sock,
            old_state,
            state,
            kind: tw_kind::TW_STATE.0 as u8,
            bits: tw_bits::TW_HAS_SOCK.0 as u8,
            ..tw_event::default()
        }
    }

    fn fold(events: &[tw_event]) -> Vec<Step> {
        let (mut fold, mut out) = (Fold::new(true), Vec::new());
        events.iter().for_each(|e| fold.take(e, &mut out));
        fold.flush(&mut out);
        out
    }

    #[test]
    fn both_ends_of_a_plain_connection_are_two_rows() {
        let mut connect = change(1, 7, CLOSE, SYN_SENT);
        connect.pid = 42;
        let mut established = change(3, 7, SYN_SENT, ESTABLISHED);
        established.mss = 1460;
        established.bits |= tw_bits::TW_SACK.0 as u8;
        let accepted = change(2, 8, SYN_RECV, ESTABLISHED);
        let ends = [change(4, 8, 9, CLOSE), change(5, 7, 5, CLOSE)];
        let rows = fold(&[connect, accepted, established, ends[0], ends[1]]);
        assert_eq!(rows.len(), 2);
        let (server, client) = (&rows[0], &rows[1]);
        assert_eq!((server.connect_ns, server.established_ns), (0, 2));
        assert_eq!((client.connect_ns, client.established_ns), (1, 3));
        assert_eq!((client.event.pid, client.event.mss), (42, 1460));
        assert_eq!(client.event.time_ns, 5);
        assert!(u32::from(client.event.bits) & tw_bits::TW_SACK.0 != 0);
    }

    #[test]
    fn whatever_disturbs_a_life_leaves_its_rows_apart() {
        let life = [
            change(1, 7, CLOSE, SYN_SENT),
            change(2, 7, SYN_SENT, ESTABLISHED),
            change(9, 7, 5, CLOSE),
        ];
        assert_eq!(fold(&life).len(), 1);
        let mut retransmit = change(3, 7, 0, ESTABLISHED);
        retransmit.kind = tw_kind::TW_RETRANSMIT.0 as u8;
        let rows = fold(&[life[0], life[1], retransmit, life[2]]);
        assert_eq!(rows.len(), 4, "a retransmission");
        let mut late = life[1];
        late.retransmits = 1;
        assert_eq!(fold(&[life[0], late, life[2]]).len(), 3, "a lost SYN");
        let mut bound = life[0];
        bound.local_port = 4000;
        assert_eq!(fold(&[bound, life[1], life[2]]).len(), 3, "bound to a port");
        assert_eq!(fold(&[life[0], change(2, 7, SYN_SENT, CLOSE)]).len(), 2);
        assert_eq!(fold(&life[1..]).len(), 2, "the connect is not known");
    }

    proptest! {
        /// Whatever the kernel reports, in whatever order: every record is in one row, as itself or
        /// as a part of a life.
        #[test]
        fn nothing_is_lost_and_nothing_invented(
            changes in prop::collection::vec((0..4u64, 0..13u8, 0..13u8, 0..3u8, 0..2u32, 0..2u16), 0..60)
        ) {
            let events: Vec<tw_event> = changes
                .iter()
                .enumerate()
                .map(|(i, &(sock, old, new, kind, retransmits, local_port))| tw_event {
                    kind,
                    retransmits,
                    local_port,
                    ..change(i as u64 + 1, sock, old, new)
                })
                .collect();
            let mut times: Vec<u64> = Vec::new();
            for step in fold(&events) {
                times.push(step.event.time_ns);
                times.extend([step.connect_ns, step.established_ns].iter().filter(|t| **t != 0));
            }
            times.sort_unstable();
            prop_assert_eq!(times, events.iter().map(|e| e.time_ns).collect::<Vec<_>>());
        }
    }
}
