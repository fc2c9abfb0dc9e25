//! The chain of stripped options: which connections lack them, what it costs, both ends' settings, no cookie.

use analysis::words::{count, list};

use super::Stripped;
use crate::vocabulary::*;

pub(super) fn steps(place: &Stripped, missing: &str) -> Vec<Step> {
    let mut steps = vec![options(place, missing)];
    if place.scaling_lost() {
        steps.extend(place.throughput.rate_step(place.story, place.netns));
        steps.extend(place.throughput.window_step());
    }
    steps.extend([settings(place), cookies(place)]);
    steps
}

fn options(place: &Stripped, missing: &str) -> Step {
    let run = if place.affected() == 1 { "runs" } else { "run" };
    let without = Quantity::of(place.affected(), "connection").rows(place.without_options().rows());
    let with = Quantity::count(place.kept.len() as u64);
    say!(
        "{without} {run} without {missing}; {with} with.",
        without,
        with
    )
}

fn settings(place: &Stripped) -> Step {
    let story = place.story;
    let mut namespaces = vec![place.netns];
    for peer in place.conns().filter_map(|c| story.conn(c.peer?)) {
        if !namespaces.contains(&peer.netns) && namespaces.len() < SHOWN_ROWS {
            namespaces.push(peer.netns);
        }
    }
    let name = |n: &u32| story.netns(*n).name.unwrap_or_else(|| n.to_string());
    let named = list(&namespaces.iter().map(name).collect::<Vec<_>>());
    let offered = match place.proven {
        0 => "this end",
        _ => "both ends",
    };
    let rows = namespaces.iter().flat_map(|n| {
        let settings = [sysctl::TCP_SACK, sysctl::TCP_WINDOW_SCALING];
        settings.map(|name| story.settings.get(*n, name).map(|v| v.row))
    });
    Step::new(format!(
        "net.ipv4.tcp_sack and net.ipv4.tcp_window_scaling are on in {named}, so {offered} offered them."
    ))
    .number("namespaces", namespaces.len())
    .rows(rows.flatten())
}

fn cookies(place: &Stripped) -> Step {
    let lacking = place.without_options();
    let made = match place.here {
        Some(_) => lacking.count() - lacking.created(None),
        None => 0,
    };
    let received = place
        .story
        .counters
        .rise(place.netns, counter::SYNCOOKIES_RECV);
    let counted = match received.value {
        0 => "the namespace never accepted a cookie".into(),
        _ => format!("SyncookiesRecv rose by {}", count(received.by)),
    };
    let says = match (place.here, made) {
        (None, _) => "Whether the server sent cookies is not visible from this side.".into(),
        (Some(_), 0) => format!("Their creation was not seen; {counted}."),
        (Some(_), n) => format!(
            "No cookie was involved: the kernel's stack shows {} created the ordinary way, and {counted}.",
            count(n)
        ),
    };
    Step::new(says)
        .number("made_without_cookie", made)
        .number(counter::short(counter::SYNCOOKIES_RECV), received.by)
        .number("SyncookiesRecv_total", received.value)
        .rows(lacking.rows().into_iter().take(1))
        .rows(received.rows().take(1))
}
