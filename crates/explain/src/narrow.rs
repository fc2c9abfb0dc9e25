//! Leaves of the findings those that the user asked about: by the listener and the processes that
//! they name, or by the connections in their evidence.

use std::net::SocketAddr;

use ahash::{AHashMap, AHashSet};
use recording::tables::{Event, Listener};
use recording::{Error, Filter, Recording, RowRef, Table};

use analysis::account::Service;

use crate::finding::Finding;

/// Removes the findings that the filter does not ask for.
pub(crate) fn narrow(
    findings: &mut Vec<Finding>,
    recording: &Recording,
    filter: &Filter,
) -> Result<(), Error> {
    findings.retain(|f| filter.netns_ok(f.scope.netns.inode));
    let asks = filter.asks_for_tasks() || !filter.ports.is_empty() || !filter.addrs.is_empty();
    if !asks || findings.is_empty() {
        return Ok(());
    }
    let shown = evidence(findings, recording, filter)?;
    let cgroups = cgroups(recording, filter)?;
    findings.retain(|f| names(f, filter, &cgroups) || rows(f).any(|at| shown.contains(&at)));
    Ok(())
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

fn rows(finding: &Finding) -> impl Iterator<Item = RowRef> + '_ {
    finding
        .evidence
        .iter()
        .flat_map(|step| step.rows.iter().copied())
}

/// The rows of the evidence that are about what was asked for.
fn evidence(
    findings: &[Finding],
    recording: &Recording,
    filter: &Filter,
) -> Result<AHashSet<RowRef>, Error> {
    let wanted = findings.iter().flat_map(rows);
    let wanted: AHashSet<RowRef> = wanted.filter(|at| at.table == Event::INFO.name).collect();
    let mut shown = AHashSet::new();
    if wanted.is_empty() {
        return Ok(shown);
    }
    for batch in recording.scan::<Event>()? {
        for (at, e) in batch?.rows() {
            if wanted.contains(&at)
                && filter.task_ok(e.pid, e.comm.as_deref(), e.cgroup)
                && filter.ports_ok(e.local_port, e.remote_port)
                && filter.addrs_ok(e.local_addr, e.remote_addr)
            {
                shown.insert(at);
            }
        }
    }
    Ok(shown)
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
    if !place.is_some_and(|p| is_at(p, filter)) {
        return false;
    }
    let cgroup = place.and_then(|p| cgroups.get(&(scope.netns.inode, p)).copied());
    let ok = |pid: Option<u32>, comm: Option<&str>| filter.task_ok(pid, comm, cgroup);
    let holds = |pid: &u32| ok(Some(*pid), None);
    let did = scope
        .processes
        .iter()
        .any(|p| ok(Some(p.pid), Some(&p.comm)));
    ok(scope.pid, scope.comm.as_deref()) || did || scope.pids.iter().any(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, explain_with, fixture};

    fn found(filter: Filter) -> usize {
        let written = fixture::accept_queue().write().unwrap();
        let options = Options::default().about(filter);
        let explained = explain_with(&written.recording, &options).unwrap();
        assert_eq!(explained.summary.findings, explained.findings.len());
        explained.findings.len()
    }

    #[test]
    fn only_what_was_asked_about_is_reported() {
        let all = found(Filter::default());
        assert!(all > 0);
        let explained = fixture::accept_queue().explain().unwrap();
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
}
