//! What to do about a full SYN queue: cookies first, then room.

use analysis::words::{count, plural};

use super::Overflow;
use crate::actions::set_timestamps;
use crate::places::listener::raise_backlog;
use crate::vocabulary::*;

pub(super) fn advice(overflow: &Overflow, scope: &Scope) -> Vec<Advice> {
    let set =
        |name, value, risk, effect: String| set_sysctl(&scope.netns, name, value, risk, effect);
    let timestamps_off = overflow.here.setting(sysctl::TCP_TIMESTAMPS) == Some(0);
    let cookies = set(
        sysctl::TCP_SYNCOOKIES,
        1,
        if timestamps_off {
            "With timestamps off, connections made from a cookie lose SACK and window scaling: \
             turn them on as well."
        } else {
            "None of note: with timestamps on, cookies keep SACK and window scaling."
        },
        format!(
            "The {} would have been answered; no client waits for a second SYN.",
            plural(overflow.dropped, "dropped SYN")
        ),
    );
    let timestamps = timestamps_off.then(|| {
        set_timestamps(
            &scope.netns,
            "Connections made from a cookie keep SACK and window scaling.",
        )
    });
    let backlog = overflow.new_backlog();
    let effect = if overflow.is_unanswered() {
        "Little: requests that are never completed fill any queue; cookies do not need it.".into()
    } else {
        format!("{} connections in SYN_RECV fit.", count(backlog.into()))
    };
    let risk = "A restart breaks existing connections.";
    let roomy = raise_backlog(overflow.here, scope, backlog, risk, effect);
    let max = overflow.here.setting(sysctl::TCP_MAX_SYN_BACKLOG);
    let max = max.filter(|max| max.saturating_mul(3) / 4 <= u64::from(backlog));
    let early = max.map(|_| {
        set(
            sysctl::TCP_MAX_SYN_BACKLOG,
            u64::from(backlog) * 2,
            "Kernel memory for that many requests.",
            "Only if cookies stay off: the early limit, three quarters of this value, is then no longer below the \
             backlog."
                .into(),
        )
    });
    let first = std::iter::once(cookies).chain(timestamps);
    first.chain(roomy).chain(early).collect()
}
