//! What is kept of ends that a story forgot: how many there were of each service, and where their time went.

use crate::bounded::BoundedTree;
use crate::conn::{Conn, Sampled};
use crate::listeners::Listeners;

use super::service::{MAX_SERVICES, ServiceKey, Sums, place_by};
use super::state::{Role, Spent};

/// Sums over ends that were forgotten, so that shares are still of all ends.
#[derive(Debug, Default)]
pub(crate) struct FoldedEnds {
    /// By service and, for ends that connect, by the process that did.
    by_caller: BoundedTree<(ServiceKey, Option<u32>), Sums, MAX_SERVICES>,
}

impl FoldedEnds {
    /// Takes an end that is forgotten. `told` is whether listeners were recorded, `span` when the
    /// recording began and ended.
    pub(crate) fn take(
        &mut self,
        conn: &Conn,
        sampled: Option<&Sampled>,
        listeners: &Listeners,
        told: bool,
        span: (u64, u64),
    ) {
        let listener = if conn.connects() {
            None
        } else {
            listeners.taking(conn.netns, conn.local, conn.family)
        };
        let listener = listener.and_then(|i| listeners.all.get(i as usize));
        let (role, at) = place_by(listener, conn, told);
        let pid = conn.pid.filter(|_| role == Role::Client);
        let key = ((conn.netns, role, at), pid);
        let sums = self.by_caller.slot(key, Sums::default);
        if let Some(pid) = pid {
            sums.owners.add(pid, conn.comm.as_deref().unwrap_or(""), 1);
        }
        sums.add(span, conn, sampled, role);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&(ServiceKey, Option<u32>), &Sums)> {
        self.by_caller.iter()
    }

    /// Ends whose service is not known.
    pub(super) fn untold(&self) -> u64 {
        self.by_caller.folded()
    }
}

/// Ends of one service that a story does not hold one by one.
#[derive(Clone, Copy, Debug)]
pub struct Forgotten {
    /// The service.
    pub service: ServiceKey,
    /// The process that connected, if the ends connect and it is known.
    pub pid: Option<u32>,
    /// How many.
    pub ends: u64,
    /// Where their time went, all of them together.
    pub spent: Spent,
}
