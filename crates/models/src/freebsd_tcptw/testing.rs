//! What the tests of the model share.

use super::MODEL;
use super::params::Params;
use crate::Error;

/// The defaults, with what is set; an error when a value cannot be.
pub(super) fn try_params(set: &[&str]) -> Result<Params, Error> {
    let parameters = MODEL.parameters()?;
    let mut values = parameters.defaults();
    for one in set {
        parameters.set(&mut values, one)?;
    }
    Params::of(&values)
}

/// The same of values that can be.
pub(super) fn params(set: &[&str]) -> Params {
    try_params(set).unwrap()
}
