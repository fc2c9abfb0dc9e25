//! The chain of a refused connect: who tried, what the kernel answered, what listens nearby.

use std::collections::BTreeMap;

use analysis::Listener;
use analysis::words::{count, duration, list, plural};
use recording::Addr;

use super::{callers, other_addresses, seconds, span};
use crate::limits;
use crate::places::refusals::Refusals;
use crate::vocabulary::*;

pub(super) fn steps(place: &Refusals) -> Vec<Step> {
    let steps = [clients(place), resets(place), counted(place), nearby(place)];
    steps.into_iter().flatten().collect()
}

fn clients(place: &Refusals) -> Option<Step> {
    let callers = callers(place);
    let by = callers.iter().take(3).map(|(pid, comm, n)| {
        let comm = comm.as_deref().unwrap_or("unknown");
        (format!("{comm} (pid {pid})"), *n)
    });
    let by: Vec<_> = by.collect();
    let refused = place.ids.len() as u64;
    let by = match &by[..] {
        [] => String::new(),
        [(one, n)] if *n == refused => format!(", all from {one}"),
        several => {
            let each = several
                .iter()
                .map(|(who, n)| format!("{who} {}", count(*n)));
            format!(": {}", list(&each.collect::<Vec<_>>()))
        }
    };
    let rows = place.clients().filter_map(|c| c.refused.map(RowRef::from));
    let were = if refused == 1 { "was" } else { "were" };
    let attempts = Quantity::of(refused, "connect() attempt").rows(rows.take(SHOWN_ROWS));
    let step = Step::new(format!("{attempts} {were} answered with RST{by}."));
    let step = attempts.told("refused", step).number("tried", place.tried);
    let step = step.number_if("median_ms", place.took_ns().map(|ns| ns as f64 / 1e6));
    (refused > 0).then_some(step)
}

fn resets(place: &Refusals) -> Option<Step> {
    let first = place.groups.first()?;
    let mut remotes: BTreeMap<Addr, u64> = BTreeMap::new();
    for from in place.groups.iter().flat_map(|g| &g.remotes) {
        *remotes.entry(from.addr).or_default() += from.count;
    }
    let most = remotes.iter().max_by_key(|(_, n)| **n);
    let most = most.map_or(String::new(), |(addr, n)| {
        format!(", {} to {addr}", count(*n))
    });
    let (began, ended) = span(place);
    let since = |ns: u64| duration(ns.saturating_sub(place.story.start_ns));
    let reason = first.reason.as_deref().unwrap_or("none given");
    let (began, ended) = (since(began), since(ended));
    let syns = plural(place.sent(), "SYN");
    let step = Step::new(format!(
        "The kernel answered {syns} with a reset, reason {reason}{most}; from {began} to {ended} after \
         the start of the recording."
    ))
    .number("resets", place.sent())
    .number("addresses", remotes.len())
    .number("per_second", place.sent() as f64 / seconds(place))
    .rows(place.rows());
    Some(step)
}

/// The namespace that counted as many resets sent, if nothing else shows who sent them.
fn counted(place: &Refusals) -> Option<Step> {
    if place.told() {
        return None;
    }
    let refused = place.ids.len() as u64;
    let rises = place.story.counters.rises(counter::OUT_RSTS).into_iter();
    let (netns, rise) = rises.min_by_key(|(_, rise)| rise.by.abs_diff(refused))?;
    let netns = namespace(&place.story.netns(netns));
    let resets = Quantity::count(rise.by).rows(rise.rows());
    let connects = plural(refused, "connect");
    limits::NEARLY_ALL.reached(rise.by, refused).then(|| {
        say!(
            "This host sent as many resets: {resets} in {netns} (OutRsts), for {connects} refused.",
            resets
        )
    })
}

/// What listens nearby, or did at other times.
fn nearby(place: &Refusals) -> Option<Step> {
    let group = place.groups.first()?;
    let since = |ns: u64| duration(ns.saturating_sub(place.story.start_ns));
    let row = |l: &Listener| {
        let call = l.call.as_ref().map(|c| RowRef::from(c.row));
        call.or(l.socks.first().map(|s| s.last_row))
    };
    let mut rows: Vec<RowRef> = group.rows.first().copied().into_iter().collect();
    let mut says = Vec::new();
    // The listener that takes such connects before or after the refusals.
    let listeners = &place.story.listeners;
    let index = listeners.taking(group.netns, place.at, group.family);
    if let Some(listener) = index.and_then(|index| listeners.all.get(index as usize)) {
        rows.extend(row(listener));
        if let Some(closed) = listener.closed_ns {
            says.push(format!(
                "a socket stopped listening there at {}",
                since(closed)
            ));
        }
        if let Some(call) = &listener.call {
            says.push(format!("one started to at {}", since(call.time_ns)));
        }
    }
    let others = other_addresses(place);
    if !others.is_empty() {
        let near = listeners.at_port(group.netns, place.at.port);
        rows.extend(near.filter_map(row).take(1));
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        let others = list(&others);
        says.push(format!("sockets listen on the port, but only at {others}"));
    }
    if says.is_empty() {
        says.push("no socket listens on the port, at any address".into());
    }
    let step = Step::new(format!("In that namespace {}.", list(&says)));
    Some(step.number("port", u64::from(place.at.port)).rows(rows))
}
