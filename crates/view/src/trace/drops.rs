//! `trace drops`: every TCP packet that this host threw away, why and where; `LOCAL` is its destination.

use recording::EventKind;
use recording::tables::Event;

use super::{About, Lines};
use crate::columns::{Unit, Value, columns, json, left};
use crate::numbers::flags;

/// A packet that was thrown away.
pub(crate) struct Dropped;

columns! {
    About<Dropped> = "drop" {
        text TIME PID COMM LOCAL REMOTE FLAGS STATE REASON LOCATION NETNS;
        json TIME PID COMM CGROUP NETNS FAMILY LOCAL REMOTE FLAGS SEQ STATE REASON LOCATION;
    }
    /// Its TCP flags; in JSON the byte.
    FLAGS: left("FLAGS", 11, &["flags"], Unit::Id)
        => |l, _| Value::Told(l.event.flags.into(), flags(l.event.flags));
    /// Its sequence number.
    SEQ: json(&["seq"], Unit::Seq) => |l, _| l.event.seq.into();
    /// The kernel function that threw it away.
    LOCATION: left("LOCATION", 20, &["location"], Unit::Name) => |l, _| l.event.location.as_ref().into();
}

pub(super) struct Drops;

impl Lines for Drops {
    type More = Dropped;

    fn more(&mut self, e: &Event) -> Option<Dropped> {
        (e.kind == EventKind::Drop).then_some(Dropped)
    }
}
