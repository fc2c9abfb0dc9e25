//! A cause as data: the ways in which it can hold at a place, each a list of tests. They yield its findings, the number
//! that refutes it where another cause holds or in a whole recording, and what the book says it is reported from.

use std::borrow::Cow;

use crate::asked::Asked;
use crate::finding::{Finding, Level, Step};
use crate::found::Found;
use crate::limits::{Limit, Unit};
use crate::verdict::{Answered, Measured, Test, Told, Verdict, every};
use crate::whole::Whole;

/// A kind of place, with what is measured at each.
pub(crate) trait Kind: 'static {
    type Place<'a>;

    /// Why a recording without such a place cannot tell anything.
    const NOTHING: &'static str;

    /// All such places in a recording.
    fn all<'a>(whole: &Whole<'a>) -> Vec<Self::Place<'a>>;

    /// The place of this kind where another cause holds.
    fn there<'a>(asked: &Asked<'a>) -> There<Self::Place<'a>>;
}

/// The place of a kind where another cause holds, if there is one.
pub(crate) enum There<P> {
    Place(P),
    /// There is none, as this number shows.
    None(Step),
    /// It is not known.
    Unknown,
}

/// A cause, defined by what is measured at places of one kind.
pub(crate) struct Rule<K: Kind> {
    /// The cause holds if one of these ways does. The first that does is reported.
    pub(crate) ways: &'static [Way<K>],
    /// The finding for a place where it holds.
    pub(crate) finding: for<'p, 'a> fn(&'p K::Place<'a>) -> Option<Finding>,
}

/// A way in which a cause can hold: all of its tests must hold.
pub(crate) struct Way<K: Kind> {
    pub(crate) tests: &'static [Limited<K>],
    /// Why a finding in this way has medium confidence at most, if it does.
    pub(crate) doubt: Option<&'static str>,
}

/// A quantity of a place, and the limit on one side of which the cause is reported.
pub(crate) struct Limited<K: Kind> {
    told: Told,
    limit: &'static Limit,
    /// What it is, worded to follow the limit: "of what is sent".
    what: &'static str,
    measured: for<'p, 'a> fn(&'p K::Place<'a>) -> Known,
}

/// What was measured, if it was.
pub(crate) enum Known {
    Is(Measured),
    /// It is not known, with the reason.
    Not(&'static str),
}

/// A test that holds at and above the limit.
pub(crate) const fn from<K: Kind>(
    limit: &'static Limit,
    what: &'static str,
    measured: for<'p, 'a> fn(&'p K::Place<'a>) -> Known,
) -> Limited<K> {
    Limited {
        told: Told::From,
        limit,
        what,
        measured,
    }
}

/// A test that holds below the limit.
pub(crate) const fn below<K: Kind>(
    limit: &'static Limit,
    what: &'static str,
    measured: for<'p, 'a> fn(&'p K::Place<'a>) -> Known,
) -> Limited<K> {
    Limited {
        told: Told::Below,
        ..from(limit, what, measured)
    }
}

/// The answer of a way at a place.
enum Outcome {
    Holds,
    Not(Answered),
    /// There was nothing to examine, such as 0 of 0 packets.
    Nothing,
}

impl Outcome {
    fn unknown(why: &'static str) -> Outcome {
        Outcome::Not(Answered::unknown(why))
    }
}

impl<K: Kind> Way<K> {
    fn judge(&self, place: &K::Place<'_>) -> Outcome {
        let mut unknown = None;
        for limited in self.tests {
            match (limited.measured)(place) {
                Known::Is(measured) => {
                    let test = Test::new(measured, limited.told, limited.limit);
                    if test.is_of_nothing() {
                        return unknown.map_or(Outcome::Nothing, Outcome::unknown);
                    }
                    if !test.holds() {
                        return every([test]).map_or(Outcome::Nothing, Outcome::Not);
                    }
                }
                Known::Not(why) => {
                    unknown.get_or_insert(why);
                }
            }
        }
        unknown.map_or(Outcome::Holds, Outcome::unknown)
    }
}

impl<K: Kind> Limited<K> {
    fn words(&self) -> String {
        let below = match (self.told, self.limit.unit) {
            (Told::From, _) => "",
            (Told::Below, Unit::Share) => "less than ",
            (Told::Below, _) => "fewer than ",
        };
        format!("{below}{} {}", self.limit.told(), self.what)
    }
}

impl<K: Kind> Rule<K> {
    /// The way in which it holds at a place, or else the answer of each way.
    fn judge(&self, place: &K::Place<'_>) -> Result<&'static Way<K>, Vec<Answered>> {
        let mut answers = Vec::new();
        for way in self.ways {
            match way.judge(place) {
                Outcome::Holds => return Ok(way),
                Outcome::Not(answer) => answers.push(answer),
                Outcome::Nothing => {}
            }
        }
        Err(answers)
    }

    /// The findings at all places where it holds.
    pub(crate) fn find(&self, whole: &Whole) -> Found {
        let places = K::all(whole).into_iter();
        let found = places.filter_map(|place| {
            let way = self.judge(&place).ok()?;
            let mut finding = (self.finding)(&place)?;
            if let Some(doubt) = way.doubt {
                finding.confidence.at_most(Level::Medium, doubt);
            }
            Some(finding)
        });
        found.collect()
    }

    /// The number that refutes it where another cause holds.
    pub(crate) fn no(&self, asked: &Asked) -> Option<Step> {
        let place = match K::there(asked) {
            There::Place(place) => place,
            There::None(step) => return Some(step),
            There::Unknown => return None,
        };
        let answers = self.judge(&place).err()?.into_iter().map(Some);
        match Verdict::nearest(answers, K::NOTHING) {
            Verdict::No(step, _) => Some(step),
            Verdict::Yes | Verdict::CannotTell(_) => None,
        }
    }

    /// The number that refutes it in a whole recording.
    pub(crate) fn rule_out(&self, whole: &Whole) -> Verdict {
        let places = K::all(whole).into_iter();
        let answers = places.flat_map(|place| match self.judge(&place) {
            Ok(_) => vec![Answered::unknown("no number refutes it")],
            Err(answers) => answers,
        });
        Verdict::nearest(answers.map(Some), K::NOTHING)
    }

    /// What it is reported from, in words: the tests of each way. Tests with which all ways begin appear once.
    pub(crate) fn told_from(&self) -> Cow<'static, str> {
        let words = |way: &Way<K>| way.tests.iter().map(Limited::words).collect();
        let ways: Vec<Vec<String>> = self.ways.iter().map(words).collect();
        let (Some(first), 2..) = (ways.first(), ways.len()) else {
            return ways.concat().join(", ").into();
        };
        let common = |n: &usize| ways.iter().all(|way| way.get(*n) == first.get(*n));
        let shared = (0..first.len()).take_while(common).count();
        let rest = ways.iter().map(|way| way[shared..].join(", "));
        let rest = rest.collect::<Vec<_>>().join("; or ");
        match shared {
            0 => rest.into(),
            _ => format!("{}, and: {rest}", first[..shared].join(", ")).into(),
        }
    }
}

impl Known {
    /// Something that happened `n` times, out of `of` possible ones.
    pub(crate) fn events(n: u64, of: u64, step: Step) -> Known {
        Known::Is(Measured::events(n, of, step))
    }

