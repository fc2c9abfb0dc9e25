//! What the tests of models share.

use std::fmt;

use crate::simulation::Simulation;
use crate::{Error, Model};

/// Values of a model for a test.
pub(crate) trait Set: Simulation {
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

    /// What is said of values that cannot be.
    fn refused(set: &[&str]) -> String {
        Self::try_with(set).map(drop).unwrap_err().to_string()
    }
}

impl<S: Simulation> Set for S {}

/// What was wrong in a simulation that was watched.
#[derive(Default)]
pub(crate) struct Audit {
    last_ns: u64,
    pub(crate) wrong: Vec<String>,
}

impl Audit {
    pub(crate) fn ensure(&mut self, sound: bool, what: &str) {
        if !sound {
            self.wrong.push(what.into());
        }
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
