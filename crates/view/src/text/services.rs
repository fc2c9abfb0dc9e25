//! Where time went, service by service, and what of it nothing explains.

use analysis::Endpoint;
use analysis::account::Spent;
use analysis::words::{duration, percent, plural};
use explain::{Service, State, Unexplained, account};

use super::seconds;
use crate::page::Page;
use crate::requests;
use crate::style::Look;

/// Services that are shown; the rest is in the JSON.
const MAX_SERVICES: usize = 8;
/// A smaller share of a service's time is not shown.
const LEAST_SHARE: f64 = 0.005;

/// Where time went, a line for each service; nothing when no connection was seen.
pub(super) fn accounts(page: &mut Page, services: &[Service]) {
    if services.is_empty() {
        return;
    }
    page.heading("WHERE THE TIME WENT");
    for service in services.iter().take(MAX_SERVICES) {
        page.paragraph("  - ", Look::Plain, &account(service));
    }
    let more = services.len().saturating_sub(MAX_SERVICES);
    if more > 0 {
        let says = format!("{} more in --json", plural(more as u64, "service"));
        page.paragraph("  - ", Look::Faint, &says);
    }
}

/// What nothing claims, a line for each service.
pub(super) fn unexplained(page: &mut Page, services: &[Unexplained]) {
    for service in services.iter().take(MAX_SERVICES) {
        page.paragraph("  - ", Look::Warning, &unexplained_line(service));
    }
}

/// What nothing claims of one service.
pub(crate) fn unexplained_line(service: &Unexplained) -> String {
    let place = named(service.role, service.at, &service.comm, service.pid);
    format!(
        "unexplained at {place}: {} of {} in which it was not idle ({})",
        seconds(service.unexplained_s),
        seconds(service.awake_s),
        states(&service.spent_s)
    )
}

/// A service by its place and its process.
fn named(role: account::Role, at: Endpoint, comm: &Option<String>, pid: Option<u32>) -> String {
    let arrow = match role {
        account::Role::Server => "",
        account::Role::Client | account::Role::Unknown => "→ ",
    };
    match (comm, pid) {
        (Some(comm), Some(pid)) => format!("{arrow}{at} ({comm}, pid {pid})"),
        _ => format!("{arrow}{at}"),
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

/// One service: whose, how much, and its states, the longest first.
pub fn account(service: &Service) -> String {
    let place = named(service.role, service.at, &service.comm, service.pid);
    if let Some(requests) = requests::of_service(service) {
        return format!("{place}: {requests}");
    }
    format!(
        "{place}: {}, {}: {}",
        plural(service.ends, "connection"),
        duration(service.spent_s.total()),
        states(&service.spent_s),
    )
}
