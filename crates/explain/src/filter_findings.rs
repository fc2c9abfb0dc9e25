//! Keeps the findings that the user asked about: by the connections that suffer, by the listener and the processes
//! that they name. A finding about no connection in particular concerns all.

use std::net::SocketAddr;

use ahash::{AHashMap, AHashSet};
use analysis::account::Service;
use analysis::{Conn, ConnId, Story};
use recording::tables::Listener;
use recording::{Error, Filter, Recording};

use crate::finding::Finding;
use crate::lost::{End, end};
use crate::place::Place;

/// What the filter asks for, in a recording.
pub(crate) struct Selection<'a> {
    story: &'a Story,
    filter: &'a Filter,
    /// The ends that are asked for; `None` when all are.
    ends: Option<AHashSet<End>>,
    cgroups: AHashMap<(u32, SocketAddr), u64>,
}

impl<'a> Selection<'a> {
    pub(crate) fn of(
        story: &'a Story,
        recording: &Recording,
        filter: &'a Filter,
    ) -> Result<Selection<'a>, Error> {
        let asks = filter.asks_for_tasks() || !filter.ports.is_empty() || !filter.addrs.is_empty();
        Ok(Selection {
            story,
            filter,
            ends: asks.then(|| asked_for(story, filter)),
            cgroups: cgroups(recording, filter)?,
        })
    }

    /// Whether it asks for a finding.
    pub(crate) fn shows(&self, f: &Finding) -> bool {
        let inode = f.scope.netns.inode;
        if inode != 0 && !self.filter.netns_ok(inode) {
            return false;
        }
        let Some(ends) = &self.ends else { return true };
        let mut ids = ids(f).iter();
        let is_end = ids.any(|id| self.story.conn(*id).is_some_and(|c| ends.contains(&end(c))));
        is_end || f.lost_s.ends().any(|e| ends.contains(&e)) || names(f, self.filter, &self.cgroups)
    }
}

/// Whether anything that the filter asks for was seen: a typo in a filter must not read as a clean bill of
/// health. `None` where it asks for all, or only for what is known to be there: namespaces and cgroups, whose
/// names have been looked up.
pub(crate) fn saw(story: &Story, filter: &Filter, account: &[Service]) -> Option<bool> {
    let tasks = filter.pids.is_empty() && filter.comms.is_empty();
    if tasks && filter.ports.is_empty() && filter.addrs.is_empty() {
        return None;
    }
    let listens = |l: &analysis::Listener| {
        let place = SocketAddr::new(l.local.addr.ip(), l.local.port);
        let mut holders = l.holders.iter();
        filter.netns_ok(l.netns)
            && is_at(place, filter)
            && (!filter.asks_for_tasks()
                || holders.any(|h| filter.task_ok(Some(h.pid), Some(&h.comm), None)))
    };
    let ends = asked_for(story, filter);
    let mut ends = ends.iter();
    let mut listeners = story.listeners.all.iter();
    let saw = !account.is_empty()
        || ends.any(|(netns, ..)| filter.netns_ok(*netns))
        || listeners.any(listens);
    Some(saw)
}

/// The ends that a finding is about, where it is about some.
fn ids(f: &Finding) -> &[ConnId] {
    f.place.as_ref().map_or(&[], Place::ids)
}

/// The ends of the connections that are asked for: both, where both are here.
pub(crate) fn asked_for(story: &Story, filter: &Filter) -> AHashSet<End> {
    let owned = |conn: &Conn| {
        let owner = story.owner(conn);
        let (pid, comm) = owner.unzip();
        filter.task_ok(pid, comm.as_deref(), None)
    };
    let mut asked = AHashSet::new();
    for conn in &story.conns {
        let there = filter.ports_ok(conn.local.port, conn.remote.port)
            && filter.addrs_ok(conn.local.addr, conn.remote.addr);
        let peer = conn.peer.and_then(|id| story.conn(id));
        if there && (owned(conn) || peer.is_some_and(owned)) {
            asked.insert(end(conn));
        }
    }
    asked
}

/// Removes the services that the filter does not ask for.
pub(crate) fn services(
    account: &mut Vec<Service>,
    recording: &Recording,
    filter: &Filter,
) -> Result<(), Error> {
    let cgroups = cgroups(recording, filter)?;
    account.retain(|service| {
        let place = SocketAddr::new(service.at.addr.ip(), service.at.port);
        let cgroup = cgroups.get(&(service.netns.inode, place)).copied();
        filter.netns_ok(service.netns.inode)
            && is_at(place, filter)
            && filter.task_ok(service.pid, service.comm.as_deref(), cgroup)
    });
    Ok(())
}

/// Whether a listener or destination is asked for; one at any address is at each.
fn is_at(place: SocketAddr, filter: &Filter) -> bool {
    let addr = place.ip().into();
    let there = filter.addrs_ok(addr, addr) || place.ip().is_unspecified();
    there && filter.ports_ok(place.port(), 0)
}

/// cgroups of listeners by place; only when they are asked for.
fn cgroups(
    recording: &Recording,
    filter: &Filter,
) -> Result<AHashMap<(u32, SocketAddr), u64>, Error> {
    let mut cgroups = AHashMap::new();
    if filter.cgroups.is_empty() {
        return Ok(cgroups);
    }
    for batch in recording.scan::<Listener>()? {
        for (_, l) in batch?.rows() {
            if let Some(cgroup) = l.cgroup {
                let place = SocketAddr::new(l.local_addr.ip(), l.local_port);
                cgroups.insert((l.netns, place), cgroup);
            }
        }
    }
    Ok(cgroups)
}

