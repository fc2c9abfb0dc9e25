//! What the tests of models share.

use std::fmt;

use crate::bench::Checked;
use crate::{Error, Model};

/// Values of a model for a test.
pub(crate) trait Set: Checked {
    /// The defaults, with what is set; an error when a value cannot be.
    fn try_with(set: &[&str]) -> Result<Self, Error> {
        let parameters = Model::of::<Self>().parameters()?;
        let mut values = parameters.defaults();
        for one in set {
            parameters.set(&mut values, one)?;
        }
        Self::of(&values)
    }

    /// The same of values that can be.
    fn with(set: &[&str]) -> Self {
        Self::try_with(set).unwrap()
    }

    /// The same of settings that a test made up.
    fn with_drawn(set: &[String]) -> Self {
        Self::with(&set.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What is said of values that cannot be.
    fn refused(set: &[&str]) -> String {
        Self::try_with(set).map(drop).unwrap_err().to_string()
    }
}

impl<S: Checked> Set for S {}

/// The same seed gives the same outcome, and another another.
pub(crate) fn follows_from_the_seed<S>(set: &[&str])
where
    S: Checked<Outcome: PartialEq + fmt::Debug>,
{
    let simulation = S::with(set);
    assert_eq!(simulation.simulate(7), simulation.simulate(7));
    assert_ne!(simulation.simulate(7), simulation.simulate(8));
}

/// What is watched comes to what it comes to unwatched.
pub(crate) fn is_unchanged_by_watching<S>(set: &[&str], watched: impl Fn(&S, u64) -> S::Outcome)
where
    S: Checked<Outcome: PartialEq + fmt::Debug>,
{
    let simulation = S::with(set);
    assert_eq!(watched(&simulation, 3), simulation.simulate(3));
}

/// What was wrong in a simulation that was watched.
#[derive(Default)]
pub(crate) struct Audit {
    last_ns: u64,
    wrong: Vec<String>,
}

impl Audit {
    pub(crate) fn ensure(&mut self, sound: bool, what: &str) {
        if !sound {
            self.wrong.push(what.into());
        }
    }

    /// Nothing was wrong.
    pub(crate) fn is_sound(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Something happens now.
    pub(crate) fn at(&mut self, now_ns: u64) {
        self.ensure(now_ns >= self.last_ns, "the clock went back");
        self.last_ns = now_ns;
    }
}

/// The first of it.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}", &self.wrong[..self.wrong.len().min(3)])
    }
}
