//! What the tests of models share.

use std::fmt;

use crate::bench::Simulated;
use crate::{Error, Model};

/// A model's defaults, with what is set; an error when a value cannot be.
pub(crate) fn try_params<P: Simulated>(model: &Model, set: &[&str]) -> Result<P, Error> {
    let parameters = model.parameters()?;
    let mut values = parameters.defaults();
    for one in set {
        parameters.set(&mut values, one)?;
    }
    P::of(&values)
}

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
