//! The answer of a cause: it holds; it does not, with the number that refutes it and its distance from a finding; or it
//! cannot tell, and why.

use std::borrow::Cow;

use analysis::words::rounded;
use recording::RowRef;
use serde::{Deserialize, Serialize};

use crate::finding::{Numbers, Step};
use crate::limits::{Limit, Unit};

/// The answer of a cause, for a place or for a whole recording.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// There are findings of it.
    Yes,
    /// A number refutes it. For a whole recording, it comes with the limit that it misses.
    No(Step, Option<Refuted>),
    /// Nothing refutes it, with the reason.
    CannotTell(String),
}

/// The number that refutes a cause, and the limit that it misses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refuted {
    /// What was measured.
    pub value: f64,
    /// The side of the limit on which the cause is reported.
    pub told: Told,
    /// The limit.
    pub limit: f64,
    /// The unit of both: `share`, `times`, `ms`, `bytes`, or what is counted.
    pub unit: Cow<'static, str>,
    /// The limit's name in the book.
    pub name: Cow<'static, str>,
    /// The numbers of the sentence, by name.
    pub numbers: Numbers,
    /// Some of the rows behind the numbers; none if nothing was seen.
    #[serde(with = "crate::rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub rows: Vec<RowRef>,
}

/// The side of a limit on which a cause is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// At the limit and above it.
    From,
    /// Below the limit.
    Below,
}

impl Refuted {
    /// Whether nothing was seen at all.
    pub fn is_of_nothing(&self) -> bool {
        self.told == Told::From && self.value == 0.0
    }

    /// Whether the value is on the side of the limit on which the cause is not reported.
    pub fn is_refuting(&self) -> bool {
        match self.told {
            Told::From => self.value < self.limit,
            Told::Below => self.value >= self.limit,
        }
    }
}

/// A measured quantity, and the sentence that states it.
pub(crate) struct Measured {
    value: f64,
    /// The largest possible value: 0 if there was nothing to examine.
    most: f64,
    step: Step,
}

impl Measured {
    /// Any number; a time is in ns.
    pub(crate) fn number(value: impl Into<f64>, step: Step) -> Measured {
        Measured {
            value: value.into(),
            most: f64::INFINITY,
            step,
        }
    }

    /// Something that was seen `seen` times, out of `of` possible ones.
    pub(crate) fn events(seen: u64, of: u64, step: Step) -> Measured {
        Measured {
            most: of as f64,
            ..Measured::number(seen as f64, step)
        }
    }

    /// A part of a whole.
    pub(crate) fn share(part: u64, whole: u64, step: Step) -> Measured {
        Measured {
            most: if whole == 0 { 0.0 } else { f64::INFINITY },
            ..Measured::number(part as f64 / whole.max(1) as f64, step)
        }
    }
}

/// A measured quantity and the limit that a finding of the cause needs.
pub(crate) struct Test {
    measured: Measured,
    told: Told,
    limit: &'static Limit,
}

impl Test {
    pub(crate) fn new(measured: Measured, told: Told, limit: &'static Limit) -> Test {
        Test {
            measured,
            told,
            limit,
        }
    }

    /// Reported at and above the limit. A time is in ns.
    pub(crate) fn from(value: impl Into<f64>, limit: &'static Limit, step: Step) -> Test {
        Test::new(Measured::number(value, step), Told::From, limit)
    }

    /// The same for a time in ns.
    pub(crate) fn lasts(ns: u64, limit: &'static Limit, step: Step) -> Test {
        Test::from(ns as f64, limit, step)
    }

    /// The same for something that was seen `seen` times, out of `of` possible ones.
    pub(crate) fn events(seen: u64, of: u64, limit: &'static Limit, step: Step) -> Test {
        Test::new(Measured::events(seen, of, step), Told::From, limit)
    }

    /// The same for a part of a whole.
    pub(crate) fn share(part: u64, whole: u64, limit: &'static Limit, step: Step) -> Test {
        Test::new(Measured::share(part, whole, step), Told::From, limit)
    }

    /// Reported below the limit instead.
    pub(crate) fn below(self) -> Test {
        Test {
            told: Told::Below,
            ..self
        }
    }

    /// Whether there was nothing to examine, such as 0 of 0 packets.
    pub(crate) fn is_of_nothing(&self) -> bool {
        self.measured.most <= 0.0
    }

