//! A client with addresses of both families tries one and then the other: an attempt that failed cost no more than
//! the time until the other was established.

use ahash::AHashMap;
use analysis::{Conn, Side, Story};

use crate::limits;

/// Namespace, process and port of the other end.
type Caller = (u32, Option<u32>, u16);

/// Connections that were established, by caller.
pub(crate) struct OtherFamily {
    /// When each began and when it was established, and whether it is of IPv4; in order.
    stood: AHashMap<Caller, Vec<(u64, u64, bool)>>,
}

fn caller(conn: &Conn) -> Caller {
    (conn.netns, conn.pid, conn.remote.port)
}

fn is_ipv4(conn: &Conn) -> bool {
    conn.remote.addr.ip().is_ipv4()
}

impl OtherFamily {
    /// For attempts that failed.
    pub(crate) fn of<'a>(story: &Story, failed: impl Iterator<Item = &'a Conn>) -> OtherFamily {
        let mut stood: AHashMap<Caller, Vec<(u64, u64, bool)>> =
            failed.map(|conn| (caller(conn), Vec::new())).collect();
        for conn in story.conns.iter().filter(|c| c.side == Side::Opened) {
            if let (Some(at), Some(stood)) = (conn.established_ns, stood.get_mut(&caller(conn))) {
                stood.push((conn.start_ns, at, is_ipv4(conn)));
            }
        }
        stood.values_mut().for_each(|stood| stood.sort_unstable());
        OtherFamily { stood }
    }

    /// Whether nearly all of so many attempts were made good by the other family.
    pub(crate) fn served<'a>(
        story: &Story,
        failed: impl Iterator<Item = &'a Conn> + Clone,
        of: u64,
    ) -> bool {
        let others = OtherFamily::of(story, failed.clone());
        let served = failed.filter(|c| others.stood_ns(c).is_some()).count() as f64;
        served > 0.0 && served >= limits::NEARLY_ALL.share() * of as f64
    }

    /// When an attempt that failed was made good by the other family; `None` if it was not.
    pub(crate) fn stood_ns(&self, failed: &Conn) -> Option<u64> {
        let attempt = failed.side == Side::Opened && failed.established_ns.is_none();
        let ended = failed.ended_ns.filter(|_| attempt)?;
        let until = ended.saturating_add(limits::NEXT_ATTEMPT.ns());
        let stood = self.stood.get(&caller(failed))?;
        let first = stood.partition_point(|(start, ..)| *start < failed.start_ns);
        let next = stood.iter().skip(first);
        let mut next = next.take_while(|(start, ..)| *start <= until);
        let (_, stood, _) = next.find(|(.., ipv4)| *ipv4 != is_ipv4(failed))?;
        Some(*stood)
    }
}
