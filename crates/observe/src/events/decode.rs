//! From the kernel's event record to a row of the `event` table.

use std::collections::HashMap;

use recording::tables::Event;
use recording::{Addr, Text};

use crate::kernel::{Names, Symbols};
use crate::wire::{text, tw_bits, tw_caller, tw_event, tw_kind};

/// Turns records into rows; remembers the texts it made.
pub struct Decoder {
    names: Names,
    symbols: Option<Symbols>,
    kinds: [Text; 6],
    callers: [Text; 5],
    locations: HashMap<u64, Option<Text>>,
    comms: HashMap<[i8; 16], Text>,
}

/// Beyond this many distinct command names, texts are made anew: memory stays bounded.
const MAX_COMMS: usize = 4096;

const CLOSE: &str = "CLOSE";
const ESTABLISHED: &str = "ESTABLISHED";

impl Decoder {
    /// A decoder for the running kernel.
    pub fn new(names: Names, symbols: Option<Symbols>) -> Decoder {
        Decoder {
            names,
            symbols,
            kinds: [
                "state",
                "retransmit",
                "synack-retransmit",
                "reset-sent",
                "reset-received",
                "drop",
            ]
            .map(Text::from),
            callers: ["other", "fast", "rack", "tlp", "rto"].map(Text::from),
            locations: HashMap::new(),
            comms: HashMap::new(),
        }
    }

    /// The row; `None` when the record is of a kind that we do not know.
    pub fn row(&mut self, e: &tw_event) -> Option<Event> {
        let kind = self.kinds.get(usize::from(e.kind))?.clone();
        let mut row = Event {
            time_ns: e.time_ns,
            kind,
            netns: e.netns,
            sock: bit(e, tw_bits::TW_HAS_SOCK).then_some(e.sock),
            family: e.family,
            local_addr: Addr(e.local_addr),
            local_port: e.local_port,
            remote_addr: Addr(e.remote_addr),
            remote_port: e.remote_port,
            state: bit(e, tw_bits::TW_HAS_SOCK).then(|| self.names.state(e.state)),
            flags: bit(e, tw_bits::TW_HAS_PACKET).then_some(e.flags),
            seq: bit(e, tw_bits::TW_HAS_PACKET).then_some(e.seq),
            ..Event::default()
        };
        match tw_kind(e.kind.into()) {
            tw_kind::TW_STATE => self.state_change(e, &mut row),
            tw_kind::TW_RETRANSMIT => {
                row.retransmit_kind = self.caller(e.caller);
                // The kernel counts timeouts; ACK-driven retransmissions do not raise it.
                row.attempt = Some(e.attempt.max(1));
                tcp(e, &mut row);
            }
            tw_kind::TW_SYNACK_RETRANSMIT => row.attempt = Some(e.attempt.max(1)),
            tw_kind::TW_RESET_SENT => {
                row.reason =
                    bit(e, tw_bits::TW_HAS_REASON).then(|| self.names.reset_reason(e.reason));
            }
            tw_kind::TW_DROP => {
                row.reason =
                    bit(e, tw_bits::TW_HAS_REASON).then(|| self.names.drop_reason(e.reason));
                row.location = self.location(e.location);
            }
            _ => {}
        }
        Some(row)
    }

    fn state_change(&mut self, e: &tw_event, row: &mut Event) {
        let old = self.names.state(e.old_state);
        let new = row.state.clone().unwrap_or_default();
        if old == CLOSE {
            row.pid = Some(e.pid);
            row.comm = Some(self.comm(&e.comm));
            row.cgroup = Some(e.cgroup);
            row.backlog = (new == "LISTEN").then_some(e.backlog);
        }
        if new == ESTABLISHED {
            row.cookie = bit(e, tw_bits::TW_HAS_COOKIE).then(|| bit(e, tw_bits::TW_COOKIE));
            row.sack = Some(bit(e, tw_bits::TW_SACK));
            row.window_scaling = Some(bit(e, tw_bits::TW_WSCALE));
            row.timestamps = Some(bit(e, tw_bits::TW_TIMESTAMPS));
            row.mss = Some(e.mss);
            tcp(e, row);
        }
        if new == CLOSE && old != "LISTEN" {
            row.bytes_acked = Some(e.bytes_acked);
            row.bytes_received = Some(e.bytes_received);
            tcp(e, row);
        }
        row.old_state = Some(old);
    }

    fn caller(&self, caller: u8) -> Option<Text> {
        let first = tw_caller::TW_CALLER_OTHER.0 as u8;
        let index = usize::from(caller.checked_sub(first)?);
        self.callers.get(index).cloned()
    }

    fn location(&mut self, address: u64) -> Option<Text> {
        let symbols = self.symbols.as_ref()?;
        let location = self.locations.entry(address);
        location
            .or_insert_with(|| symbols.function(address))
            .clone()
    }

    fn comm(&mut self, comm: &[i8; 16]) -> Text {
        if let Some(known) = self.comms.get(comm) {
            return known.clone();
        }
        let new = Text::from(text(comm));
        if self.comms.len() < MAX_COMMS {
            self.comms.insert(*comm, new.clone());
        }
        new
    }
}

fn tcp(e: &tw_event, row: &mut Event) {
    row.rtt_us = Some(e.rtt_us);
    row.cwnd = Some(e.cwnd);
    row.retransmits = Some(e.retransmits);
}

fn bit(e: &tw_event, bit: tw_bits) -> bool {
    u32::from(e.bits) & bit.0 != 0
}