    pub(crate) fn holds(&self) -> bool {
        match self.told {
            Told::From => self.measured.value >= self.limit.number(),
            Told::Below => self.measured.value < self.limit.number(),
        }
    }

    /// How close it is to being reported: 1 is at the limit.
    fn nearness(&self) -> f64 {
        let (value, limit) = (self.measured.value, self.limit.number());
        let beyond = limit / value.max(f64::MIN_POSITIVE);
        match (self.told, self.limit.unit) {
            (Told::From, _) => value / limit,
            // A share near 1 leaves hardly any room above it.
            (Told::Below, Unit::Share) => beyond.min((1.0 - value).max(0.0) / (1.0 - limit)),
            (Told::Below, _) => beyond,
        }
    }

    /// The sentence with the limit from which the cause is reported.
    fn says(&self) -> String {
        let side = match self.told {
            Told::From => "from",
            Told::Below => "below",
        };
        format!(
            "{}; reported {side} {}",
            self.measured.step.says,
            self.limit.with(self.limit.number())
        )
    }

    /// Whether it misses a guessed limit by no more than the guess may be off.
    fn is_near(&self) -> bool {
        self.nearness() * self.limit.slack() > 1.0
    }

    /// Whether it could not have happened as often as a finding needs, because there were too few.
    fn too_few(&self) -> bool {
        self.measured.value > 0.0
            && self.told == Told::From
            && self.measured.most < self.limit.number()
    }

    fn refuted(self) -> Verdict {
        let scale = match self.limit.unit {
            Unit::Time => 1e6,
            _ => 1.0,
        };
        let says = self.says();
        let Step { numbers, rows, .. } = &self.measured.step;
        let refuted = Refuted {
            value: rounded(self.measured.value / scale),
            told: self.told,
            limit: rounded(self.limit.number() / scale),
            unit: self.limit.unit.name().into(),
            name: self.limit.name.into(),
            numbers: numbers.clone(),
            rows: rows.clone(),
        };
        // Four digits are enough to read. If rounding moves a number across its limit, the exact values are kept.
        let refuted = if refuted.is_refuting() {
            refuted
        } else {
            Refuted {
                value: self.measured.value / scale,
                limit: self.limit.number() / scale,
                ..refuted
            }
        };
        Verdict::No(
            Step {
                says,
                ..self.measured.step
            },
            Some(refuted),
        )
    }
}

/// The answer for a place, or for one way in which a cause can hold, and how close it was to being reported.
pub(crate) struct Answered {
    verdict: Verdict,
    nearness: f64,
}

/// All of these tests must hold for a finding. The first that does not hold refutes it. `None` if there was nothing to
/// examine, such as 0 of 0 packets.
pub(crate) fn every(tests: impl IntoIterator<Item = Test>) -> Option<Answered> {
    let mut first = None;
    for test in tests {
        if test.is_of_nothing() {
            return None;
        }
        if test.too_few() {
            let says = format!("{}: too few to tell", test.says());
            return Some(Answered::unknown(says));
        }
        if !test.holds() {
            if test.is_near() {
                return Some(Answered::unknown(format!("{}: close to it", test.says())));
            }
            let nearness = test.nearness();
            return Some(Answered {
                verdict: test.refuted(),
                nearness,
            });
        }
        first.get_or_insert(test.measured.step.says);
    }
    Some(Answered::unknown(format!(
        "{}: no number refutes it",
        first?
    )))
}

impl Answered {
    /// An answer that cannot tell, with the reason.
    pub(crate) fn unknown(because: impl Into<String>) -> Answered {
        Answered {
            verdict: Verdict::CannotTell(because.into()),
            nearness: f64::INFINITY,
        }
    }
}

impl Verdict {
    /// A verdict that cannot tell, with the reason.
    pub(crate) fn cannot(because: impl Into<String>) -> Verdict {
        Verdict::CannotTell(because.into())
    }

    /// Combines the answers of all places, or of all ways to hold. The cause is refuted if each of them is, by the
    /// number that was closest to being reported. `nothing` says what there was none of to examine.
    pub(crate) fn nearest(
        places: impl IntoIterator<Item = Option<Answered>>,
        nothing: &str,
    ) -> Verdict {
        let places = places.into_iter().flatten();
        let nearest = places.reduce(|a, b| if b.nearness > a.nearness { b } else { a });
        nearest.map_or_else(|| Verdict::cannot(nothing), |nearest| nearest.verdict)
    }