/// Whether the finding's place and one of its processes are asked for.
fn names(f: &Finding, filter: &Filter, cgroups: &AHashMap<(u32, SocketAddr), u64>) -> bool {
    let scope = &f.scope;
    let place: Option<SocketAddr> = scope.listener.parse().ok();
    let of_some = !ids(f).is_empty() || f.lost_s.ends().next().is_some();
    let at = match place {
        Some(place) => is_at(place, filter),
        None => !of_some || (filter.ports.is_empty() && filter.addrs.is_empty()),
    };
    if !at {
        return false;
    }
    let cgroup = place.and_then(|p| cgroups.get(&(scope.netns.inode, p)).copied());
    let ok = |pid: Option<u32>, comm: Option<&str>| filter.task_ok(pid, comm, cgroup);
    let holds = |pid: &u32| ok(Some(*pid), None);
    let did = scope
        .processes
        .iter()
        .any(|p| ok(Some(p.pid), Some(&p.comm)));
    // The kernel's own threads, tables and rules serve every process.
    let everybodys = scope.pid.is_none() && !of_some && place.is_none();
    everybodys || ok(scope.pid, scope.comm.as_deref()) || did || scope.pids.iter().any(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, explain, explain_with};
    use synth::cases;

    fn found(filter: Filter) -> usize {
        let written = cases::accept_queue().write().unwrap();
        let options = Options::default().about(filter);
        let explained = explain_with(&written.recording, &options).unwrap();
        assert_eq!(explained.summary.findings, explained.findings.len());
        explained.findings.len()
    }

    #[test]
    fn only_what_was_asked_about_is_reported() {
        let all = found(Filter::default());
        assert!(all > 0);
        let explained = explain(&cases::accept_queue().write().unwrap()).unwrap();
        let scope = &explained.findings[0].scope;
        let comm = scope.comm.clone().unwrap();
        let pid = |pid| Filter {
            pids: vec![pid],
            ..Filter::default()
        };
        let port = |port| Filter {
            ports: vec![port],
            ..Filter::default()
        };
        assert_eq!(found(pid(scope.pid.unwrap())), all);
        assert_eq!(found(pid(4_000_000)), 0);
        let place: SocketAddr = scope.listener.parse().unwrap();
        assert_eq!(found(port(place.port())), all);
        assert_eq!(found(port(9)), 0);
        let both = Filter {
            comms: vec![comm],
            ..port(9)
        };
        assert_eq!(found(both), 0, "all kinds must match");
    }

    /// The causes found in a recording, of those that a filter asks for.
    fn causes(f: &synth::Fixture, filter: Filter) -> Vec<&'static str> {
        let written = f.write().unwrap();
        let options = Options::default().about(filter);
        let explained = explain_with(&written.recording, &options).unwrap();
        explained
            .findings
            .iter()
            .map(|f| f.cause.as_str())
            .collect()
    }

    #[test]
    fn a_filter_that_matches_nothing_is_known() {
        let matched = |filter: Filter| {
            let written = cases::accept_queue().write().unwrap();
            let options = Options::default().about(filter);
            explain_with(&written.recording, &options)
                .unwrap()
                .summary
                .matched
        };
        let comm = |comm: &str| Filter {
            comms: vec![comm.into()],
            ..Filter::default()
        };
        assert_eq!(matched(Filter::default()), None);
        assert_eq!(matched(comm("iperf3")), Some(true));
        assert_eq!(matched(comm("nosuch")), Some(false));
        let port = |port| Filter {
            ports: vec![port],
            ..Filter::default()
        };
        assert_eq!(
            (matched(port(5_000)), matched(port(9))),
            (Some(true), Some(false))
        );
    }

    #[test]
    fn findings_about_paths_and_ends_are_narrowed_and_not_lost() {
        let cases = [
            cases::bloated(),
            cases::lossy(),
            cases::shaped(),
            cases::nagle(),
            cases::slow_reader(),
            cases::tails(),
            cases::black_hole(),
        ];
        for f in cases {
            let all = causes(&f, Filter::default());
            assert!(!all.is_empty());
            let of = |ports: Vec<u16>, addrs: &[&str]| Filter {
                ports,
                addrs: addrs.iter().map(|a| a.parse().unwrap()).collect(),
                ..Filter::default()
            };
            assert_eq!(causes(&f, of(vec![5_000], &[])), all);
            assert_eq!(causes(&f, of(vec![], &["10.79.0.0/24"])), all);
            assert_eq!(causes(&f, of(vec![9], &[])), [""; 0]);
            assert_eq!(causes(&f, of(vec![5_000], &["192.0.2.1"])), [""; 0]);
        }
    }

    #[test]
    fn either_end_of_a_connection_asks_for_what_slows_it() {
        let f = cases::bloated();
        let all = causes(&f, Filter::default());
        let by = |comm: &str| Filter {
            comms: vec![comm.into()],
            ..Filter::default()
        };
        assert_eq!(causes(&f, by("iperf3")), all);
        assert_eq!(causes(&f, by("wrk")), all);
        assert_eq!(causes(&f, by("nobody")), [""; 0]);
    }
}
