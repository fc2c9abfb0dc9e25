//! What the tests of the model share.

use super::MODEL;
use super::params::Params;

/// The defaults, with what is set.
pub(super) fn params(set: &[&str]) -> Params {
    let parameters = MODEL.parameters().unwrap();
    let mut values = parameters.defaults();
    for one in set {
        parameters.set(&mut values, one).unwrap();
    }
    Params::of(&values).unwrap()
}
