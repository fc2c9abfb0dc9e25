//! A model run over a range of one parameter: a table of its figures.

use serde::Serialize;

use crate::parallel::parallel;
use crate::report::{columns, number};
use crate::{Error, Model, Report, Values};

/// `name=a..b` in so many steps, ends included.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    name: String,
    from: f64,
    to: f64,
    steps: usize,
}

/// The figures at every value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The parameter.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The value and what came of it.
    pub runs: Vec<(f64, Report)>,
}

impl Range {
    /// Reads `name=a..b`; both ends have to be values that the model's parameter can have.
    pub fn parse(model: &Model, text: &str, steps: usize) -> Result<Range, Error> {
        let form = || Error::Malformed(text.into(), "of the form NAME=A..B, as in clients=10..400");
        let (name, range) = text.split_once('=').ok_or_else(form)?;
        let (from, to) = range.split_once("..").ok_or_else(form)?;
        let parameters = model.parameters()?;
        let parameter = parameters.named(name.trim())?;
        Ok(Range {
            name: parameter.name.clone(),
            from: parameter.parse(from.trim())?,
            to: parameter.parse(to.trim())?,
            steps: steps.max(1),
        })
    }

    /// The values, evenly apart; of a whole parameter the nearest whole ones, each once.
    fn values(&self, whole: bool) -> Vec<f64> {
        let last = self.steps.saturating_sub(1).max(1) as f64;
        let values = (0..self.steps).map(|i| {
            let value = self.from + (self.to - self.from) * i as f64 / last;
            if whole { value.round() } else { value }
        });
        let mut values: Vec<f64> = values.collect();
        values.dedup();
        values
    }
}

/// Runs the model at every value of the range, with the same seed, on every CPU.
pub fn sweep(model: &Model, base: &Values, range: &Range, seed: u64) -> Result<Sweep, Error> {
    let parameters = model.parameters()?;
    let parameter = parameters.named(&range.name)?;
    let points = range.values(parameter.whole);
    let runs = parallel(points.len(), |nth| {
        let mut values = base.clone();
        parameters.put(&mut values, &range.name, points[nth])?;
        Ok((points[nth], model.run(&values, seed)?))
    })?;
    Ok(Sweep {
        name: range.name.clone(),
        unit: parameter.unit.clone(),
        runs,
    })
}

/// One line per value.
pub fn render_sweep(sweep: &Sweep) -> String {
    let figures = sweep.runs.first().map(|(_, r)| r.figures.clone());
    let heads = figures.iter().flatten().map(|f| match f.unit {
        "" => f.name.to_string(),
        unit => format!("{}, {unit}", f.name),
    });
    let own = match sweep.unit.as_str() {
        "" => sweep.name.clone(),
        unit => format!("{}, {unit}", sweep.name),
    };
    let rows = sweep.runs.iter().map(|(value, report)| {
        let figures = report.figures.iter().map(|f| number(f.value));
        std::iter::once(number(*value)).chain(figures).collect()
    });
    let heads = std::iter::once(own).chain(heads).collect();
    columns(0, heads, rows.collect())
}
