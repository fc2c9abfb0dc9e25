//! What the tests of models share.

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
