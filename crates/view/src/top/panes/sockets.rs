//! Connections, those in trouble first.

use analysis::standing;

use super::{Content, OWNER, Shown, goes, stays, warning_if, who};
use crate::columns::{Unit, columns, left, right};
use crate::how::How;
use crate::numbers::{bits_per_s, us_in_ms};
use crate::stat::sockets::Sampled;
use crate::top::snapshot::Snapshot;
use crate::top::state::{SocketOrder, Target};

impl Sampled {
    columns! {
        /// Smoothed round trip time; none where none was measured.
        RTT: right("RTT", 8, &["rtt_us"], Unit::Us)
            => |l, _| standing::round_trip_us(&l.row).map(|us| us_in_ms(us.into())).into();
        /// Segments retransmitted since the sample before.
        RETRANS: right("RETRANS", 7, &[], Unit::Segments) => |l, _| l.since.map(|s| s.retrans).into();
        /// Segments retransmitted since the connection began.
        RETRANS_TOTAL: right("RETRANS_TOTAL", 13, &["total_retrans"], Unit::Segments)
            => |l, _| l.row.total_retrans.into();
        /// Congestion window, segments.
        CWND: right("CWND", 5, &["cwnd"], Unit::Segments) => |l, _| l.row.cwnd.into();
        /// Both directions, since the sample before; none where there was none.
        RATE: right("RATE", 11, &[], Unit::BitsPerSecond) => |l, _| l.bits_per_s().map(bits_per_s).into();
        /// State of congestion control: Open when all is well, else Disorder, CWR, Recovery or Loss.
        CA: left("CA", 8, &[], Unit::Name) => |l, _| l.row.ca_state.as_ref().into();
        /// Congestion control.
        CONGESTION: left("CONGESTION", 10, &[], Unit::Name) => |l, _| l.row.congestion.as_ref().into();
        OWNER: OWNER => |l, _| match (l.owner.pid, l.unaccepted) {
            (None, true) => "not accepted".into(),
            _ => who(&l.owner).into(),
        };
    }

    /// Congestion control works against losses.
    fn loses(&self) -> bool {
        self.row
            .ca_state
            .as_ref()
            .is_some_and(|state| matches!(&**state, "Recovery" | "Loss"))
    }
}

pub(super) const COLUMNS: &[Shown<Sampled>] = &[
    stays(Sampled::REMOTE),
    goes(3, Sampled::LOCAL),
    stays(Sampled::RTT),
    goes(1, Sampled::RETRANS).looking(|l| warning_if(l.repairs() > 0)),
    goes(5, Sampled::RETRANS_TOTAL),
    goes(1, Sampled::CWND),
    goes(1, Sampled::RATE),
    goes(3, Sampled::RECVQ),
    goes(2, Sampled::SENDQ),
    goes(4, Sampled::CA).looking(|l| warning_if(l.loses())),
    goes(5, Sampled::CONGESTION),
    goes(6, Sampled::NETNS),
    goes(1, Sampled::OWNER),
];

pub(super) fn content(snapshot: &Snapshot, order: SocketOrder, how: &How) -> Content {
    let lines = snapshot.sockets.iter();
    let lines = lines.map(|s| (Target::Socket(s.row.netns, s.row.sock), s.clone()));
    let note = format!("{} (s: other order)", order.says());
    let nothing = match order {
        SocketOrder::Trouble | SocketOrder::Rtt => {
            "No connection sent or received anything in these seconds."
        }
        SocketOrder::Retrans => "No connection that is alive has retransmitted anything.",
        SocketOrder::Slow => "No connection has anything waiting to be sent.",
        SocketOrder::Queue => "No connection has anything in its queues.",
    };
    Content::of(COLUMNS, lines, how, note, nothing)
}
