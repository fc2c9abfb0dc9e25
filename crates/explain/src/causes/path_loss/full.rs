//! So much is lost where a queue is full, or a policer limits a rate, that its connections wait for timers.

use analysis::words::{bit_rate, rounded};

use super::{CAUSE, beyond_random, evidence, goes_by_loss, impact, met_empty, percent_of_loss};
use crate::limits;
use crate::places::losses::Losses;
use crate::places::path::{Path, limited, rate};
use crate::places::standing_queue::Queue;
use crate::vocabulary::*;

/// Judges a path where losses did not meet an empty queue, or came together.
pub(super) fn judge(path: &Path) -> Option<Finding> {
    let story = path.story;
    let mut by_loss = path.ends.clone();
    by_loss.retain(goes_by_loss);
    let losses = Losses::of(story, by_loss);
    let min_rtt_us = path.min_rtt_us()?;
    let enough = losses.lost >= limits::OFTEN_TO_ONE.count()
        && losses.share() >= limits::WINDOW_OF_EIGHT.share();
    let real = !limits::MOST.exceeded(losses.spurious, losses.lost) && losses.are_elsewhere();
    let stuck = losses
        .ends
        .iter()
        .map(|e| e.transfer.stall.timeouts)
        .sum::<u64>();
    let told = Queue::of(path).is_some();
    // Slow start overshoots once, by a whole window, and an outage loses much at once.
    let lasts = losses.are_spread();
    if !enough
        || !real
        || !lasts
        || losses.are_tails()
        || limits::MOST.exceeded(stuck, losses.lost)
        || told
    {
        return None;
    }
    let scope = path.scope();
    let (name, from, to) = (path.name(), path.from, path.to);
    let p = percent_of_loss(losses.share());
    let all = bit_rate(rate(&losses.ends));
    let no_queue = met_empty(path, min_rtt_us) >= limits::LOST_BY_EMPTY_QUEUE.share();
    let together = beyond_random(&losses, min_rtt_us).filter(|_| no_queue);
    let limit = match together {
        Some(_) => "a policer, or a queue that is too short",
        None => "a full link or a policer",
    };
    let titles = match together {
        Some(_) => [
            format!("The path {name} loses {p} of the packets: {limit}, passes {all}."),
            format!("The path to {to} loses {p} of the packets: {limit}."),
        ],
        None => [
            format!(
                "The path {name} loses {p} of the packets: its bottleneck is full, or a policer limits it."
            ),
            format!("The path to {to} loses {p} of the packets: it is full, or policed."),
        ],
    };
    let repair = Advice::to(format!(
        "Find what limits {from} to {all} on the path to {to}: a full link (its drop counter rises), or a policer, \
         which a shaper in front of it would keep from dropping."
    ))
    .by(command_in(&scope.netns, shell!("mtr -T -r -c 1000 {to}", to)))
    .at(format!("every hop between {from} and {to}"))
    .risk("A higher rate for these connections takes bandwidth from others.")
    .effect(format!("Windows grow beyond the few segments that a loss of {p} allows."))
    .change(Change::RepairPath {
        from: from.to_string(),
        to: to.to_string(),
    });
    let paced = Advice::to(
        "Or use BBR, which sends at the delivery rate and does not grow until a loss.",
    )
    .by_route(&scope.netns, to, shell!("congctl bbr"))
    .risk("It takes bandwidth from connections with loss-based congestion control; needs the module tcp_bbr.")
    .effect("The rate no longer falls with the loss.");
    let case = Case::new(story, CAUSE, scope)
        .placed(Place::ends(&losses.suffering))
        .title(titles)
        .fix([
            format!("Find what limits {from} to {all} towards {to}: {limit}."),
            format!("Find what limits it to {all}: {limit}."),
        ])
        .affects(
            impact(path, &losses),
            limited(story, &losses.suffering).happened(losses.lost, losses.segments),
        )
        .because(format!("the senders retransmitted {p} of what they sent, and this host did not drop it"))
        .at_most(
            Level::Medium,
            "a full queue, a policer, and a bad link under load look the same from the ends",
        )
        .rests_on(&[SourceName::Drops])
        .steps(evidence(&losses, min_rtt_us, if no_queue { ": there was no standing queue" } else { "" }))
        .steps(together.map(|(rate, most)| {
            say!(
                "They moved {bytes_per_s} (median); with independent random losses {allowed} would be the maximum: \
                 losses come together, as where a rate is exceeded.",
                bytes_per_s = Quantity::rate(rounded(rate)),
                allowed = Quantity::rate(rounded(most))
            )
        }))
        .checks(path.counted_again())
        .advise([repair, paced]);
    Some(case.verify(sentence!(
        "`nstat -az TcpRetransSegs` rises by less than 1 % of TcpOutSegs while data moves to {to}.",
        to
    )))
}
