//! Where time went, service by service, and what of it nothing explains.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Endpoint;
use analysis::account::Spent;
use analysis::words::{duration, percent, plural};
use explain::{DroppedFor, Service, State, Unexplained, account, limits};
use recording::Addr;

use super::seconds;
use crate::page::Page;
use crate::requests;
use crate::style::Look;

/// Services that are shown; the rest is in the JSON.
const MAX_SERVICES: usize = 8;
/// Reasons of drops that are named of one service.
const MAX_REASONS: usize = 2;
/// A smaller share of a service's time is not shown.
const LEAST_SHARE: f64 = 0.005;

/// Where time went, a line for each service; nothing when no connection was seen.
pub(super) fn accounts(page: &mut Page, services: &[Service]) {
    if services.is_empty() {
        return;
    }
    page.heading("WHERE THE TIME WENT");
    let lines = lines(services);
    for line in lines.iter().take(MAX_SERVICES) {
        page.paragraph("  - ", Look::Plain, line);
    }
    let more = lines.len().saturating_sub(MAX_SERVICES);
    if more > 0 {
        let says = format!("{} more in --json", plural(more as u64, "service"));
        page.paragraph("  - ", Look::Faint, &says);
    }
}

/// A line for each service. Many ports of one address to which one program connects (a scan, a mesh of workers) are one
/// line, where the first of them would stand.
pub(super) fn lines(services: &[Service]) -> Vec<String> {
    let mut ports: BTreeMap<_, Vec<&Service>> = BTreeMap::new();
    for service in services.iter().filter(|s| s.role == account::Role::Client) {
        ports.entry(caller(service)).or_default().push(service);
    }
    ports.retain(|_, all| all.len() > MAX_SERVICES);
    let mut told = BTreeSet::new();
    let line = |service: &Service| match ports.get(&caller(service)) {
        Some(all) if service.role == account::Role::Client => {
            told.insert(caller(service)).then(|| together(all))
        }
        _ => Some(account(service)),
    };
    services.iter().filter_map(line).collect()
}

/// Who connects to which address.
fn caller(service: &Service) -> (u32, Addr, Option<u32>) {
    (service.netns.inode, service.at.addr, service.pid)
}

/// Services of one address and one caller.
fn together(all: &[&Service]) -> String {
    let mut spent = Spent::default();
    all.iter()
        .for_each(|service| spent.absorb(&service.spent_s));
    let ends: u64 = all.iter().map(|service| service.ends).sum();
    let first = all[0];
    let who = match (&first.comm, first.pid) {
        (Some(comm), Some(pid)) => format!(" ({comm}, pid {pid})"),
        _ => String::new(),
    };
    format!(
        "→ {}{who}: {}, {}, {}: {}",
        first.at.addr,
        plural(all.len() as u64, "port"),
        plural(ends, "connection"),
        duration(spent.total()),
        states(&spent)
    )
}

/// What nothing claims, a line for each service.
pub(super) fn unexplained(page: &mut Page, services: &[Unexplained]) {
    for service in services.iter().take(MAX_SERVICES) {
        page.paragraph("  - ", Look::Warning, &unexplained_line(service));
    }
}

/// What nothing claims of one service.
pub(crate) fn unexplained_line(service: &Unexplained) -> String {
    let place = named(service.role, service.at, &None, &service.comm, service.pid);
    format!(
        "unexplained at {place}: {} of {} in which it was not idle ({}){}",
        seconds(service.unexplained_s),
        seconds(service.awake_s),
        states(&service.spent_s),
        dropped(&service.dropped)
    )
}

/// What this host dropped of them, and what the reasons mean.
fn dropped(all: &[DroppedFor]) -> String {
    let each = all.iter().take(MAX_REASONS).map(|d| {
        let means = d
            .means
            .as_deref()
            .unwrap_or("a reason that is not known here");
        format!(
            "; this host dropped {} of these connections: {means} ({})",
            plural(d.count, "packet"),
            d.reason
        )
    });
    each.collect()
}

/// A service by its place, what that is called, and its process.
fn named(
    role: account::Role,
    at: Endpoint,
    name: &Option<String>,
    comm: &Option<String>,
    pid: Option<u32>,
) -> String {
    let arrow = match role {
        account::Role::Server => "",
        account::Role::Client | account::Role::Unknown => "→ ",
    };
    let process = comm.as_ref().zip(pid);
    let process = process.map(|(comm, pid)| format!("{comm}, pid {pid}"));
    let known: Vec<String> = name.iter().cloned().chain(process).collect();
    match known.join("; ") {
        none if none.is_empty() => format!("{arrow}{at}"),
        known => format!("{arrow}{at} ({known})"),
    }
}

/// States with their shares, the longest first.
fn states(spent: &Spent) -> String {
    let total = spent.total().max(1) as f64;
    let share = |state: State| spent.of(state) as f64 / total;
    let mut states: Vec<State> = State::ALL.into_iter().collect();
    states.sort_by(|a, b| share(*b).total_cmp(&share(*a)));
    let told = states.into_iter().filter(|s| share(*s) >= LEAST_SHARE);
    let told = told.map(|s| format!("{} {}", s.says(), percent(share(s))));
    told.collect::<Vec<_>>().join(", ")
}

