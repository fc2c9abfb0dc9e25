//! A model run over a range of one parameter: a table of its figures.

use serde::Serialize;

use crate::check::Spread;
use crate::parallel::parallel;
use crate::report::{columns, number};
use crate::{Error, Figure, Model, Report, Values};

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
    /// The value and what came of it, with the first seed.
    pub runs: Vec<(f64, Report)>,
    /// How many seeds each value was run with.
    pub seeds: u64,
    /// Of each value, and in the order of its figures: what they came to over the seeds.
    pub spreads: Vec<Vec<Spread>>,
}

impl Sweep {
    /// The figures that there are.
    pub fn figures(&self) -> &[Figure] {
        self.runs.first().map_or(&[], |(_, report)| &report.figures)
    }

    /// The one of a name; the error says which there are.
    pub fn figure(&self, name: &str) -> Result<usize, Error> {
        let figures = self.figures();
        let found = figures.iter().position(|f| f.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = figures.iter().map(|f| f.name).collect();
            Error::UnknownFigure {
                name: name.into(),
                known: known.join(", "),
            }
        })
    }

    /// One of the figures over the values.
    pub fn line(&self, figure: usize) -> impl Iterator<Item = (f64, Spread)> + Clone + '_ {
        let spreads = self.runs.iter().zip(&self.spreads);
        spreads.filter_map(move |((value, _), all)| Some((*value, *all.get(figure)?)))
    }

    /// The parameter with its unit.
    pub fn along(&self) -> String {
        with_unit(&self.name, &self.unit)
    }
}

/// A name with its unit, as heads of columns have it.
pub fn with_unit(name: &str, unit: &str) -> String {
    match unit {
        "" => name.into(),
        unit => format!("{name}, {unit}"),
    }
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
            name: parameter.name.into(),
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

/// Runs the model at every value of the range, with so many seeds from `seed` on, on every CPU.
pub fn sweep(
    model: &Model,
    base: &Values,
    range: &Range,
    seed: u64,
    seeds: u64,
) -> Result<Sweep, Error> {
    let parameters = model.parameters()?;
    let parameter = parameters.named(&range.name)?;
    let points = range.values(parameter.whole);
    let per_point = seeds.max(1) as usize;
    let mut all = parallel(points.len() * per_point, |nth| {
        let mut values = base.clone();
        parameters.put(&mut values, &range.name, points[nth / per_point])?;
        let seed = seed.saturating_add((nth % per_point) as u64);
        model.run(&values, seed)
    })?
    .into_iter();
    let (mut runs, mut spreads) = (Vec::new(), Vec::new());
    for point in points {
        let reports: Vec<Report> = all.by_ref().take(per_point).collect();
        spreads.push(over_seeds(&reports));
        runs.extend(reports.into_iter().next().map(|first| (point, first)));
    }
    Ok(Sweep {
        name: range.name.clone(),
        unit: parameter.unit.into(),
        runs,
        seeds: per_point as u64,
        spreads,
    })
}

/// Each figure of a model over several runs.
fn over_seeds(reports: &[Report]) -> Vec<Spread> {
    let figures = reports.first().map_or(0, |r| r.figures.len());
    let of = |nth: usize| {
        reports
            .iter()
            .filter_map(move |r| Some(r.figures.get(nth)?.value))
    };
    (0..figures)
        .map(|nth| Spread::of(of(nth).collect()))
        .collect()
}

/// One line per value; of several seeds the medians.
pub fn render_sweep(sweep: &Sweep) -> String {
    let heads = sweep.figures().iter().map(|f| with_unit(f.name, f.unit));
    let rows = sweep.runs.iter().zip(&sweep.spreads);
    let rows = rows.map(|((value, _), figures)| {
        let figures = figures.iter().map(|f| number(f.median));
        std::iter::once(number(*value)).chain(figures).collect()
    });
    let heads = std::iter::once(sweep.along()).chain(heads).collect();
    columns(0, heads, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_seeds_give_a_range_and_the_first_seeds_run() {
        let model = crate::find("freebsd-tcptw").unwrap();
        let parameters = model.parameters().unwrap();
        let mut base = parameters.defaults();
        for set in ["duration=3", "lead_in=5"] {
            parameters.set(&mut base, set).unwrap();
        }
        let range = Range::parse(model, "load=0..1", 3).unwrap();
        let one = sweep(model, &base, &range, 4, 1).unwrap();
        let many = sweep(model, &base, &range, 4, 5).unwrap();
        assert_eq!(one.runs, many.runs);
        assert_eq!((one.seeds, many.seeds, many.spreads.len()), (1, 5, 3));
        let open = many.figure("open at most").unwrap();
        for ((value, spread), (_, single)) in many.line(open).zip(one.line(open)) {
            assert!(spread.least <= spread.median && spread.median <= spread.most);
            assert!(single.least == single.most && spread.least <= single.median);
            assert_eq!(spread.least < spread.most, value > 0.0);
        }
        let none = many.figure("bogus").unwrap_err().to_string();
        assert!(
            none.starts_with("no figure `bogus`; there are longest connect()"),
            "{none}"
        );
    }
}
