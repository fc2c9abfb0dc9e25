//! `tcpwhy-lab lab exam`: holds the exam, grades it, and writes its page and picture.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use cli::Target;

use crate::chart::{self, Chart, Panel, Point};

/// Arguments of `tcpwhy lab exam`.
#[derive(Args, Debug)]
#[command(
    after_help = "The grading seeds begin at 1000000 and are fixed. To develop tcpwhy, use others, with --building."
)]
pub struct ExamArgs {
    /// Directory of the results; situations that it has are not run again
    dir: PathBuf,
    /// Number of situations
    #[arg(long, value_name = "N", default_value_t = 720, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Use seeds that are not graded, beginning with this one
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..lab::GRADING))]
    building: Option<u64>,
    /// Only this situation, by its seed, which is run again; or those with this scenario
    #[arg(long, value_name = "SITUATION")]
    only: Vec<String>,
    /// Keep the recordings of wrong answers, in DIR/recordings
    #[arg(long)]
    keep: bool,
    /// Keep all recordings, in DIR/recordings: about 300 kB each
    #[arg(long, conflicts_with = "keep")]
    keep_all: bool,
    /// Run the wrong answers again with this build, into DIR/again; the page shows both
    #[arg(long, conflicts_with_all = ["seeds", "building", "only"])]
    again: bool,
    /// Run nothing; grade the existing results
    #[arg(long, conflicts_with_all = ["seeds", "building", "only", "keep", "keep_all", "again"])]
    grade: bool,
    /// Write the page of the book to this file, and its picture to plots/exam.svg beside it
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print the grade as one JSON object
    #[arg(long)]
    json: bool,
}

/// The picture of the detection curve, beside the page.
const PICTURE: &str = "plots/exam.svg";