/// What is busy for a smaller share of its time has no shares of it: 97 % of next to nothing is nobody's trouble.
const SHOWN_BUSY: f64 = 0.05;

/// One service: whose, how much, and what its time went with: that of its requests, or where these are not most of it
/// (transfers, connecting) the states of its connections, the longest first.
pub fn account(service: &Service) -> String {
    let place = named(
        service.role,
        service.at,
        &service.name,
        &service.comm,
        service.pid,
    );
    let all = service.spent_s.total();
    let requests = service.requests.as_ref();
    let waited = service.spent_s.waiting() as f64 / 1e9;
    let waited_in_requests = requests.map_or(0.0, requests::waited_s);
    let idle = service.spent_s.of(State::Idle) as f64 / 1e9;
    let busy = waited.max(waited_in_requests);
    let busy = if idle > 0.0 {
        busy / (busy + idle)
    } else {
        1.0
    };
    let ends = plural(service.ends, "connection");
    match requests.zip(requests::counted(service)) {
        Some((_, says)) if busy < SHOWN_BUSY => {
            format!("{place}: {says}; {ends}, busy {}", percent(busy))
        }
        Some((r, says)) if waited_in_requests >= limits::MOST.share() * waited => {
            format!(
                "{place}: {says}{}",
                requests::of_their_time(service.role, r)
            )
        }
        counted => {
            let says = counted.map_or_else(String::new, |(_, says)| format!(" ({says})"));
            format!(
                "{place}: {ends}{says}, {}: {}",
                duration(all),
                states(&service.spent_s),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use explain::account::{Percentiles, Requests};

    use super::*;

    /// Two connections that were in a state for so long, ns, and idle for the rest; 62 requests that took so long, s.
    fn line(state: State, ns: u64, idle_ns: u64, requests_s: f64) -> String {
        let mut spent_s = Spent::default();
        spent_s.add(state, ns);
        spent_s.add(State::Idle, idle_ns);
        let mut service = synth_service();
        service.spent_s = spent_s;
        let requests = service.requests.as_mut().expect("has requests");
        requests.total_s = requests_s;
        account(&service)
    }

    #[test]
    fn what_an_address_is_called_stands_beside_it() {
        let mut service = synth_service();
        service.name = Some("db-primary".into());
        let says = account(&service);
        assert!(says.contains(":0 (db-primary): "), "{says}");
        (service.pid, service.comm) = (Some(7), Some("app".into()));
        let says = account(&service);
        assert!(says.contains(":0 (db-primary; app, pid 7): "), "{says}");
    }

    fn synth_service() -> Service {
        Service {
            netns: analysis::Netns {
                inode: 1,
                name: None,
            },
            role: account::Role::Client,
            at: Endpoint::default(),
            pid: None,
            comm: None,
            home: None,
            name: None,
            opened: None,
            ends: 2,
            duplex: 0,
            bytes: 0,
            unread_ms: 0,
            samples: 20,
            total_s: 20.0,
            spent_s: Spent::default(),
            requests: Some(Requests {
                exchanges: 62,
                response: Some(Percentiles {
                    p50_s: 0.002,
                    p90_s: 0.003,
                    p99_s: 0.004,
                }),
                ..Requests::default()
            }),
        }
    }

    #[test]
    fn the_ports_of_a_scan_are_one_line() {
        let port = |port| Service {
            at: Endpoint {
                port,
                ..Endpoint::default()
            },
            ends: 1,
            requests: None,
            ..synth_service()
        };
        let mut all: Vec<_> = (1..=1_000).map(port).collect();
        all.insert(0, synth_service());
        all[0].role = account::Role::Server;
        let lines = lines(&all);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[1].starts_with("→ ::: 1,000 ports, 1,000 connections"),
            "{}",
            lines[1]
        );
        // A few are told apart.
        assert_eq!(super::lines(&all[..9]).len(), 9);
    }

    #[test]
    fn a_pool_at_rest_has_no_shares_and_a_transfer_no_requests_time() {
        const S: u64 = 1_000_000_000;
        let rest = line(State::Awaiting, S / 10, 20 * S, 0.14);
        assert!(
            rest.ends_with("62 requests, p50 2 ms, p99 4 ms; 2 connections, busy 0.7 %"),
            "{rest}"
        );
        let transfer = line(State::Path, 20 * S, 0, 0.14);
        assert!(
            transfer
                .ends_with("2 connections (62 requests, p50 2 ms, p99 4 ms), 20 s: sending 100 %"),
            "{transfer}"
        );
        let asks = line(State::Awaiting, 12 * S, 8 * S, 11.0);
        assert!(asks.ends_with("62 requests, p50 2 ms, p99 4 ms"), "{asks}");
    }
}
