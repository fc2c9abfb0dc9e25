//! `tcpwhy show`: rows of a recording, by the names that `explain --rows` prints.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use recording::tables::ALL as TABLES;
use recording::{Filter, Recording, RowRef};
use view::{How, rows};

use crate::at::AtArgs;
use crate::{filters, given, looks};

/// Arguments of `tcpwhy show`.
#[derive(Args, Debug)]
#[command(override_usage = "tcpwhy show [OPTIONS] RECORDING ROW...")]
pub struct ShowArgs {
    /// A recording, and the rows to show, as `explain --rows` names them: event/000001#57355
    #[arg(required = true, value_name = "RECORDING ROW")]
    words: Vec<String>,
    /// The recording; every verb that reads one takes --from. Only rows follow then
    #[arg(long, value_name = "RECORDING", hide_short_help = true)]
    from: Option<PathBuf>,
    /// One JSON object per row
    #[arg(long)]
    json: bool,
    /// Replace addresses and names by pseudonyms
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    at: AtArgs,
}

/// Rows that are shown at once.
const MOST: usize = 10_000;

/// Runs the verb.
pub fn run(args: &ShowArgs, out: &mut impl Write) -> Result<ExitCode> {
    let (path, words) = match (&args.from, args.words.split_first()) {
        (Some(from), _) => (from.as_path(), &args.words[..]),
        (None, Some((path, words))) => (Path::new(path), words),
        (None, None) => bail!("no recording was named"),
    };
    let places = places(words)?;
    let _held = given::hold([path], None)?;
    let recording = given::open_at(path, &args.at)?;
    for place in &places {
        is_there(&recording, place).with_context(|| path.display().to_string())?;
    }
    let (recording, _) = filters::redacted(args.redact, recording, Filter::default())?;
    let picked = recording.pick(places.iter().copied())?;
    // In the order in which they were asked for.
    let found = places
        .iter()
        .filter_map(|place| picked.get_key_value(place));
    if args.json {
        rows::json(found, out)?
    } else {
        let how = How {
            ascii: looks::ascii(),
            zone: looks::zone(),
            ..How::of(&recording.manifest)
        };
        rows::text(found, &how, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows that are named, each once; with the brackets of what was printed, or without.
fn places(words: &[String]) -> Result<Vec<RowRef>> {
    let names = words.iter().flat_map(|word| word.split([' ', ',']));
    let names = names.map(|name| name.trim_matches(['[', ']']));
    let mut seen = BTreeSet::new();
    let mut places = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        let place: RowRef = name.parse().map_err(|why: String| anyhow!(why))?;
        if seen.insert(place) {
            places.push(place);
        }
    }
    match places.len() {
        0 => bail!("no row was named; a row is TABLE/SEGMENT#ROW, such as event/000001#57355"),
        n if n > MOST => bail!("{n} rows were named; at most {MOST} can be shown at once"),
        _ => Ok(places),
    }
}

/// An error that says what there is instead.
fn is_there(recording: &Recording, place: &RowRef) -> Result<()> {
    let table = place.table;
    let Some(count) = recording.segment_rows(table, place.segment)? else {
        let segments = recording.segments(table)?;
        match (segments.first(), segments.last()) {
            (Some(first), Some(last)) => bail!(
                "no segment {table}/{:06}; {table} has {} of them, {first:06} to {last:06}",
                place.segment,
                segments.len()
            ),
            _ => bail!("no rows of {table} were recorded{}", example(recording)),
        }
    };
    match u64::from(place.row) < count {
        true => Ok(()),
        false if count == 0 => bail!("{table}/{:06} has no rows", place.segment),
        false => bail!(
            "no row {place}; {table}/{:06} has #0 to #{}",
            place.segment,
            count - 1
        ),
    }
}

/// A row that is there, to name one like it.
fn example(recording: &Recording) -> String {
    let first = TABLES.iter().find_map(|table| {
        let segments = recording.segments(table.name).ok()?;
        Some(format!(
            "; {}/{:06}#0 is there",
            table.name,
            segments.first()?
        ))
    });
    first.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::places;

    fn of(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        let places = places(&words).map_err(|e| e.to_string())?;
        Ok(places.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn rows_are_named_as_they_are_printed() {
        let found = of(&["[event/000001#5", "wait/12#0]", "event/000001#5"]);
        assert_eq!(found.unwrap(), ["event/000001#5", "wait/000012#0"]);
        assert_eq!(of(&["[event/000001#5 event/000001#6]"]).unwrap().len(), 2);
    }

    #[test]
    fn what_is_wrong_with_a_name_is_said() {
        let wrong = |word| of(&[word]).unwrap_err();
        assert!(wrong("event").contains("TABLE/SEGMENT#ROW"));
        assert!(wrong("event/000001#-1").contains("TABLE/SEGMENT#ROW"));
        assert!(wrong("event/99999999999#1").contains("TABLE/SEGMENT#ROW"));
        assert!(wrong("../event/000001#1").contains("TABLE/SEGMENT#ROW"));
        assert!(wrong("events/000001#1").contains("the tables are event, packet, "));
        assert!(wrong("[]").contains("no row was named"));
    }
}
