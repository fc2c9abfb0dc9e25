//! `trace states`: every change of state, and how long the old state lasted.

use ahash::AHashMap;
use recording::tables::Event;
use recording::{EventKind, TcpState};

use super::{About, Lines};
use crate::columns::{Unit, Value, columns, left, right};
use crate::numbers::{ms, rounded};

/// Sockets whose last change is remembered; the duration of others is not shown.
const MAX_SOCKETS: usize = 1 << 20;

/// A change of state: how long the old one lasted, ns.
pub(crate) struct Changed(Option<u64>);

columns! {
    About<Changed> = "state" {
        text TIME PID COMM LOCAL REMOTE OLD ARROW NEW IN_OLD NETNS;
        json TIME PID COMM CGROUP NETNS FAMILY LOCAL REMOTE OLD NEW IN_OLD;
    }
    /// State before.
    OLD: left("OLD", 11, &["old_state"], Unit::Name) => |l, _| l.event.old_state.as_ref().into();
    /// From the old state to the new one.
    ARROW: left("->", 2, &[], Unit::Words) => |_, _| "->".into();
    /// State after.
    NEW: left("NEW", 11, &["state"], Unit::Name) => |l, _| l.event.state.as_ref().into();
    /// Time in the old state, where its beginning was seen.
    IN_OLD: right("IN-OLD(ms)", 12, &["in_old_state_ms"], Unit::Ms) => |l, _| match l.more.0 {
        Some(ns) => Value::Told(rounded(ns as f64 / 1e6).into(), ms(ns)),
        None => recording::Value::Null.into(),
    };
}

#[derive(Default)]
pub(super) struct States {
    /// When each socket came into which state.
    since: AHashMap<u64, (u64, Option<TcpState>)>,
}

impl Lines for States {
    type More = Changed;

    fn more(&mut self, e: &Event) -> Option<Changed> {
        if e.kind != EventKind::State {
            return None;
        }
        let Some(sock) = e.sock else {
            return Some(Changed(None));
        };
        // No duration is shown for a change that was not seen, or that was another socket's with the same id.
        let since = self.since.remove(&sock);
        let since = since.filter(|(_, state)| *state == e.old_state);
        if e.state != Some(TcpState::Close) && self.since.len() < MAX_SOCKETS {
            self.since.insert(sock, (e.time_ns, e.state.clone()));
        }
        let lasted_ns = since.and_then(|(since, _)| e.time_ns.checked_sub(since));
        Some(Changed(lasted_ns))
    }
}
