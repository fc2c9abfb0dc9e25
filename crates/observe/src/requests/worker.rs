//! The thread that reads the sums of requests every second, and the slowest as they come.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::MapCore;
use recording::{HealthKind, SourceName, Writer, monotonic_ns};

use super::driver::{RequestOptions, Requests, source};
use super::rows::{Key, Open, Rows, key};
use super::shares::{LATE_NS, MANY, MANY_NEW, Shares, afford, late};
use crate::error::Error;
use crate::health::HealthLog;
use crate::netns;
use crate::pace::{Allowance, Pace};
use crate::ring_source::{RingSource, run};
use crate::space;
use crate::wire::read;
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
    let mut requests = match Requests::attach(&mut object, options, control.beginning())? {
        Ok(requests) => requests,
        Err(verdict) => return control.idle(vec![source(verdict)]),
    };
    requests.late_from(LATE_NS);
    let watched = Watched {
        requests,
        rows: Rows::new(writer)?,
        pace: Pace::new(EVERY, MOST, allowance),
        round: Instant::now(),
        looked: Instant::now(),
        shares: Shares::default(),
        one_new_in: 1,
        counted: 0,
        late_ns: LATE_NS,
    };
    run(watched, health, control)
}

struct Watched<'o> {
    requests: Requests<'o>,
    rows: Rows,
    pace: Pace,
    /// When this round began.
    round: Instant,
    /// When it was last looked at the requests under way.
    looked: Instant,
    shares: Shares<Key>,
    one_new_in: u32,
    /// Exchanges in this round.
    counted: u64,
    late_ns: u64,
}

impl RingSource for Watched<'_> {
    fn ring(&self) -> &dyn MapCore {
        self.requests.ring()
    }

    fn report(&self) -> Report {
        Report {
            sources: vec![self.requests.source()],
            namespaces: netns::find().into_values().map(|n| n.namespace).collect(),
            ..Report::default()
        }
    }

    fn begin(&mut self, _: u64) -> Result<(), Error> {
        (self.round, self.looked) = (Instant::now(), Instant::now());
        self.requests.services(|at, sums| {
            self.rows.begin(at, sums);
            Ok(())
        })?;
        self.requests.newly_counted()?;
        self.requests.newly_met()?;
        self.requests.newly_late()?;
        self.requests.next_round(self.one_new_in);
        Ok(())
    }

    fn take(&mut self, record: &[u8]) -> Result<(), Error> {
        match read(record) {
            Some(exchange) => self.rows.exchange(&exchange),
            None => Ok(()),
        }
    }

    fn stop(&mut self, _: &HealthLog) -> Result<(), Error> {
        self.requests.stop();
        Ok(())
    }

    fn drained(&mut self, health: &HealthLog, stopped: bool) -> Result<(), Error> {
        self.counted += self.requests.newly_counted()?;
        // What a second may cost is spent: shares are told at once.
        let spent = self.counted as f64 > MANY && self.round.elapsed() >= AT_LEAST;
        if stopped || spent || self.round.elapsed() >= EVERY {
            self.end_round(health, stopped)?;
        }
        Ok(())
    }

    // Losses are said round by round.
    fn look(&mut self, _: &HealthLog, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        self.rows.seal_if_due()
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.rows.seal()
    }
}

impl Watched<'_> {
    /// Rows of every service, and what of them is counted in the next round.
    fn end_round(&mut self, health: &HealthLog, last: bool) -> Result<(), Error> {
        let seconds = self.round.elapsed().as_secs_f64().max(0.001);
        self.round = Instant::now();
        let open = self.under_way(health, last)?;
        let per_second = self.sums(open.as_ref(), seconds)?;
        if last {
            for exchange in open.iter().flat_map(Open::oldest) {
                self.rows.exchange(exchange)?;
            }
        }
        for (service, one_in) in self.shares.divide(per_second) {
            self.requests.share(&service, one_in)?;
            self.shares.set(service, one_in);
        }
        let met = self.requests.newly_met()? as f64 * f64::from(self.one_new_in);
        self.one_new_in = afford(self.one_new_in, met / seconds, MANY_NEW);
        self.late_ns = late(self.late_ns, self.requests.newly_late()? as f64 / seconds);
        self.requests.late_from(self.late_ns);
        self.requests.next_round(self.one_new_in);
        self.counted = 0;
        self.requests.say_losses(health)
    }

    /// Requests that nobody has answered yet; `None` where it is not looked.
    fn under_way(&mut self, health: &HealthLog, last: bool) -> Result<Option<Open>, Error> {
        // From another PID namespace their files are not seen: not to be told is not the same as none.
        let is_due = last || self.looked.elapsed() >= self.pace.interval;
        if !is_due || !space::pids_are_ours() {
            return Ok(None);
        }
        self.looked = Instant::now();
        self.pace.begin();
        let mut found = Open::default();
        self.requests.open(OPEN_OVER_NS, |x| {
            found.take(x);
            Ok(())
        })?;
        if let Some(detail) = self.pace.end() {
            let detail = format!("a look at the requests under way {detail}");
            health.say(SourceName::Requests, HealthKind::Slowed, 0, detail)?;
        }
        Ok(Some(found))
    }

    /// A row of each service; how many exchanges a second each has had. One that is at rest is forgotten.
    fn sums(&mut self, open: Option<&Open>, seconds: f64) -> Result<Vec<(Key, f64)>, Error> {
        let (rows, shares, one_new_in) = (&mut self.rows, &self.shares, self.one_new_in);
        let time_ns = monotonic_ns();
        let mut per_second = Vec::new();
        self.requests.services(|at, sums| {
            let stands_for = shares.of(&key(at)).max(one_new_in);
            let exchanges = rows.service(time_ns, at, sums, open, stands_for)?;
            per_second.push((key(at), exchanges as f64 / seconds));
            Ok(())
        })?;
        for service in rows.at_rest(time_ns) {
            let Some((at, sums)) = self.requests.retire(&service) else {
                break;
            };
            let stands_for = shares.of(&service).max(one_new_in);
            rows.service(time_ns, &at, &sums, None, stands_for)?;
            rows.forget(&service);
        }
        Ok(per_second)
    }
}
