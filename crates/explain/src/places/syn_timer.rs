//! When late connects got through, against the settings of the timer that retransmits SYNs.

use std::collections::BTreeMap;

use analysis::words::{duration, list};
use analysis::{Conn, Side, Story};

use crate::checks::same_count;
use crate::finding::Check;
use crate::limits;
use crate::modes::{step, syn_schedule_of};

/// The most times of the schedule that are shown.
const SHOWN_TIMES: usize = 4;

/// A connect that retransmitted its SYN n times gets through a round trip after the time that its namespace's settings
/// give for the n-th: otherwise something else let it in, or kept it out. `quick`: how soon the first is retransmitted
/// where a stray ACK answered it.
pub(crate) fn check<'c>(
    story: &Story,
    conns: impl Iterator<Item = &'c Conn>,
    usual_ns: u64,
    quick: Option<u64>,
) -> Option<Check> {
    let mut schedules: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let (mut late, mut on_time, mut most) = (0, 0, 0);
    for conn in conns.filter(|c| c.side == Side::Opened && c.syn_retries > 0) {
        let Some(took) = conn.connect_ns() else {
            continue;
        };
        let schedule = schedules.entry(conn.netns);
        let schedule = schedule.or_insert_with(|| syn_schedule_of(story, conn.netns, quick));
        let nth = conn.syn_retries as usize;
        let at = nth.checked_sub(1).and_then(|i| schedule.get(i..=i));
        let fits = at.is_some_and(|at| step(at, took.saturating_sub(usual_ns)).is_some());
        late += 1;
        on_time += u64::from(fits);
        most = most.max(nth);
    }
    let schedule = schedules.values().next()?;
    let times = schedule.iter().take(most.min(SHOWN_TIMES));
    let times: Vec<String> = times.map(|ns| duration(*ns)).collect();
    (late >= limits::A_FEW.count()).then(|| {
        same_count(
            &format!(
                "connects that completed on a tick of their namespace's SYN timer after as many retransmissions ({}) \
                 = all delayed connects",
                list(&times)
            ),
            late,
            on_time,
            "connects",
        )
    })
}
