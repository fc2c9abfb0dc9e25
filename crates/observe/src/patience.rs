//! How long the beginning and the end of a recording may take, all parts together, whatever the host holds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The first rounds of all parts, which are at the same time; and before that as long for what parts walk over to attach.
/// What they leave out is read in later rounds, and said.
const BEGIN: Duration = Duration::from_secs(2);
/// The last ones, which are at the same time: whoever ends a recording waits for them, and for as long again where
/// what they found is written by CPUs that others want, too.
const END: Duration = Duration::from_millis(800);
/// Parts that visit every namespace: packets, sockets, host, ports. Where they may take little of a CPU, each has one part
/// in so many of it.
const PARTS: u32 = 4;
/// Where recording may take so much of a CPU, its beginning may take what that gives in so long.
const PAID_FROM: Duration = Duration::from_secs(20);

/// The moments that all parts of a recording share.
#[derive(Clone, Debug)]
pub struct Moments {
    /// For each first round.
    begin: Duration,
    /// When it was told to end.
    ending: Arc<OnceLock<Instant>>,
    /// Somebody wants it to end.
    stop: Arc<AtomicBool>,
}

impl Moments {
    /// It begins now, and ends early when `stop` is set.
    pub fn begin(max_cpu: Option<f64>, stop: Arc<AtomicBool>) -> Moments {
        let paid = |percent: f64| PAID_FROM.mul_f64(percent.min(100.0) / 100.0) / PARTS;
        let begin = max_cpu.map_or(BEGIN, |percent| paid(percent).min(BEGIN));
        Moments {
            begin,
            ending: Arc::default(),
            stop,
        }
    }

    /// It ends now.
    pub fn end(&self) {
        let _ = self.ending.set(Instant::now());
    }

    /// Somebody wants it to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Of a part that begins.
    pub fn beginning(&self) -> Patience<'_> {
        Patience {
            until: Some(Instant::now() + self.begin),
            moments: self,
            told: false,
        }
    }

    /// Of a part that makes its last round.
    pub fn ending(&self) -> Patience<'_> {
        // A part that alone is told to end has an end of its own.
        let ended = self.ending.get().copied().unwrap_or_else(Instant::now);
        Patience {
            until: Some(ended + END),
            moments: self,
            told: true,
        }
    }

    /// Of one that is told to end only by who wants all of it to end.
    pub fn between(&self) -> Patience<'_> {
        Patience {
            until: None,
            moments: self,
            told: false,
        }
    }
}

/// How long a round over everything may go on.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'m> {
    /// `None` in the rounds between the first and the last.
    until: Option<Instant>,
    moments: &'m Moments,
    /// That somebody wants the end is known: it is the last round.
    told: bool,
}

impl Patience<'_> {
    /// Nothing more is to be begun: the time is up, or it is to end.
    pub fn is_over(&self) -> bool {
        let ends = || self.moments.is_stopped() || self.moments.ending.get().is_some();
        self.until.is_some_and(|until| Instant::now() >= until) || !self.told && ends()
    }

    /// Half of what is left, for the first of two things.
    pub fn half(self) -> Self {
        let now = Instant::now();
        let half = |until: Instant| now + until.saturating_duration_since(now) / 2;
        Patience {
            until: self.until.map(half),
            ..self
        }
    }

    /// Within one namespace, whose sockets may be all that a host has: a walk that has begun is broken off only by who
    /// wants the end, and then when nobody waits any longer.
    pub fn within(self) -> Self {
        let ended = self.moments.ending.get().filter(|_| self.told);
        Patience {
            until: ended.map(|ended| *ended + END),
            ..self
        }
    }

    /// It is a round over everything.
    pub fn is_whole(&self) -> bool {
        self.until.is_some()
    }

    /// It is the last round.
    pub fn is_last(&self) -> bool {
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments() -> Moments {
        Moments::begin(None, Arc::default())
    }

    #[test]
    fn a_first_round_has_the_beginning_and_those_between_have_no_end() {
        let now = Instant::now();
        let moments = moments();
        let first = moments.beginning().until.unwrap();
        assert!(first >= now + BEGIN && first < now + 2 * BEGIN);
        assert!(!moments.beginning().is_over() && !moments.between().is_over());
        let late = Moments {
            begin: Duration::ZERO,
            ..moments
        };
        assert!(late.beginning().is_over());
    }

    #[test]
    fn who_wants_the_end_breaks_off_all_but_the_last_round() {
        let moments = moments();
        moments.stop.store(true, Ordering::Relaxed);
        assert!(moments.beginning().is_over() && moments.between().is_over());
        assert!(!moments.ending().is_over());
        let told = Moments::begin(None, Arc::default());
        told.end();
        assert!(told.between().is_over(), "by another thread");
        let alone = Moments::begin(None, Arc::default());
        assert!(alone.ending().is_last());
        assert!(!alone.between().is_over(), "the others go on");
    }

    #[test]
    fn the_last_rounds_end_together() {
        let moments = moments();
        let long_ago = Instant::now().checked_sub(END).unwrap();
        moments.ending.set(long_ago).unwrap();
        assert!(moments.ending().is_over());
    }

    #[test]
    fn a_walk_that_has_begun_goes_on_as_long_as_somebody_waits() {
        let moments = moments();
        let late = Moments {
            begin: Duration::ZERO,
            ..moments.clone()
        };
        assert!(late.beginning().is_over() && !late.beginning().within().is_over());
        let spent = moments.ending();
        let spent = Patience {
            until: Some(Instant::now()),
            ..spent
        };
        assert!(spent.is_over() && !spent.within().is_over());
        moments.stop.store(true, Ordering::Relaxed);
        assert!(moments.beginning().within().is_over());
    }

    #[test]
    fn who_may_take_little_begins_with_little() {
        let of = |max_cpu| Moments::begin(max_cpu, Arc::default()).begin;
        assert_eq!(of(None), BEGIN);
        assert_eq!(of(Some(5.0)), Duration::from_millis(250));
        assert_eq!(of(Some(400.0)), BEGIN);
        assert_eq!(of(Some(f64::MAX)), BEGIN);
    }
}
