//! What the tests of the model share.

use super::MODEL;
use super::params::Params;
use crate::{Error, testing};

/// The defaults, with what is set; an error when a value cannot be.
pub(super) fn try_params(set: &[&str]) -> Result<Params, Error> {
    testing::try_params(&MODEL, set)
}

/// The same of values that can be.
pub(super) fn params(set: &[&str]) -> Params {
    try_params(set).unwrap()
}
