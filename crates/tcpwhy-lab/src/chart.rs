//! Line charts: figures over a parameter, as SVG, one panel each, and as a line of bars for a terminal.

use std::error::Error as StdError;
use std::io::{self, Write};

use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, Polygon};
use plotters::series::LineSeries;
use plotters::style::{Color, RGBColor};
use plotters_svg::SVGBackend;

use view::escape;

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Above all panels.
    pub title: String,
    /// What runs along the bottom of each, with its unit.
    pub along: String,
    /// It runs along by equal factors: `x` are decimal logarithms.
    pub by_factors: bool,
    /// From left to right, then down.
    pub panels: Vec<Panel>,
}

/// One figure.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What it is, with its unit.
    pub title: String,
    /// In order of `x`.
    pub points: Vec<Point>,
}

/// Its value at one place; where there are several, the median and the range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The value.
    pub median: f64,
    /// The least of the values.
    pub least: f64,
    /// The greatest of them.
    pub most: f64,
}

/// A panel's size, the panels of a row, and the height of the title, in pixels.
const SIZE: (u32, u32) = (420, 260);
const PER_ROW: usize = 2;
const TITLE: u32 = 40;
/// Panels drawn at most.
const MOST_PANELS: usize = 100;
const LINE: RGBColor = RGBColor(31, 98, 172);
const PAPER: RGBColor = RGBColor(255, 255, 255);

/// Draws the chart.
pub fn svg(chart: &Chart, mut out: impl Write) -> io::Result<()> {
    let panels = &chart.panels[..chart.panels.len().min(MOST_PANELS)];
    if panels.iter().all(|p| shown(p).next().is_none()) {
        let nothing = "there is no figure to draw";
        return Err(io::Error::new(io::ErrorKind::InvalidData, nothing));
    }
    let mut text = String::new();
    draw(chart, panels, &mut text).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

fn draw(
    chart: &Chart,
    panels: &[Panel],
    text: &mut String,
) -> Result<(), Box<dyn StdError + Send + Sync>> {
    let per_row = panels.len().min(PER_ROW);
    let rows = panels.len().div_ceil(per_row);
    let size = (SIZE.0 * per_row as u32, SIZE.1 * rows as u32 + TITLE);
    let area = SVGBackend::with_string(text, size).into_drawing_area();
    area.fill(&PAPER)?;
    let (head, body) = area.split_vertically(TITLE);
    let (title, height) = fitted(&chart.title, size.0);
    head.titled(&escape(&title), ("sans-serif", height))?;
    for (panel, place) in panels.iter().zip(body.split_evenly((rows, per_row))) {
        draw_panel(chart, panel, &place)?;
    }
    area.present()?;
    Ok(())
}

/// A title that fits into so many pixels, and the height of its letters; what is too long is cut.
fn fitted(title: &str, pixels: u32) -> (String, u32) {
    // A letter is rather more than half as wide as high.
    let room = |height: u32| (pixels * 10 / 6 / height) as usize;
    let letters = title.chars().count();
    let height = (10..=18).rev().find(|&height| letters <= room(height));
    match height {
        Some(height) => (title.into(), height),
        None => {
            let kept = title.chars().take(room(10).saturating_sub(1));
            (kept.chain(['…']).collect(), 10)
        }
    }
}

fn draw_panel(
    chart: &Chart,
    panel: &Panel,
    place: &DrawingArea<SVGBackend<'_>, Shift>,
) -> Result<(), Box<dyn StdError + Send + Sync>> {
    let points: Vec<Point> = shown(panel).collect();
    let (x, y) = ranges(&points);
    let mut built = ChartBuilder::on(place)
        .margin(10)
        .margin_right(20)
        .caption(escape(&panel.title), ("sans-serif", 14))
        .x_label_area_size(36)
        .y_label_area_size(58)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
    built
        .configure_mesh()
        .light_line_style(PAPER)
        .x_labels(6)
        .y_labels(5)
        .x_desc(escape(&chart.along))
        .x_label_formatter(&|v| {
            if chart.by_factors {
                number(10f64.powf(*v))
            } else {
                number(*v)
            }
        })
        .y_label_formatter(&|v| number(*v))
        .draw()?;
    if points.iter().any(|p| p.least < p.most) {
        let there = points.iter().map(|p| (p.x, p.most));
        let back = points.iter().rev().map(|p| (p.x, p.least));
        let band: Vec<(f64, f64)> = there.chain(back).collect();
        built.draw_series([Polygon::new(band, LINE.mix(0.2))])?;
    }
    let line = points.iter().map(|p| (p.x, p.median));
    built.draw_series(LineSeries::new(line, LINE.stroke_width(2)))?;
    let dots = points.iter().map(|p| (p.x, p.median));
    built.draw_series(dots.map(|at| Circle::new(at, 2, LINE.filled())))?;
    Ok(())
}

/// Values too large to draw lines between are none: a drawing has a few hundred pixels.
const LARGEST: f64 = 1e30;

fn shown(panel: &Panel) -> impl Iterator<Item = Point> + '_ {
    let drawn = |v: f64| v.abs() < LARGEST;
    let all = panel.points.iter().copied();
    all.filter(move |p| [p.x, p.median, p.least, p.most].into_iter().all(drawn))
}

