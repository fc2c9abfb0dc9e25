//! `trace handshakes`: every connection established or not, how long it took, and what was agreed.

use std::io;

use analysis::Side;
use analysis::attempts::{self, Attempts, Ending};
use analysis::owners;
use recording::Row;
use recording::tables::Event;

use super::About;
use crate::columns::{Unit, columns, json, left, right};
use crate::screen::Screen;
use crate::view::View;

/// A handshake, seen from one of its ends.
pub(crate) struct Handshake {
    side: Side,
    took_ns: Option<u64>,
    retransmits: u32,
    ending: Ending,
}

columns! {
    About<Handshake> = "handshake" {
        text TIME SIDE PID COMM LOCAL REMOTE TOOK RETRANS RESULT COOKIE OPTIONS NETNS;
        json TIME SIDE PID COMM CGROUP NETNS FAMILY LOCAL REMOTE TOOK RETRANS RESULT COOKIE
            SACK WINDOW_SCALING TIMESTAMPS MSS RTT;
    }
    /// Which end it is of: `connect` or `accept`.
    SIDE: left("SIDE", 7, &["side"], Unit::Name) => |l, _| match l.more.side {
        Side::Accepted => "accept".into(),
        Side::Opened | Side::Older => "connect".into(),
    };
    /// From connect() to ESTABLISHED; on the accepting side from the first SYN, where control packets are recorded.
    TOOK: right("TOOK(ms)", 9, &["took_ns"], Unit::Ns) => |l, _| l.more.took_ns.into();
    /// SYNs, or SYN-ACKs, that were retransmitted.
    RETRANS: right("RETRANS", 7, &["sent_again"], Unit::Count) => |l, _| l.more.retransmits.into();
    /// `established`; `refused` (a reset answered); `unreachable` (an ICMP message answered, or this host could not send); `no-port` (the local ports to this destination are used up: EADDRNOTAVAIL); `unanswered` (SYNs were retransmitted in vain); `abandoned` (closed before an answer was due).
    RESULT: left("RESULT", 11, &["result"], Unit::Name) => |l, _| l.more.ending.as_str().into();
    /// What both sides agreed on, as `ss` names it.
    OPTIONS: left("OPTIONS", 24, &[], Unit::Name) => |l, _| options(&l.event).into();
    /// SACK was agreed on.
    SACK: json(&["sack"], Unit::Flag) => |l, _| l.event.sack.into();
    /// Window scaling was.
    WINDOW_SCALING: json(&["window_scaling"], Unit::Flag) => |l, _| l.event.window_scaling.into();
    /// Timestamps were.
    TIMESTAMPS: json(&["timestamps"], Unit::Flag) => |l, _| l.event.timestamps.into();
    /// Segment size for sending.
    MSS: json(&["mss_bytes"], Unit::Bytes) => |l, _| l.event.mss.into();
    /// Smoothed round trip time.
    RTT: json(&["rtt_us"], Unit::Us) => |l, _| l.event.rtt_us.into();
}

#[derive(Default)]
pub(super) struct Handshakes {
    attempts: Attempts,
}

impl View for Handshakes {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, &[attempts::PACKETS]].concat()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        let Some(opened) = self.attempts.take(&row) else {
            return Ok(());
        };
        let line = About {
            event: opened.event,
            owner: opened.owner,
            more: Handshake {
                side: opened.side,
                took_ns: opened.took_ns,
                retransmits: opened.retransmits,
                ending: opened.ending,
            },
        };
        if line.passes(&screen.how.filter) {
            screen.show(&line)
        } else {
            Ok(())
        }
    }
}

/// What both sides agreed on, as `ss` names it.
pub(super) fn options(e: &Event) -> Option<String> {
    let mut all = format!("mss:{}", e.mss?);
    for (agreed, name) in [
        (e.timestamps, " ts"),
        (e.sack, " sack"),
        (e.window_scaling, " wscale"),
    ] {
        if agreed == Some(true) {
            all.push_str(name);
        }
    }
    Some(all)
}
