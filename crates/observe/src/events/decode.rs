//! From the kernel's event records to columns of the `event` table.

use std::collections::HashMap;

use recording::tables::Event;
use recording::{
    Addr, Cell, Columnar, EventKind, RetransmitKind, TcpState, Text, TextBuilder, Word,
};

use crate::errno;
use crate::events::step::Step;
use crate::kernel::{Names, retransmit_kind};
use crate::stacks::Stacks;
use crate::wire::{text, tied, tw_bits, tw_event, tw_kind};

/// Turns records into columns; remembers the texts it made.
pub struct Decoder {
    names: Names,
    stacks: Stacks,
    states: [TcpState; 16],
    locations: HashMap<u64, Option<Text>>,
    errors: HashMap<u8, Text>,
    sendings: HashMap<i32, Text>,
    comms: HashMap<[i8; 16], Text>,
    /// The command seen last: the same few open connections again and again.
    comm: ([i8; 16], Text),
}

static KINDS: [EventKind; tw_kind::TW_KINDS.0 as usize] = tied! {
    from 0;
    tw_kind::TW_STATE => EventKind::State,
    tw_kind::TW_RETRANSMIT => EventKind::Retransmit,
    tw_kind::TW_SYNACK_RETRANSMIT => EventKind::SynAckRetransmit,
    tw_kind::TW_RESET_SENT => EventKind::ResetSent,
    tw_kind::TW_RESET_RECEIVED => EventKind::ResetReceived,
    tw_kind::TW_DROP => EventKind::Drop,
    tw_kind::TW_NO_ROUTE => EventKind::NoRoute,
};

/// Beyond this many distinct command names, texts are made anew: memory stays bounded.
const MAX_COMMS: usize = 4096;

const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;

impl Decoder {
    /// A decoder for the running kernel.
    pub fn new(names: Names, stacks: Stacks) -> Decoder {
        Decoder {
            states: std::array::from_fn(|state| names.state(state as u8)),
            names,
            stacks,
            locations: HashMap::new(),
            errors: HashMap::new(),
            sendings: HashMap::new(),
            comms: HashMap::new(),
            comm: ([0; 16], Text::default()),
        }
    }

    /// Whether the record is of a kind that we know.
    pub fn knows(&self, e: &tw_event) -> bool {
        usize::from(e.kind) < KINDS.len()
    }

    /// Adds rows, one loop per column: what each column holds and when it is null. All records must
    /// be of a kind that [`Decoder::knows`].
    pub fn append(&mut self, steps: &[Step], to: &mut <Event as Columnar>::Builder) {
        let rows = || steps.iter().map(|s| &s.event);
        let lives = || steps.iter().map(|s| (&s.event, s.established_ns != 0));

        Cell::extend(&mut to.time_ns, rows().map(|e| e.time_ns));
        rows().for_each(|e| to.kind.push(KINDS[usize::from(e.kind)].text()));
        Cell::extend(&mut to.netns, rows().map(|e| e.netns));
        let has_sock = |e: &tw_event| bit(e, tw_bits::TW_HAS_SOCK);
        Cell::extend(&mut to.sock, rows().map(|e| has_sock(e).then_some(e.sock)));
        Cell::extend(&mut to.family, rows().map(|e| e.family));
        Cell::extend(&mut to.local_addr, rows().map(|e| Addr(e.local_addr)));
        Cell::extend(&mut to.local_port, rows().map(|e| e.local_port));
        Cell::extend(&mut to.remote_addr, rows().map(|e| Addr(e.remote_addr)));
        Cell::extend(&mut to.remote_port, rows().map(|e| e.remote_port));
        let state = |state: u8| &self.states[usize::from(state & 15)];
        put(
            &mut to.state,
            rows().map(|e| has_sock(e).then(|| state(e.state))),
        );
        put(
            &mut to.old_state,
            rows().map(|e| is_change(e).then(|| state(e.old_state))),
        );
        self.why(steps, to);
        put(&mut to.retransmit_kind, rows().map(caller));
        // The kernel counts timeouts; ACK-driven retransmissions do not raise it.
        let attempt = |e: &tw_event| is_retransmit(e).then_some(e.attempt.max(1));
        Cell::extend(&mut to.attempt, rows().map(attempt));
        for e in rows() {
            let tells = is_retransmit(e) && bit(e, tw_bits::TW_HAS_REASON);
            if tells {
                to.send_error.push(self.sending(e.reason as i32))
            } else {
                to.send_error.push_null()
            }
        }
        let has_packet = |e: &tw_event| bit(e, tw_bits::TW_HAS_PACKET);
        Cell::extend(
            &mut to.flags,
            rows().map(|e| has_packet(e).then_some(e.flags)),
        );
        Cell::extend(&mut to.seq, rows().map(|e| has_packet(e).then_some(e.seq)));

        // Of the owner's call, which is the connect of a life that has one.
        let calls = |e: &tw_event| u32::from(e.kind) == tw_kind::TW_NO_ROUTE.0;
        let owner = |s: &Step| match s.established_ns {
            0 => is_change(&s.event) && s.event.old_state == CLOSE || calls(&s.event),
            _ => s.connect_ns != 0,
        };
        let owned = || steps.iter().map(|s| (&s.event, owner(s)));
        Cell::extend(
            &mut to.pid,
            owned().map(|(e, owned)| owned.then_some(e.pid)),
        );
        for (e, owned) in owned() {
            if owned {
                to.comm.push(self.comm(&e.comm))
            } else {
                to.comm.push_null()
            }
        }
        Cell::extend(
            &mut to.cgroup,
            owned().map(|(e, owned)| owned.then_some(e.cgroup)),
        );
        let listens = |e: &tw_event| is_change(e) && e.old_state == CLOSE && e.state == LISTEN;
        Cell::extend(
            &mut to.backlog,
            rows().map(|e| listens(e).then_some(e.backlog)),
        );

        // Of the establishment, which a life has in it.
        let tells = |e: &tw_event, life| life || is_change(e) && e.state == ESTABLISHED;
        let agreed =
            |(e, life): (&tw_event, bool), flag: tw_bits| tells(e, life).then(|| bit(e, flag));
        Cell::extend(
            &mut to.cookie,
            lives().map(|row| {
                agreed(row, tw_bits::TW_COOKIE).filter(|_| bit(row.0, tw_bits::TW_HAS_COOKIE))
            }),
        );
        Cell::extend(
            &mut to.sack,
            lives().map(|row| agreed(row, tw_bits::TW_SACK)),
        );
        let window_scaling = lives().map(|row| agreed(row, tw_bits::TW_WSCALE));
        Cell::extend(&mut to.window_scaling, window_scaling);
        let timestamps = lives().map(|row| agreed(row, tw_bits::TW_TIMESTAMPS));
        Cell::extend(&mut to.timestamps, timestamps);
        let mss = lives().map(|(e, life)| tells(e, life).then_some(e.mss));
        Cell::extend(&mut to.mss, mss);

        // Of the end, or of wherever the kernel's estimates are looked at.
        let ends = |e: &tw_event| is_change(e) && e.state == CLOSE && e.old_state != LISTEN;
        let tells = |e: &tw_event| {
            is_change(e) && e.state == ESTABLISHED
                || ends(e)
                || u32::from(e.kind) == tw_kind::TW_RETRANSMIT.0
        };
        Cell::extend(&mut to.rtt_us, rows().map(|e| tells(e).then_some(e.rtt_us)));
        Cell::extend(&mut to.cwnd, rows().map(|e| tells(e).then_some(e.cwnd)));
        Cell::extend(
            &mut to.retransmits,
            rows().map(|e| tells(e).then_some(e.retransmits)),
        );
        Cell::extend(
            &mut to.bytes_acked,
            rows().map(|e| ends(e).then_some(e.bytes_acked)),
        );
        Cell::extend(
            &mut to.bytes_received,
            rows().map(|e| ends(e).then_some(e.bytes_received)),
        );
        let left = |e: &tw_event| ends(e).then_some(e.attempt);
        Cell::extend(&mut to.bytes_unacked, rows().map(left));
        for e in rows() {
            match e.error {
                0 => to.error.push_null(),
                error => to.error.push(self.error(error)),
            }
        }
        Cell::extend(&mut to.stack, steps.iter().map(|s| s.stack));
        let began = |ns: u64| (ns != 0).then_some(ns);
        Cell::extend(
            &mut to.connect_ns,
            steps.iter().map(|s| began(s.connect_ns)),
        );
        Cell::extend(
            &mut to.established_ns,
            steps.iter().map(|s| began(s.established_ns)),
        );
    }

