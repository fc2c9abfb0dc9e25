//! From the kernel's record of a call to a row of the `call` table.

use std::collections::HashMap;

use recording::tables::Call;
use recording::{Addr, Text};

use super::syscalls::family;
use crate::errno::name;
use crate::wire::{text, tw_call, tw_call_kind};

/// Turns records into rows; remembers the texts it made.
pub struct Decoder {
    errors: HashMap<i64, Text>,
    comms: HashMap<[i8; 16], Text>,
}

/// Beyond this many distinct command names, texts are made anew: memory stays bounded.
const MAX_COMMS: usize = 4096;
/// The kernel's error numbers end here.
const MAX_ERRNO: i64 = 4095;

impl Decoder {
    /// A decoder.
    pub fn new() -> Decoder {
        Decoder {
            errors: HashMap::new(),
            comms: HashMap::new(),
        }
    }

    /// The row; `None` when the record is of a kind that we do not know.
    pub fn row(&mut self, c: &tw_call) -> Option<Call> {
        let call = family(c.kind)?.clone();
        let kind = tw_call_kind(c.kind.into());
        let failed = (-MAX_ERRNO..0).contains(&c.result);
        let takes_fd = kind != tw_call_kind::TW_CALL_POLL && kind != tw_call_kind::TW_CALL_SELECT;
        Some(Call {
            time_ns: c.time_ns,
            pid: c.pid,
            tid: c.tid,
            comm: self.comm(&c.comm),
            cgroup: c.cgroup,
            netns: c.netns,
            call,
            duration_ns: c.duration_ns,
            error: failed.then(|| self.error(-c.result)),
            result: (!failed).then_some(c.result),
            fd: takes_fd.then_some(c.fd),
            sock: (c.sock != 0).then_some(c.sock),
            family: c.family,
            local_addr: Addr(c.local_addr),
            local_port: c.local_port,
            remote_addr: Addr(c.remote_addr),
            remote_port: c.remote_port,
            backlog: (kind == tw_call_kind::TW_CALL_LISTEN).then_some(c.backlog),
            port_search_ns: (c.searched != 0).then_some(c.search_ns),
        })
    }

    fn error(&mut self, number: i64) -> Text {
        let known = self.errors.entry(number);
        known.or_insert_with(|| name(number)).clone()
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

#[cfg(test)]
mod tests {
    use recording::CallKind;

    use super::*;

    #[test]
    fn a_row_says_what_the_record_says() {
        let mut c = tw_call {
            kind: tw_call_kind::TW_CALL_LISTEN.0 as u8,
            backlog: 5,
            fd: 3,
            sock: 9,
            ..tw_call::default()
        };
        let mut decoder = Decoder::new();
        let row = decoder.row(&c).unwrap();
        assert_eq!(
            (row.call, row.backlog, row.fd),
            (CallKind::Listen, Some(5), Some(3))
        );
        assert_eq!((row.error, row.result), (None, Some(0)));
        assert_eq!((row.sock, row.port_search_ns), (Some(9), None));

        c.kind = tw_call_kind::TW_CALL_POLL.0 as u8;
        c.result = -9;
        let row = decoder.row(&c).unwrap();
        assert_eq!((row.backlog, row.fd, row.result), (None, None, None));
        assert_eq!(row.error.as_deref(), Some("EBADF"));

        c.kind = 200;
        assert!(decoder.row(&c).is_none());
    }
}
