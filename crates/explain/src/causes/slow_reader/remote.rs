//! A reader on another host: this host sees only the window that its senders wait for.

use super::CAUSE;
use crate::limits;
use crate::places::path::{End, rate, rwnd_share, sample_rows, senders};
use crate::places::window::{Allowance, HeldBack, held_back};
use crate::vocabulary::*;

/// Senders that another host holds back though its widest windows have room for far more.
pub(super) fn places(story: &Story) -> Vec<HeldBack<'_>> {
    let is_closed = |end: &End| {
        let away = end.conn.peer.is_none();
        // Kernels before Linux 5.4 do not report the window.
        let room = Allowance::of_window(story, end);
        away && room.is_none_or(|window| window.has_room())
    };
    let places = held_back(story).into_iter().map(|mut place| {
        place.held.retain(is_closed);
        place
    });
    places.filter(|place| !place.held.is_empty()).collect()
}

pub(super) fn judge(story: &Story, remote: &HeldBack) -> Finding {
    let to = remote.to;
    let waited = Quantity::share(rwnd_share(&remote.held));
    let n = remote.held.len() as u64;
    let resource = format!("path to {to}");
    let scope = senders(story, remote.netns, &remote.held, Some(resource));
    let windows = remote.held.iter();
    let window = Allowance::usual(windows.filter_map(|e| Allowance::of_window(story, e)));
    let per_s = rate(&remote.held);
    let sent = Quantity::rate(per_s);
    let says = format!(
        "{} of {} to it waited {waited} of their busy time for its window, at {sent} in total.",
        Quantity::count(n),
        Quantity::of(remote.all, "transfer")
    );
    let held = remote.held.iter().map(|e| e.conn);
    Case::new(story, CAUSE, scope.clone())
        .layer(Layer::Peer)
        .noted(super::is_fast(per_s / n.max(1) as f64))
        .placed(Place::ends(&remote.held))
        .title([
            format!("The peer {to} reads too slowly: senders wait {waited} of their busy time."),
            format!("{to} slows its senders down."),
        ])
        .fix([
            format!("Record on {to}, too: its application reads too slowly."),
            "See why the peer's window is closed.".into(),
        ])
        .affects(
            Impact::of(n, remote.all, "connections", says),
            Lost::states(story, held, &[State::PeerWindow], 1.0),
        )
        .because("the kernel counts the time in which the peer's window was full")
        .at_most(
            Level::Medium,
            "the reader is not on this host: what keeps its application from reading is not visible",
        )
        .steps([say!(
            "{senders} waited for the peer's window for {rwnd_limited} of the time with data to send.",
            senders = Quantity::of(n, "sender"),
            rwnd_limited = waited.rows(sample_rows(&remote.held))
        )])
        .steps(window.map(|w| w.told("it was closed at times, as the application reads slowly")))
        .advise([advice(to.to_string(), &scope)])
        .verify(sentence!("`ss -ti dst {to}` shows rwnd_limited below {share} of busy.", to, share = Quantity::share(limits::MOST.share())))
}

fn advice(to: String, scope: &Scope) -> Advice {
    Advice::to(format!(
        "Record on {to} to see what its application does between reads, and make it read data as it arrives."
    ))
    .by(command_in(&scope.netns, shell!("ss -ti dst {to}", to)))
    .at("the receiving host; the command shows rwnd_limited here")
    .risk("Data held back here then waits in its memory: limit it.")
    .effect("The senders are no longer limited to its read rate; the path is then the limit.")
    .change(Change::ReadFaster { listener: to })
}