    /// Reasons and places of drops and resets.
    fn why(&mut self, steps: &[Step], to: &mut <Event as Columnar>::Builder) {
        for Step { event: e, .. } in steps {
            let reset = u32::from(e.kind) == tw_kind::TW_RESET_SENT.0;
            let drop = u32::from(e.kind) == tw_kind::TW_DROP.0;
            match bit(e, tw_bits::TW_HAS_REASON) {
                true if reset => to.reason.push(&self.names.reset_reason(e.reason)),
                true if drop => to.reason.push(&self.names.drop_reason(e.reason)),
                _ => to.reason.push_null(),
            }
            match drop.then(|| self.location(e.location)).flatten() {
                Some(location) => to.location.push(&location),
                None => to.location.push_null(),
            }
        }
    }

    fn location(&mut self, address: u64) -> Option<Text> {
        let location = self.locations.entry(address);
        location
            .or_insert_with(|| self.stacks.function(address))
            .clone()
    }

    fn error(&mut self, number: u8) -> &Text {
        let known = self.errors.entry(number);
        known.or_insert_with(|| errno::name(number.into()))
    }

    fn sending(&mut self, returned: i32) -> &Text {
        let known = self.sendings.entry(returned);
        known.or_insert_with(|| errno::sending(returned))
    }

    fn comm(&mut self, comm: &[i8; 16]) -> &Text {
        if self.comm.0 != *comm {
            let name = match self.comms.get(comm) {
                Some(known) => known.clone(),
                None => {
                    let new = Text::from(text(comm));
                    if self.comms.len() < MAX_COMMS {
                        self.comms.insert(*comm, new.clone());
                    }
                    new
                }
            };
            self.comm = (*comm, name);
        }
        &self.comm.1
    }
}

fn put<'w, W: Word>(to: &mut TextBuilder, words: impl Iterator<Item = Option<&'w W>>) {
    words.for_each(|word| match word {
        Some(word) => to.push(word.text()),
        None => to.push_null(),
    });
}

fn is_change(e: &tw_event) -> bool {
    u32::from(e.kind) == tw_kind::TW_STATE.0
}

fn is_retransmit(e: &tw_event) -> bool {
    let kind = u32::from(e.kind);
    kind == tw_kind::TW_RETRANSMIT.0 || kind == tw_kind::TW_SYNACK_RETRANSMIT.0
}

fn caller(e: &tw_event) -> Option<&'static RetransmitKind> {
    let retransmit = u32::from(e.kind) == tw_kind::TW_RETRANSMIT.0;
    retransmit_kind(e.caller).filter(|_| retransmit)
}

fn bit(e: &tw_event, bit: tw_bits) -> bool {
    u32::from(e.bits) & bit.0 != 0
}
