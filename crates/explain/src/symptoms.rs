//! What moved, whether or not a finding explains it: how often, who did it, and what it cost.

use analysis::account::{Service, State};
use analysis::words::{count, duration, percent, plural};
use analysis::{Endpoint, Places, Side, Story};
use recording::drop_reason::{DropKind, drop_reason};
use recording::{RetransmitKind, Text, counter};
use serde::{Deserialize, Serialize};

use crate::drop_owners::{Owner, owner};

/// Something that moved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Symptom {
    /// What: an event in words, or the name of a counter as nstat prints it.
    pub says: String,
    /// How often, over all namespaces.
    pub count: u64,
    /// Whether it is a counter: events and counters may tell of the same thing.
    pub counter: bool,
    /// Who did it, where, of how many, and what it cost; null where that is not known.
    pub means: Option<String>,
}

/// Counters whose rise is worth a line although no finding may rest on them.
const TELLING: &[&str] = &[
    counter::LISTEN_OVERFLOWS,
    counter::LISTEN_DROPS,
    counter::TCP_REQ_Q_FULL_DROP,
    counter::TCP_REQ_Q_FULL_DO_COOKIES,
    counter::SYNCOOKIES_FAILED,
    counter::TCP_TIMEOUTS,
    counter::TCP_BACKLOG_DROP,
    counter::TCP_RCV_Q_DROP,
    counter::PRUNE_CALLED,
    counter::TCP_MEMORY_PRESSURES,
    counter::TCP_ABORT_ON_MEMORY,
    counter::TCP_TIME_WAIT_OVERFLOW,
    counter::PAWS_ESTAB,
    counter::PAWS_TIMEWAIT,
    counter::TCP_ACK_SKIPPED_TIME_WAIT,
    counter::ATTEMPT_FAILS,
    counter::ESTAB_RESETS,
    counter::IN_ERRS,
];

pub(crate) fn symptoms(story: &Story, account: &[Service]) -> Vec<Symptom> {
    let tally = &story.tally;
    let mut all = Vec::new();
    let mut say = |noun: &str, what: String, count: u64, means: Option<String>| {
        if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            all.push(Symptom {
                says: format!("{noun}{s} {what}"),
                count,
                counter: false,
                means,
            });
        }
    };
    let again = || "retransmitted".to_string();
    say("SYN", again(), tally.syn_retries, slow_connects(story));
    let lost_ack =
        "the last ACK of a handshake did not come, or met a full accept queue".to_string();
    say("SYN-ACK", again(), tally.synack_retries, Some(lost_ack));
    // What they cost together is said where most of them are.
    let mut cost = repaired(story, account);
    let mut kinds: Vec<_> = tally.retransmits.iter().collect();
    kinds.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    for (kind, &n) in kinds {
        let what = format!("retransmitted ({kind})");
        let of_all = share_of_sent(story, n).unwrap_or_else(|| retransmitted(kind).into());
        let means = of_all + &cost.take().unwrap_or_default();
        say("segment", what, n, Some(means));
    }
    for (reason, sent) in &tally.resets_sent {
        let from = place(story, sent, "from");
        say("reset", format!("sent ({reason})"), sent.count, from);
    }
    let by_peer = "a peer, or a box on the path, refused or ended a connection".to_string();
    say(
        "reset",
        "received".into(),
        tally.resets_received,
        Some(by_peer),
    );
    for (reason, dropped) in &tally.drops {
        let to = place(story, dropped, "to");
        let to = match (source(story, reason), to) {
            (Some(from), Some(to)) if dropped.most().is_none() => Some(format!("from {from} {to}")),
            (_, to) => to,
        };
        let means: Vec<_> = drop_reason(reason)
            .map(|known| known.says.to_string() + &harmless(known.kind))
            .into_iter()
            .chain(to)
            .collect();
        let means = (!means.is_empty()).then(|| means.join(", "));
        say(
            "packet",
            format!("dropped ({reason})"),
            dropped.count,
            means,
        );
    }
    let counters = story.counters.risen(TELLING).into_iter();
    all.extend(counters.map(|(name, count)| Symptom {
        says: name.replace('.', ""),
        count,
        counter: true,
        means: counter::definition(name).map(|d| d.says.to_string()),
    }));
    all
}