    /// A part of a whole.
    pub(crate) fn share(part: u64, whole: u64, step: Step) -> Known {
        Known::Is(Measured::share(part, whole, step))
    }
}

impl<P> From<Option<Step>> for There<P> {
    fn from(none: Option<Step>) -> There<P> {
        none.map_or(There::Unknown, There::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    /// Connects that failed, of how many; and how many of those waited, where that is known.
    type Connects = (u64, u64, Option<u64>);

    enum Failing {}

    impl Kind for Failing {
        type Place<'a> = Connects;
        const NOTHING: &'static str = "nobody connected";

        fn all<'a>(_: &Whole<'a>) -> Vec<Connects> {
            Vec::new()
        }

        fn there<'a>(_: &Asked<'a>) -> There<Connects> {
            There::Unknown
        }
    }

    const FAILED: Limited<Failing> = from(&limits::ENOUGH, "that fail", |at| {
        Known::events(at.0, at.1, Step::new(format!("{} failed", at.0)))
    });
    const WAITED: Limited<Failing> = from(&limits::MOST, "of them wait", |at| match at.2 {
        Some(n) => Known::share(n, at.0, Step::new(format!("{n} waited"))),
        None => Known::Not("waits were not recorded"),
    });
    const AT_ONCE: Limited<Failing> = below(&limits::MOST, "of them wait", |at| match at.2 {
        Some(n) => Known::share(n, at.0, Step::new(format!("{n} waited"))),
        None => Known::Not("waits were not recorded"),
    });

    const RULE: Rule<Failing> = Rule {
        ways: &[
            Way {
                tests: &[FAILED, WAITED],
                doubt: None,
            },
            Way {
                tests: &[FAILED, AT_ONCE],
                doubt: Some("they may have been refused"),
            },
        ],
        finding: |_| None,
    };

    fn verdict(place: Connects) -> String {
        match RULE.judge(&place) {
            Ok(way) => way.doubt.unwrap_or("holds").to_string(),
            Err(answers) => {
                match Verdict::nearest(answers.into_iter().map(Some), Failing::NOTHING) {
                    Verdict::No(step, _) => format!("no: {}", step.says),
                    Verdict::CannotTell(why) => format!("unknown: {why}"),
                    Verdict::Yes => unreachable!("no way holds"),
                }
            }
        }
    }

    #[test]
    fn the_first_way_whose_tests_all_hold_is_told() {
        assert_eq!(verdict((20, 90, Some(15))), "holds");
        assert_eq!(verdict((20, 90, Some(0))), "they may have been refused");
    }

    #[test]
    fn a_test_that_fails_refutes_all_ways_that_have_it() {
        let no = "no: 4 failed; reported from 10";
        assert_eq!(verdict((4, 90, None)), no);
        assert_eq!(verdict((4, 90, Some(4))), no);
        assert_eq!(
            verdict((6, 90, Some(6))),
            "unknown: 6 failed; reported from 10: close to it"
        );
    }

    #[test]
    fn what_is_not_known_neither_holds_nor_refutes() {
        assert_eq!(verdict((20, 90, None)), "unknown: waits were not recorded");
    }

    const NONE: Way<Failing> = Way {
        tests: &[AT_ONCE],
        doubt: None,
    };
    const UNKNOWN: Way<Failing> = Way {
        tests: &[
            from(&limits::MOST, "", |_| Known::Not("not recorded")),
            AT_ONCE,
        ],
        doubt: None,
    };

    #[test]
    fn of_nothing_no_side_of_a_limit_holds() {
        let nothing = (0, 90, Some(0));
        assert!(matches!(NONE.judge(&nothing), Outcome::Nothing));
        // What could not be told before that stays the reason.
        assert!(matches!(UNKNOWN.judge(&nothing), Outcome::Not(_)));
    }

    #[test]
    fn the_book_has_each_way_by_its_limits() {
        assert_eq!(
            RULE.told_from(),
            "10 that fail, and: 50 % of them wait; or less than 50 % of them wait"
        );
    }
}
