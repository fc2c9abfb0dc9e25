//! The slowest sockets.

use super::{Content, OWNER, Shown, goes, stays, warning_if, who};
use crate::columns::{Unit, columns, left, right};
use crate::numbers::{bits_per_s, us_in_ms};
use crate::screen::How;
use crate::stat::sockets::Sampled;
use crate::top::snapshot::Snapshot;
use crate::top::state::{SocketOrder, Target};

impl Sampled {
    columns! {
        /// Smoothed round trip time.
        RTT: right("RTT", 9, &["rtt_us"], Unit::Us) => |l, _| l.row.rtt_us.map(|us| us_in_ms(us.into())).into();
        /// Segments retransmitted since the sample before.
        RETRANS: right("RETRANS", 7, &[], Unit::Segments) => |l, _| l.retrans().into();
        /// Segments retransmitted since the connection began.
        RETRANS_TOTAL: right("RETRANS_TOTAL", 13, &["total_retrans"], Unit::Segments)
            => |l, _| l.row.total_retrans.into();
        /// Congestion window, segments.
        CWND: right("CWND", 6, &["cwnd"], Unit::Segments) => |l, _| l.row.cwnd.into();
        /// Both directions, since the sample before.
        RATE: right("RATE", 12, &[], Unit::BitsPerSecond) => |l, _| l.bits_per_s().map(bits_per_s).into();
        /// Congestion control; in trouble the state that it is in.
        CONGESTION: left("CONGESTION", 10, &[], Unit::Words) => |l, _| {
            match (l.row.congestion.as_ref(), l.row.ca_state.as_ref()) {
                (_, Some(state)) if !matches!(&**state, "" | "Open") => state.into(),
                (name, _) => name.into(),
            }
        };
        OWNER: OWNER => |l, _| who(&l.owner).into();
    }
}

pub(super) const COLUMNS: &[Shown<Sampled>] = &[
    stays(Sampled::REMOTE),
    goes(3, Sampled::LOCAL),
    stays(Sampled::RTT),
    goes(1, Sampled::RETRANS).looking(|l| warning_if(l.retrans() > 0)),
    goes(4, Sampled::RETRANS_TOTAL),
    goes(1, Sampled::CWND),
    goes(1, Sampled::RATE),
    goes(4, Sampled::RECVQ),
    goes(2, Sampled::SENDQ),
    goes(5, Sampled::CONGESTION),
    goes(6, Sampled::NETNS),
    goes(1, Sampled::OWNER),
];

pub(super) fn content(snapshot: &Snapshot, order: SocketOrder, how: &How) -> Content {
    let lines = snapshot.sockets.iter();
    let lines = lines.map(|s| (Target::Socket(s.row.netns, s.row.sock), s.clone()));
    let note = format!("{} (s: other order)", order.says());
    let nothing = match order {
        SocketOrder::Rtt => "No connection sent or received anything in these seconds.",
        SocketOrder::Retrans => "No connection that is alive has retransmitted anything.",
        SocketOrder::Slow => "No connection has anything waiting to be sent.",
        SocketOrder::Queue => "No connection has anything in its queues.",
    };
    Content::of(COLUMNS, lines, how, note, nothing)
}
