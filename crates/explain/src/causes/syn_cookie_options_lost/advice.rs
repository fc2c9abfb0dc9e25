//! What to do about cookies: a queue that holds a burst, and timestamps that carry the options.

use analysis::words::plural;

use super::Cookies;
use crate::actions::{TIMESTAMPS_COST, set_timestamps};
use crate::places::listener::raise_backlog;
use crate::vocabulary::*;

pub(super) fn advice(cookies: &Cookies, scope: &Scope) -> Vec<Advice> {
    let gain = format!(
        "new connections keep their options and can go {}. Existing ones do not change until they reconnect.",
        cookies.throughput.gain()
    );
    let mut advice = if cookies.always() {
        vec![only_when_full(&scope.netns, &gain)]
    } else {
        room(cookies, scope, &gain)
    };
    advice.extend(timestamps(cookies));
    advice
}

fn only_when_full(netns: &Netns, gain: &str) -> Advice {
    set_sysctl(
        netns,
        sysctl::TCP_SYNCOOKIES,
        1,
        "None for a listener whose backlog is as long as its bursts: cookies still answer SYNs that do not fit.",
        format!("While the SYN queue has room no cookie is sent: {gain}"),
    )
}

fn room(cookies: &Cookies, scope: &Scope, gain: &str) -> Vec<Advice> {
    let fits = match cookies.at_once {
        0 => "SYNs that arrive together fit".into(),
        n => format!("{} within one round trip fit", plural(n, "connection")),
    };
    raise_backlog(
        cookies.here,
        scope,
        cookies.new_backlog(),
        "Up to that many clients may wait for accept(). A restart breaks existing connections.",
        format!("{fits}, so no cookie is sent: {gain}"),
    )
}

fn timestamps(cookies: &Cookies) -> Vec<Advice> {
    let effect = "Cookies that are still sent keep SACK and window scaling; both ends need it. Existing connections \
                  do not change until they reconnect.";
    let off = cookies
        .timestamps_off()
        .then_some(cookies.here.listener.netns);
    let off: Vec<u32> = off.into_iter().chain(clients_without(cookies)).collect();
    if off.is_empty() {
        let on = Advice::to("Turn timestamps on at the clients.")
            .by(shell!("sysctl -w net.ipv4.tcp_timestamps=1"))
            .undo(shell!("sysctl -w net.ipv4.tcp_timestamps=0"))
            .at("every client host")
            .risk(TIMESTAMPS_COST)
            .effect(effect);
        return vec![on];
    }
    let netns = off.into_iter().map(|netns| cookies.here.story.netns(netns));
    netns.map(|netns| set_timestamps(&netns, effect)).collect()
}

/// Other namespaces of this host from which its clients connect without timestamps.
fn clients_without(cookies: &Cookies) -> Vec<u32> {
    let story = cookies.here.story;
    let peers = story
        .all(&cookies.lost)
        .filter_map(|(_, c)| story.conn(c.peer?));
    let mut netns: Vec<u32> = peers.map(|p| p.netns).collect();
    netns.sort_unstable();
    netns.dedup();
    netns.retain(|n| *n != cookies.here.listener.netns);
    netns.retain(|n| story.settings.number(*n, sysctl::TCP_TIMESTAMPS) == Some(0));
    netns
}
