//! `trace retransmits`: every segment retransmitted, with its owner, what sent it, and which attempt.

use recording::tables::Event;
use recording::{EventKind, TcpState};

use super::{About, Lines};
use crate::columns::{Unit, Value, columns, json, left, right};

/// A segment that was retransmitted.
pub(crate) struct Retransmitted;

columns! {
    About<Retransmitted> = "retransmit" {
        text TIME PID COMM LOCAL REMOTE STATE KIND NTH SEQ CWND RTT ERR NETNS;
        json TIME PID COMM CGROUP NETNS FAMILY LOCAL REMOTE STATE KIND NTH SEQ CWND RTT ERR TOTAL;
    }
    /// `syn`, `syn-ack`, or what retransmitted the segment: `rto` (timer), `tlp` (tail loss probe), `fast` (ACKs), `rack` (reordering timer), `other`.
    KIND: left("KIND", 7, &["kind"], Unit::Name) => |l, _| kind(&l.event).into();
    /// Which retransmission of the same segment it is.
    NTH: right("NTH", 3, &["attempt"], Unit::Count) => |l, _| l.event.attempt.into();
    /// Its first sequence number.
    SEQ: right("SEQ", 10, &["seq"], Unit::Seq) => |l, _| l.event.seq.into();
    /// Congestion window.
    CWND: right("CWND", 5, &["cwnd_segments"], Unit::Segments) => |l, _| l.event.cwnd.into();
    /// Smoothed round trip time.
    RTT: right("RTT(us)", 7, &["rtt_us"], Unit::Us) => |l, _| l.event.rtt_us.into();
    /// Why it was not sent: an error (`EBUSY`: the original still waits in a queue of this host), or `NET_XMIT_DROP`, by a queueing discipline. In JSON `"0"` when it was sent, null where the kernel does not tell.
    ERR: left("ERR", 13, &["err"], Unit::Words) => |l, _| err(l.event.send_error.as_deref());
    /// Segments of the connection that were retransmitted so far.
    TOTAL: json(&["total_retransmits"], Unit::Count) => |l, _| l.event.retransmits.into();
}

/// What was retransmitted, or what retransmitted it.
pub(super) fn kind(e: &Event) -> &str {
    match (&e.kind, &e.state, &e.retransmit_kind) {
        (EventKind::SynAckRetransmit, ..) => "syn-ack",
        (_, Some(TcpState::SynSent), _) => "syn",
        (_, _, Some(kind)) => kind.as_str(),
        (_, _, None) => "",
    }
}

/// What sending it returned; text says so of those that were not sent.
fn err(returned: Option<&str>) -> Value<'_> {
    match returned {
        Some("0") => Value::Told("0".into(), String::new()),
        returned => returned.into(),
    }
}

pub(super) struct Retransmits;

impl Lines for Retransmits {
    type More = Retransmitted;

    fn more(&mut self, e: &Event) -> Option<Retransmitted> {
        let is_one = matches!(e.kind, EventKind::Retransmit | EventKind::SynAckRetransmit);
        is_one.then_some(Retransmitted)
    }
}
