//! The thread that reads the sums of requests every second, and the slowest as they come.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use recording::{HealthKind, SourceName, Writer, monotonic_ns};

use super::driver::{RequestOptions, Requests, source};
use super::rows::{Open, Rows};
use crate::error::Error;
use crate::health::HealthLog;
use crate::netns;
use crate::pace::Pace;
use crate::ring::{DRAIN_EVERY, drain};
use crate::worker::{Control, Report};

/// Sums are rows of a second.
const EVERY: Duration = Duration::from_secs(1);
/// What has not been answered for so long is told while it is open, ns.
const OPEN_OVER_NS: u64 = 1_000_000_000;
/// To look for those takes every connection: it may use one part in so many of a CPU.
const MOST: u32 = 100;
/// With more exchanges a second than this, one in so many is counted.
const MANY: f64 = 20_000.0;
/// With more new connections a second than this, one in so many is followed: to begin and to end the notes of
/// one costs some microseconds.
const MANY_NEW: f64 = 5_000.0;

/// Watches until told to stop; ready once attached.
pub fn watch(
    options: &RequestOptions,
    writer: &Writer,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut object = MaybeUninit::uninit();
    let mut requests = match Requests::attach(&mut object, options)? {
        Ok(requests) => requests,
        Err(verdict) => return control.idle(vec![source(verdict)]),
    };
    let report = |requests: &Requests| Report {
        sources: vec![requests.source()],
        namespaces: netns::find().into_values().map(|n| n.namespace).collect(),
        ..Report::default()
    };
    control.ready(report(&requests));
    let rows = RefCell::new(Rows::new(writer)?);
    let ring = requests.ring(|x| rows.borrow_mut().exchange(x))?;
    let mut pace = Pace::new(EVERY, MOST);
    let (mut round, mut looked) = (Instant::now(), Instant::now());
    let (mut one_new_in, mut one_in) = (1, 1);
    loop {
        let stopping = control.stopping(DRAIN_EVERY);
        if stopping {
            requests.links.clear();
        }
        drain(&ring)?;
        if stopping || round.elapsed() >= EVERY {
            let seconds = round.elapsed().as_secs_f64().max(0.001);
            round = Instant::now();
            let mut open = None;
            if stopping || looked.elapsed() >= pace.interval {
                looked = Instant::now();
                pace.begin();
                let found = open.insert(Open::default());
                requests.open(OPEN_OVER_NS, |x| {
                    found.take(x);
                    Ok(())
                })?;
                if let Some(detail) = pace.end() {
                    let detail = format!("a look at the requests under way {detail}");
                    health.say(SourceName::Requests, HealthKind::Slowed, 0, detail)?;
                }
            }
            let (time_ns, mut exchanges) = (monotonic_ns(), 0);
            requests.services(|at, sums| {
                let mut rows = rows.borrow_mut();
                let stands_for = one_in.max(one_new_in);
                exchanges += rows.service(time_ns, at, sums, open.as_ref(), stands_for)?;
                Ok(())
            })?;
            if stopping {
                let open = open.unwrap_or_default();
                open.oldest().for_each(|x| rows.borrow_mut().exchange(x));
            }
            let met = requests.newly_met()? as f64 * f64::from(one_new_in);
            one_new_in = afford(one_new_in, met / seconds, MANY_NEW);
            one_in = afford(one_in, exchanges as f64 / seconds, MANY);
            requests.next_round(one_new_in, one_in);
            requests.say_losses(health)?;
        }
        if stopping {
            rows.borrow_mut().seal()?;
            return Ok(report(&requests));
        }
        rows.borrow_mut().seal_if_due()?;
    }
}

/// One in how many is looked at, so that they are no more than `most` a second; back down only with room to
/// spare.
fn afford(one_in: u32, per_second: f64, most: f64) -> u32 {
    let counted = |one_in: u32| per_second / f64::from(one_in);
    let mut one_in = one_in;
    while counted(one_in) > most && one_in < 1 << 16 {
        one_in *= 2;
    }
    while one_in > 1 && counted(one_in / 2) < most / 2.0 {
        one_in /= 2;
    }
    one_in
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_host_has_fewer_exchanges_counted() {
        assert_eq!(afford(1, 20_000.0, MANY), 1);
        assert_eq!(afford(1, 50_000.0, MANY), 4);
        assert_eq!(afford(4, 30_000.0, MANY), 4, "not back and forth");
        assert_eq!(afford(4, 9_000.0, MANY), 1);
    }
}
