//! Connections that a service's ends opened while others of the same caller had been given up: what reuse saves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::service::ServiceKey;
use super::state::{Role, State};
use crate::conn::{Conn, Side};
use crate::{Story, words};

/// The connections of one service that were made during the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Opened {
    /// How many were established.
    pub connections: u64,
    /// Of those, such that their process had held as many before and closed them: it could have kept these. Of a
    /// service that answers it is not known which client asks, and this is 0.
    pub again: u64,
    /// How long connect() took of these, s; those whose SYN was retransmitted are not among them.
    pub again_s: f64,
    /// Of all that ended, the share that this end closed first; null where none ended.
    pub closed_here: Option<f64>,
}

/// One caller's, as they come together: a process, and `None` of all that answer.
#[derive(Debug, Default)]
struct Caller {
    /// When each of them began, and when it ended: +1 and -1.
    steps: Vec<(u64, i64)>,
    connections: u64,
    /// Those whose first SYN was answered, and how long they took to connect, ns.
    answered: (u64, u64),
}

/// Of each service.
#[derive(Debug, Default)]
pub(super) struct AllOpened {
    by_caller: BTreeMap<(ServiceKey, Option<u32>), Caller>,
    /// Those that this end closed first, and all that ended.
    closed: BTreeMap<ServiceKey, (u64, u64)>,
}

impl AllOpened {
    pub(super) fn add(&mut self, service: ServiceKey, conn: &Conn, end_ns: u64) {
        if conn.established_ns.is_none() && conn.side != Side::Older {
            return;
        }
        let asks = service.1 == Role::Client;
        let caller = conn.pid.filter(|_| asks);
        let caller = self.by_caller.entry((service, caller)).or_default();
        if asks {
            let ended_ns = conn.ended_ns.unwrap_or(end_ns).max(conn.start_ns);
            caller.steps.push((conn.start_ns, 1));
            caller.steps.push((ended_ns, -1));
        }
        if conn.side != Side::Older {
            caller.connections += 1;
            if let Some(took_ns) = conn.connect_ns().filter(|_| conn.syn_retries == 0) {
                caller.answered.0 += 1;
                caller.answered.1 = caller.answered.1.saturating_add(took_ns);
            }
        }
        if conn.ended_ns.is_some() {
            let closed = self.closed.entry(service).or_default();
            closed.0 += u64::from(conn.closed_first);
            closed.1 += 1;
        }
    }

    /// What is known of each service. Those that were folded away had ended, and their callers have others.
    pub(super) fn told(self, story: &Story) -> BTreeMap<ServiceKey, Opened> {
        let mut all: BTreeMap<ServiceKey, Opened> = BTreeMap::new();
        for ((service, _), caller) in self.by_caller {
            let told = all.entry(service).or_default();
            told.connections = told.connections.saturating_add(caller.connections);
            if service.1 != Role::Client {
                continue;
            }
            // As many as it held at one time, it needed.
            let held = most_at_once(caller.steps);
            let again = caller.connections.saturating_sub(held);
            let (n, ns) = caller.answered;
            told.again = told.again.saturating_add(again);
            told.again_s += ns as f64 / 1e9 * again.min(n) as f64 / n.max(1) as f64;
        }
        for ((service, caller), sums) in story.folded_ends.all() {
            let told = all.entry(*service).or_default();
            told.connections = told.connections.saturating_add(sums.ends);
            if caller.is_some() && service.1 == Role::Client {
                told.again = told.again.saturating_add(sums.ends);
                told.again_s += sums.spent.of(State::Connecting) as f64 / 1e9;
            }
        }
        for (service, opened) in &mut all {
            opened.again_s = words::rounded(opened.again_s);
            let closed = self.closed.get(service);
            opened.closed_here = closed.map(|(n, of)| words::rounded(*n as f64 / *of as f64));
        }
        all
    }
}

/// The most that were open at one time. One that ends as another begins could have been it.
fn most_at_once(mut steps: Vec<(u64, i64)>) -> u64 {
    steps.sort_unstable();
    let mut open = 0i64;
    let most = steps.iter().map(|(_, step)| {
        open = open.saturating_add(*step);
        open
    });
    u64::try_from(most.max().unwrap_or(0)).unwrap_or(0)
}
