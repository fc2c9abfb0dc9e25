//! The thread that reads the sums of requests every second, and the slowest as they come.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use recording::{HealthKind, SourceName, Writer, monotonic_ns};

use super::driver::{RequestOptions, Requests, source};
use super::rows::{Open, Rows, key};
use super::shares::{LATE_NS, MANY, MANY_NEW, Shares, afford, late};
use crate::error::Error;
use crate::health::HealthLog;
use crate::netns;
use crate::pace::{Allowance, Pace};
use crate::ring::{DRAIN_EVERY, drain};
use crate::space;
use crate::worker::{Control, Report};

/// Sums are rows of a second.
const EVERY: Duration = Duration::from_secs(1);
/// What has not been answered for so long is told while it is open, ns.
const OPEN_OVER_NS: u64 = 1_000_000_000;
/// To look for those takes every connection: it may use one part in so many of a CPU.
const MOST: u32 = 100;
/// A round is no shorter than this, however much there is to count.
const AT_LEAST: Duration = Duration::from_millis(100);

/// Watches until told to stop; ready once attached.
pub fn watch(
    options: &RequestOptions,
    allowance: Allowance,
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
    let mut pace = Pace::new(EVERY, MOST, allowance);
    let (mut round, mut looked) = (Instant::now(), Instant::now());
    let mut shares = Shares::default();
    let (mut one_new_in, mut counted, mut late_ns) = (1, 0, LATE_NS);
    requests.late_from(late_ns);
    loop {
        let stopping = control.stopping(DRAIN_EVERY);
        if stopping {
            requests.stop();
        }
        drain(&ring)?;
        counted += requests.newly_counted()?;
        // What a second may cost is spent: shares are told at once.
        let spent = counted as f64 > MANY && round.elapsed() >= AT_LEAST;
        if stopping || spent || round.elapsed() >= EVERY {
            let seconds = round.elapsed().as_secs_f64().max(0.001);
            round = Instant::now();
            let mut open = None;
            // From another PID namespace their files are not seen: not to be told is not the same as none.
            let is_due = stopping || looked.elapsed() >= pace.interval;
            if is_due && space::pids_are_ours() {
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
            let time_ns = monotonic_ns();
            let mut per_second = Vec::new();
            requests.services(|at, sums| {
                let mut rows = rows.borrow_mut();
                let stands_for = shares.of(&key(at)).max(one_new_in);
                let exchanges = rows.service(time_ns, at, sums, open.as_ref(), stands_for)?;
                per_second.push((key(at), exchanges as f64 / seconds));
                Ok(())
            })?;
            let at_rest = rows.borrow().at_rest(time_ns);
            for service in at_rest {
                let Some((at, sums)) = requests.retire(&service) else {
                    break;
                };
                let mut rows = rows.borrow_mut();
                let stands_for = shares.of(&service).max(one_new_in);
                rows.service(time_ns, &at, &sums, None, stands_for)?;
                rows.forget(&service);
            }
            if stopping {
                let open = open.unwrap_or_default();
                open.oldest().for_each(|x| rows.borrow_mut().exchange(x));
            }
            for (service, one_in) in shares.divide(per_second) {
                requests.share(&service, one_in)?;
                shares.set(service, one_in);
            }
            let met = requests.newly_met()? as f64 * f64::from(one_new_in);
            one_new_in = afford(one_new_in, met / seconds, MANY_NEW);
            late_ns = late(late_ns, requests.newly_late()? as f64 / seconds);
            requests.late_from(late_ns);
            requests.next_round(one_new_in);
            counted = 0;
            requests.say_losses(health)?;
        }
        if stopping {
            rows.borrow_mut().seal()?;
            return Ok(report(&requests));
        }
        rows.borrow_mut().seal_if_due()?;
    }
}