/// From where to where the axes go. That of values begins at 0 unless some are below.
fn ranges(points: &[Point]) -> ((f64, f64), (f64, f64)) {
    let least = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let apart = |from: f64, to: f64| match (from.is_finite() && to.is_finite(), from < to) {
        (false, _) => (0.0, 1.0),
        (_, true) => (from, to),
        (_, false) => (
            from - from.abs().max(1.0) / 2.0,
            from + from.abs().max(1.0) / 2.0,
        ),
    };
    let (low, high) = (least(|p| p.least).min(0.0), most(|p| p.most).max(0.0));
    let y = if low == high {
        (0.0, 1.0)
    } else {
        apart(low, high + (high - low) / 20.0)
    };
    (apart(least(|p| p.x), most(|p| p.x)), y)
}

/// A number beside an axis: short, with the thousands as k, M, G.
fn number(v: f64) -> String {
    let scaled = |by: f64, unit: &str| {
        let digits = format!("{:.2}", v / by);
        let short = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{short}{unit}")
    };
    match v.abs() {
        a if a >= 1e15 => format!("{v:.1e}"),
        a if a >= 1e9 => scaled(1e9, "G"),
        a if a >= 1e6 => scaled(1e6, "M"),
        a if a >= 1e4 => scaled(1e3, "k"),
        1e-12..0.01 => format!("{v:.1e}"),
        _ => scaled(1.0, ""),
    }
}

/// The values as one bar each, from the least to the greatest; blank for what is no number.
pub fn bars(values: impl Iterator<Item = f64> + Clone) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let finite = values.clone().filter(|v| v.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
        (a.min(v), b.max(v))
    });
    let bar = |v: f64| {
        let share = (v - least) / (most - least);
        match (v.is_finite(), share.is_finite()) {
            (false, _) => ' ',
            (_, true) => BARS[(share * 7.0).round().clamp(0.0, 7.0) as usize],
            (_, false) => BARS[0],
        }
    };
    values.map(bar).collect()
}

#[cfg(test)]
mod drawing_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_is_small_and_one_that_is_too_long_is_cut() {
        assert_eq!(fitted("illumos-dce", 420), ("illumos-dce".into(), 18));
        let (same, height) = fitted(&"w".repeat(60), 420);
        assert_eq!((same.len(), height), (60, 11));
        let (cut, height) = fitted(&"w".repeat(600), 420);
        assert!(cut.ends_with('…') && cut.chars().count() <= 70 && height == 10);
    }

    #[test]
    fn numbers_beside_an_axis_are_short() {
        let told: Vec<_> = [0.0, 0.25, 12.0, 2_500.0, 16_384.0, 65e6, 3e9, 2e-5]
            .map(number)
            .into();
        assert_eq!(
            told,
            ["0", "0.25", "12", "2500", "16.38k", "65M", "3G", "2.0e-5"]
        );
    }

    #[test]
    fn bars_go_from_the_least_to_the_greatest() {
        assert_eq!(bars([0.0, 3.5, 7.0].into_iter()), "▁▅█");
        assert_eq!(bars([5.0, 5.0, f64::NAN].into_iter()), "▁▁ ");
        assert_eq!(bars([].into_iter()), "");
    }
}
