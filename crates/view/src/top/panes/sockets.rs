//! The slowest sockets.

use super::{Content, ms, plain, warning_if, who};
use crate::numbers::{endpoint, or_dash};
use crate::stat::detail::bits_per_s;
use crate::top::snapshot::Snapshot;
use crate::top::state::{SocketOrder, Target};
use crate::top::table::{Column, Entry, left, right};

const COLUMNS: &[Column] = &[
    left("REMOTE", 21, 0),
    left("LOCAL", 21, 3),
    right("RTT", 9, 0),
    right("AGAIN", 6, 1),
    right("EVER", 6, 2),
    right("CWND", 6, 1),
    right("RATE", 12, 1),
    right("RECV-Q", 8, 4),
    right("SEND-Q", 8, 2),
    left("CONGESTION", 10, 5),
    left("NETNS", 12, 6),
    left("OWNER", 14, 1),
];

pub(super) fn content(snapshot: &Snapshot, order: SocketOrder) -> Content {
    let entries = snapshot.sockets.iter().map(|s| {
        let row = &s.row;
        let state = row.ca_state.as_deref().unwrap_or("");
        let congestion = match (row.congestion.as_deref(), state) {
            (Some(name), "" | "Open") => name.to_string(),
            (_, state) => state.to_string(),
        };
        Entry {
            target: Target::Socket(row.netns, row.sock),
            cells: vec![
                plain(endpoint(row.remote_addr, row.remote_port)),
                plain(endpoint(row.local_addr, row.local_port)),
                plain(row.rtt_us.map_or("-".into(), |us| ms(us.into()))),
                warning_if(s.again > 0, s.again.to_string()),
                plain(or_dash(row.total_retrans)),
                plain(or_dash(row.cwnd)),
                plain(s.bits_per_s.map_or("-".into(), bits_per_s)),
                plain(or_dash(row.recv_queue)),
                plain(or_dash(row.send_queue)),
                plain(congestion),
                plain(snapshot.netns(row.netns)),
                plain(who(&s.owner)),
            ],
        }
    });
    Content {
        note: format!("{} (s: other order)", order.says()),
        columns: COLUMNS,
        entries: entries.collect(),
        nothing: match order {
            SocketOrder::Rtt => "No connection sent or received anything in these seconds.",
            SocketOrder::Again => "No connection that is alive has retransmitted anything.",
            SocketOrder::Slow => "No connection has anything waiting to be sent.",
            SocketOrder::Queue => "No connection has anything in its queues.",
        }
        .into(),
    }
}
