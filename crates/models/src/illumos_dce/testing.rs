//! What the tests of the model share.

use super::MODEL;
use super::params::Params;
use crate::Error;

fn set(all: &[&str]) -> Result<Params, Error> {
    let parameters = MODEL.parameters()?;
    let mut values = parameters.defaults();
    for one in all {
        parameters.set(&mut values, one)?;
    }
    Params::of(&values)
}

/// The defaults, with what is set.
pub(super) fn params(all: &[&str]) -> Params {
    set(all).unwrap()
}

/// What is said of values that cannot be.
pub(super) fn refused(all: &[&str]) -> String {
    set(all).unwrap_err().to_string()
}
