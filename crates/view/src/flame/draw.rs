//! Profiles as folded stacks and as SVG.

use std::io::{self, Write};

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{Options, from_lines};

use super::{Profile, Unit};
use crate::escape;

/// What stands above a graph.
#[derive(Clone, Debug, Default)]
pub struct Caption {
    /// In large letters.
    pub title: String,
    /// What was sampled, when, how often.
    pub subtitle: String,
}

/// Writes one line per stack, as flame graph tools read them.
pub fn folded(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    for (stack, n) in &profile.stacks {
        writeln!(out, "{stack} {n}")?;
    }
    Ok(())
}

/// Draws the profile as a flame graph: SVG, with search and zoom when a browser shows it.
pub fn graph(profile: &Profile, caption: &Caption, out: impl Write) -> io::Result<()> {
    let lines: Vec<_> = profile
        .stacks
        .iter()
        .map(|(stack, n)| format!("{stack} {n}"))
        .collect();
    draw(&lines, profile.unit, caption, out)
}

/// Draws `after`, coloured by what changed since `before`: red grew, blue shrank. The samples of
/// `before` are scaled to as many as `after` has, idle ones included.
pub fn difference(
    before: &Profile,
    after: &Profile,
    caption: &Caption,
    out: impl Write,
) -> io::Result<()> {
    let scale = after.of_all() / before.of_all();
    let scaled = |n: u64| (n as f64 * scale).round() as u64;
    let now = |stack: &str| after.stacks.get(stack).copied().unwrap_or(0);
    let gone = before.stacks.keys().filter(|s| now(s) == 0);
    let lines: Vec<_> = after
        .stacks
        .keys()
        .chain(gone)
        .map(|stack| {
            let was = scaled(before.stacks.get(stack).copied().unwrap_or(0));
            format!("{stack} {was} {}", now(stack))
        })
        .collect();
    draw(&lines, after.unit, caption, out)
}

fn draw(lines: &[String], unit: Unit, caption: &Caption, out: impl Write) -> io::Result<()> {
    if lines.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "there is nothing to draw",
        ));
    }
    let mut options = Options::default();
    // XML has no way to write most control characters; the stacks are clean.
    options.title = escape(&caption.title).into_owned();
    options.subtitle = Some(escape(&caption.subtitle).into_owned()).filter(|s| !s.is_empty());
    options.colors = Palette::Multi(MultiPalette::Java);
    options.deterministic = true;
    options.count_name = unit.label().into();
    from_lines(&mut options, lines.iter().map(String::as_str), out)
}