    /// The same. If no place has anything to examine, the answer for all of them together counts.
    pub(crate) fn nearest_or(
        places: impl IntoIterator<Item = Option<Answered>>,
        together: impl FnOnce() -> Option<Answered>,
        nothing: &str,
    ) -> Verdict {
        let mut places = places.into_iter().flatten().peekable();
        if places.peek().is_none() {
            return Verdict::nearest([together()], nothing);
        }
        Verdict::nearest(places.map(Some), nothing)
    }

    /// The verdict on something that is counted over the whole recording.
    pub(crate) fn events(
        seen: u64,
        of: u64,
        limit: &'static Limit,
        step: Step,
        nothing: &str,
    ) -> Verdict {
        Verdict::nearest([every([Test::events(seen, of, limit, step)])], nothing)
    }

    /// The verdict of a single place: the number that refutes the cause there.
    pub(crate) fn there(no: Option<Step>) -> Verdict {
        match no {
            Some(step) => Verdict::No(step, None),
            None => Verdict::cannot("no measurement there refutes it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use crate::say::{Quantity, say};

    fn seen(n: u64, of: u64, limit: &'static Limit) -> Option<Answered> {
        let step = say!("{n} were lost", n = Quantity::count(n));
        every([Test::events(n, of, limit, step)])
    }

    fn judged(n: u64, of: u64, limit: &'static Limit) -> Verdict {
        Verdict::nearest([seen(n, of, limit)], "nothing was sent")
    }

    fn because(verdict: Verdict) -> String {
        match verdict {
            Verdict::CannotTell(because) => because,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn none_of_many_is_a_no_and_none_of_none_is_not() {
        let Verdict::No(step, Some(refuted)) = judged(0, 100, &limits::ENOUGH) else {
            panic!("0 of 100 refute it");
        };
        assert_eq!(step.says, "0 were lost; reported from 10");
        assert!(refuted.is_refuting() && refuted.is_of_nothing());
        assert_eq!(
            (refuted.value, refuted.limit, &*refuted.unit),
            (0.0, 10.0, "count")
        );
        assert_eq!(because(judged(0, 0, &limits::ENOUGH)), "nothing was sent");
    }

    #[test]
    fn what_is_few_or_close_or_enough_is_no_no() {
        let few = because(judged(1, 1, &limits::ENOUGH));
        assert!(few.ends_with("too few to tell"), "{few}");
        // The limit is a guess, so half of it may be just as good.
        let close = because(judged(6, 100, &limits::ENOUGH));
        assert!(close.ends_with("close to it"), "{close}");
        assert!(matches!(judged(4, 100, &limits::ENOUGH), Verdict::No(..)));
        let enough = because(judged(10, 100, &limits::ENOUGH));
        assert!(enough.ends_with("no number refutes it"), "{enough}");
        // What people notice is not a guess.
        let lasts = |ns| every([Test::lasts(ns, &limits::STALL, Step::new("it lasted"))]);
        let verdict = Verdict::nearest([lasts(2_900_000_000)], "");
        let Verdict::No(_, Some(refuted)) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(
            (refuted.value, refuted.limit, &*refuted.unit),
            (2_900.0, 3_000.0, "ms")
        );
    }

    #[test]
    fn of_several_places_the_nearest_tells_and_one_that_is_not_refuted_keeps_all_from_it() {
        let places = |all: &[u64]| {
            let all = all.iter().map(|n| seen(*n, 100, &limits::ENOUGH));
            Verdict::nearest(all.collect::<Vec<_>>(), "")
        };
        let Verdict::No(step, _) = places(&[0, 3, 2]) else {
            panic!("all are refuted")
        };
        assert!(step.says.starts_with("3 were"), "{}", step.says);
        assert!(because(places(&[0, 12, 3])).starts_with("12 were"));
    }

    #[test]
    fn below_a_limit_the_other_side_refutes() {
        let share = |part| {
            let test = Test::share(part, 10, &limits::MOST, Step::new("answered")).below();
            Verdict::nearest([every([test])], "")
        };
        let Verdict::No(_, Some(refuted)) = share(10) else {
            panic!("all of them refute it")
        };
        assert!(refuted.is_refuting() && refuted.told == Told::Below);
        assert!(because(share(2)).ends_with("no number refutes it"));
    }
}