/// Why nobody waits for a drop of this kind.
fn harmless(kind: DropKind) -> String {
    match owner(kind) {
        Owner::Harmless(why) => format!(" ({why})"),
        Owner::Causes(_) | Owner::Nobody => String::new(),
    }
}

/// The one end that all that was dropped for a reason came from.
fn source(story: &Story, reason: &str) -> Option<Endpoint> {
    let all = story.drops.all();
    let mut sources = all
        .filter(|(_, dropped)| dropped.reason.as_deref() == Some(reason))
        .map(|((_, from, _), _)| *from);
    let first = sources.next()?;
    sources.all(|from| from == first).then_some(first)
}

/// The end with most of it, and its namespace.
fn place(story: &Story, places: &Places, way: &str) -> Option<String> {
    let named = |netns| match story.netns(netns).name.as_deref() {
        None | Some("host") => String::new(),
        Some(name) => format!(" in {name}"),
    };
    match (places.most(), places.netns()) {
        (Some((netns, at)), _) => {
            let most = if places.count > 1 { "most " } else { "" };
            Some(format!("{most}{way} {at}{}", named(netns)))
        }
        (None, Some(netns)) => Some(format!("{way} many ends{}", named(netns))),
        (None, None) => None,
    }
}

/// Connects that took longer because of it.
fn slow_connects(story: &Story) -> Option<String> {
    // One whose first SYN is older than the recording is here, too.
    let opened = story.conns.iter();
    let opened = opened.filter(|c| c.side == Side::Opened || c.syn_retries > 0);
    let (mut all, mut slow, mut longest) = (0u64, 0u64, 0u64);
    for conn in opened {
        all += 1;
        if conn.syn_retries > 0 {
            slow += 1;
            let until = conn
                .established_ns
                .or(conn.ended_ns)
                .unwrap_or(story.end_ns);
            longest = longest.max(until.saturating_sub(conn.start_ns));
        }
    }
    (slow > 0).then(|| {
        format!(
            "of {} of {}, which took up to {}",
            count(slow),
            plural(all, "connect"),
            duration(longest)
        )
    })
}

/// What a retransmission of an established connection means.
fn retransmitted(kind: &str) -> &'static str {
    match RetransmitKind::from(Text::from(kind)) {
        RetransmitKind::Rto => "nothing was acknowledged for a whole retransmission timeout",
        RetransmitKind::Tlp => "the end of what was sent was not acknowledged in two round trips",
        RetransmitKind::Fast | RetransmitKind::Rack => {
            "later packets were acknowledged before it: lost, or overtaken"
        }
        RetransmitKind::Other | RetransmitKind::Unknown(_) => {
            "a packet was not acknowledged in time"
        }
    }
}

/// Its share of all segments that were sent.
fn share_of_sent(story: &Story, n: u64) -> Option<String> {
    let rises = story.counters.rises(counter::OUT_SEGS);
    let sent = rises
        .values()
        .fold(0u64, |sum, rise| sum.saturating_add(rise.by));
    (sent >= n && sent > 0).then(|| {
        let share = percent(n as f64 / sent as f64);
        format!("{share} of the segments sent")
    })
}

/// The share of the time that repairing losses took.
fn repaired(story: &Story, account: &[Service]) -> Option<String> {
    let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
    let repair = sum(&mut account.iter().map(|s| s.spent_s.of(State::Repair)));
    let awake = sum(&mut account.iter().map(|s| s.spent_s.awake()));
    (awake > 0 && !story.tally.retransmits.is_empty()).then(|| {
        format!(
            "; loss repair took {} of non-idle connection time",
            percent(repair as f64 / awake as f64)
        )
    })
}
