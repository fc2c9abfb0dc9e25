//! What the tests of the model share.

use super::MODEL;
use super::params::Params;
use crate::testing::try_params;

/// The defaults, with what is set.
pub(super) fn params(set: &[&str]) -> Params {
    try_params(&MODEL, set).unwrap()
}
