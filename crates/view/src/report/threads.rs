//! What threads did with their time, as bands.

use analysis::timeline::{self, Axis};
use analysis::{Microstate, Story};
use recording::{Error, Recording};

use super::page::{Band, Threads};
use super::{Thinned, short};

/// Threads that a page has, and intervals of each.
const MAX_THREADS: usize = 40;
const MAX_INTERVALS: usize = 300;

/// In the order of [`Microstate::ALL`].
const STATES: [&str; 8] = ["USR", "SYS", "LAT", "SLP", "LCK", "DSK", "FLT", "STP"];

/// The threads that did or waited most; `None` when threads were not recorded.
pub(super) fn threads(
    recording: &Recording,
    story: &Story,
    axis: Axis,
    thinned: &mut Thinned,
) -> Result<Option<Threads>, Error> {
    let total = story.threads.all().count();
    if total == 0 {
        return Ok(None);
    }
    let order = story.threads.most_restless(MAX_THREADS);
    thinned.say(total > order.len(), || {
        format!(
            "The page has the {} threads of {total} that ran or waited most.",
            order.len()
        )
    });
    let bands = timeline::threads(recording, &order, MAX_INTERVALS)?;
    let bands = order.iter().zip(&bands);
    Ok(Some(Threads {
        total: total as f64,
        states: STATES.map(Into::into).into(),
        bands: bands.map(|(id, of)| band(*id, of, axis)).collect(),
    }))
}

fn band((pid, tid): (u32, u32), of: &timeline::Band, axis: Axis) -> Band {
    let intervals = of.intervals.iter();
    let times = intervals
        .clone()
        .map(|i| (axis.seconds(i.from_ns), axis.seconds(i.to_ns)));
    let shares = intervals.map(|i| {
        let shares = Microstate::ALL.map(|state| i.spent.percent(state));
        shares.map(|percent| (10.0 * percent).round() / 10.0).into()
    });
    Band {
        name: short(&format!("{}/{tid}", of.comm)),
        pid,
        intervals: times.collect(),
        shares: shares.collect(),
    }
}
