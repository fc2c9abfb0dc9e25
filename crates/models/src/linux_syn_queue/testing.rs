//! What the tests of the model share.

use super::MODEL;
use super::params::Params;
use crate::Error;

/// The defaults, with what is set.
pub(super) fn params(set: &[&str]) -> Params {
    try_params(set).unwrap()
}

pub(super) fn try_params(set: &[&str]) -> Result<Params, Error> {
    let parameters = MODEL.parameters()?;
    let mut values = parameters.defaults();
    for one in set {
        parameters.set(&mut values, one)?;
    }
    Params::of(&values)
}
