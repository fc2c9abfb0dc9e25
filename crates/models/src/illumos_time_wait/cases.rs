//! What the articles of cases A and C report, beside what the model gives.

mod clumsy_kernel;
mod unicorn;

use super::params::Params;
use crate::Error;
use crate::bench;
use crate::check::CheckRow;

type Bench<'a> = bench::Bench<'a, Params>;
type Runs = bench::Runs<Params>;

impl Runs {
    /// Per cent of the connects that were refused at first.
    fn refused(&self) -> Vec<f64> {
        self.each(|o| o.refused_share(&self.p) * 100.0)
    }
}

pub(super) fn check(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let mut rows = clumsy_kernel::collapse(bench)?;
    rows.extend(clumsy_kernel::controls(bench)?);
    rows.extend(unicorn::balancer(bench)?);
    rows.extend(unicorn::script(bench)?);
    rows.extend(unicorn::traffic(bench)?);
    Ok(rows)
}
