//! `trace drops`: every TCP packet that this host threw away, why and where.

use recording::EventKind;
use recording::tables::Event;

use super::{About, Lines};
use crate::columns::{Unit, Value, columns, json, left};
use crate::numbers::flags;

/// A packet that was thrown away.
pub(crate) struct Dropped;

columns! {
    About<Dropped> = "drop" {
        text TIME PID COMM TO FROM FLAGS STATE REASON LOCATION;
        json TIME PID COMM CGROUP NETNS FAMILY TO FROM FLAGS SEQ STATE REASON LOCATION;
    }
    /// Its destination, on this host.
    TO: left("TO", 21, &["local_addr", "local_port"], Unit::Address)
        => |l, _| Value::Endpoint(l.event.local_addr, l.event.local_port);
    /// Its source.
    FROM: left("FROM", 21, &["remote_addr", "remote_port"], Unit::Address)
        => |l, _| Value::Endpoint(l.event.remote_addr, l.event.remote_port);
    /// Its TCP flags; in JSON the byte.
    FLAGS: left("FLAGS", 11, &["flags"], Unit::Id)
        => |l, _| Value::Told(l.event.flags.into(), flags(l.event.flags));
    /// Its sequence number.
    SEQ: json(&["seq"], Unit::Seq) => |l, _| l.event.seq.into();
    /// The kernel function that threw it away.
    LOCATION: left("LOCATION", 1, &["location"], Unit::Name) => |l, _| l.event.location.as_ref().into();
}

pub(super) struct Drops;

impl Lines for Drops {
    type More = Dropped;

    fn more(&mut self, e: &Event) -> Option<Dropped> {
        (e.kind == EventKind::Drop).then_some(Dropped)
    }
}