/// Runs the verb.
pub fn run(args: ExamArgs, out: &mut impl Write) -> Result<ExitCode> {
    let sittings = if args.grade {
        lab::Sittings::open(&args.dir)?
    } else {
        let options = lab::ExamOptions {
            dir: args.dir.clone(),
            first: args.building.unwrap_or(lab::GRADING),
            seeds: args.seeds,
            only: args.only.clone(),
            again: args.again,
            keep: match (args.keep_all, args.keep) {
                (true, _) => lab::Keep::All,
                (false, true) => lab::Keep::Wrong,
                (false, false) => lab::Keep::Nothing,
            },
            programs: None,
        };
        lab::exam(&options, |at| {
            let line = lab::render_sitting(at.sitting);
            cli::say(&format!(
                "{}/{} {:>8}  {line}",
                at.done,
                at.of,
                left(at.left_s)
            ));
        })?
    };
    if sittings.torn {
        cli::say("the last sitting was cut off by whatever ended that exam, and is not counted");
    }
    let grade = lab::Grade::of(&sittings.all);
    if let Some(path) = &args.page {
        write_page(path, &args.dir, &sittings.all, &grade)?;
    }
    if args.json {
        view::json::lines([&grade], out)?;
    } else {
        write!(out, "{}", lab::render_grade(&grade))?;
    }
    Ok(if grade.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// In the directory of an exam: what its page should say of it besides, such as which builds sat it.
const ABOUT: &str = "about.md";

/// How long the rest will take: `1 h 58 min`.
fn left(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

fn write_page(
    path: &Path,
    dir: &Path,
    sittings: &[lab::Sitting],
    grade: &lab::Grade,
) -> Result<()> {
    // Nobody has to have written any.
    let about = std::fs::read_to_string(dir.join(ABOUT)).unwrap_or_default();
    let again = lab::Sittings::open(&dir.join(lab::AGAIN))?.all;
    let drawn = grade.curve.len() > 1;
    if drawn {
        let picture = path.with_file_name(PICTURE);
        Target::of(&picture)?.write(|out| Ok(chart::svg(&curve(grade), out)?))?;
    }
    let page = lab::exam_markdown(sittings, grade, &again, &about, drawn.then_some(PICTURE));
    Target::of(path)?.write(|out| Ok(out.write_all(page.as_bytes())?))?;
    Ok(())
}

/// The share of faults that is found over their severity, with where it may be by chance.
fn curve(grade: &lab::Grade) -> Chart {
    let all = std::iter::once(("all faults", &grade.curve));
    let ways = grade.curves.iter().map(|(name, bins)| (*name, bins));
    let panel = |(name, bins): (&str, &Vec<lab::Bin>)| Panel {
        title: name.into(),
        points: bins.iter().map(point).collect(),
    };
    Chart {
        title: "Share of faults that is found, %".into(),
        along: "harm ÷ what a user notices".into(),
        by_factors: true,
        panels: all.chain(ways).map(panel).collect(),
    }
}

/// A range at its middle; those that are open at one end at twice or half of the other.
fn point(bin: &lab::Bin) -> Point {
    let (from, to) = match (bin.from > 0.0, bin.to.is_finite()) {
        (false, _) => (bin.to / 4.0, bin.to),
        (true, true) => (bin.from, bin.to),
        (true, false) => (bin.from, bin.from * 4.0),
    };
    let [least, most] = wilson(bin.found, bin.of);
    Point {
        x: (from * to).sqrt().log10(),
        median: 100.0 * bin.found as f64 / bin.of.max(1) as f64,
        least: 100.0 * least,
        most: 100.0 * most,
    }
}

/// Within which a share is with 95 %, of so many tries (Wilson).
fn wilson(hits: u64, of: u64) -> [f64; 2] {
    const Z: f64 = 1.96;
    let n = of.max(1) as f64;
    let share = hits as f64 / n;
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    [(middle - half) / scale, (middle + half) / scale].map(|v| v.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_wide_where_little_was_seen() {
        let [least, most] = wilson(1, 2);
        assert!(least < 0.1 && most > 0.9);
        let [least, most] = wilson(900, 1000);
        assert!(least > 0.87 && most < 0.92);
        assert_eq!(wilson(0, 10)[0], 0.0);
    }

    #[test]
    fn the_time_left_is_in_hours_and_minutes() {
        assert_eq!(
            [30.0, 61.0, 7100.0].map(left),
            ["1 min", "2 min", "1 h 59 min"]
        );
    }

    /// A fault that cost its client so many seconds, and whether it was found.
    fn sitting(seed: u64, lost_s: f64, found: bool) -> lab::Sitting {
        let finding = serde_json::json!({
            "cause": "path-loss", "confidence": "high", "lost_s": lost_s, "part": 0,
            "title": "The path loses packets.", "wrong_owner": [],
        });
        let sitting = serde_json::json!({
            "situation": { "seed": seed, "older_ms": 0.0, "longer_s": 0.0, "parts": [{
                "scenario": "path-loss", "prefix": "a", "seed": 1, "times": 3.0, "side": "client",
                "ipv6": true, "nat": false, "sysctls": [],
            }] },
            "faults": [{
                "part": 0, "cause": "path-loss", "right": ["path-loss"], "may": [], "answer": "found",
                "felt": [{
                    "client": "a-sync", "slow": [1, 9], "slow_s": [lost_s, 60.0], "longest_s": lost_s,
                    "failed": [0, 9], "failing_s": 0.0, "outage_s": 0.0, "streaming_s": [0.0, 0.0],
                }],
            }],
            "findings": if found { vec![finding] } else { Vec::new() },
            "without": [], "failed": null, "seconds": 12.5,
        });
        serde_json::from_value(sitting).unwrap()
    }

    #[test]
    fn the_page_has_the_curve_and_what_was_wrong() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("plots")).unwrap();
        let sittings = [
            sitting(1, 0.5, false),
            sitting(2, 12.0, true),
            sitting(3, 12.0, false),
        ];
        let (path, about) = (dir.path().join("exam.md"), dir.path().join(ABOUT));
        let grade = lab::Grade::of(&sittings);
        let write = || write_page(&path, dir.path(), &sittings, &grade).unwrap();
        write();
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(!page.contains("By one build."), "{page}");
        std::fs::write(&about, "By one build.\n").unwrap();
        write();
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page.contains("\nBy one build.\n"), "{page}");
        assert!(page.contains("(plots/exam.svg)"), "{page}");
        assert!(page.contains(
            "- 3: missed path-loss of path-loss (clients' side, IPv6) (×4.0, 12.0 s lost"
        ));
        assert!(!page.contains("- 2:"), "{page}");
        let picture = std::fs::read_to_string(dir.path().join(PICTURE)).unwrap();
        assert!(picture.contains("all faults") && picture.contains("one side recorded"));
    }

    #[test]
    fn open_ranges_have_a_place_too() {
        let bin = |from, to| lab::Bin {
            from,
            to,
            found: 1,
            of: 2,
        };
        let x = |from, to| 10f64.powf(point(&bin(from, to)).x);
        assert!((x(0.0, 0.1) - 0.05).abs() < 1e-9);
        assert!((x(30.0, f64::INFINITY) - 60.0).abs() < 1e-9);
    }
}
