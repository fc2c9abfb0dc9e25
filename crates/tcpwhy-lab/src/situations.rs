//! `tcpwhy-lab lab situations`: plays situations, grades what is said of them, and writes the page.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use cli::Target;

/// Arguments of `tcpwhy lab situations`.
#[derive(Args, Debug)]
#[command(
    after_help = "Seeds 5001 to 5400 grade, and are fixed. To develop tcpwhy, use seeds 1 to 999."
)]
pub struct SituationsArgs {
    /// Directory of the results and recordings; situations that it has are not played again
    dir: PathBuf,
    /// Number of situations
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// Only this situation, by its seed, which is played again
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    only: Vec<u64>,
    /// How many situations are played at once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=16))]
    at_once: u64,
    /// Play nothing; print what the seeds draw
    #[arg(long, conflicts_with_all = ["grade", "page", "json", "at_once"])]
    draw: bool,
    /// Play nothing; ask this build about the recordings that are there, and grade that
    #[arg(long, conflicts_with_all = ["seeds", "from", "only", "at_once"])]
    grade: bool,
    /// Write the page of the book to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print one JSON object per situation
    #[arg(long)]
    json: bool,
}

/// The seeds that are asked for.
fn seeds(args: &SituationsArgs) -> Vec<u64> {
    if args.only.is_empty() {
        (args.from..args.from.saturating_add(args.seeds)).collect()
    } else {
        args.only.clone()
    }
}

/// Runs the verb.
pub fn run(args: SituationsArgs, out: &mut impl Write) -> Result<ExitCode> {
    if args.draw {
        for seed in seeds(&args) {
            let line = lab::render_composed(&lab::Composed::compose(seed));
            writeln!(out, "{line}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let sat = if args.grade {
        lab::explain_again(&args.dir, None)?
    } else {
        let again = !args.only.is_empty();
        let options = lab::SituationOptions {
            dir: args.dir.clone(),
            seeds: seeds(&args),
            again,
            at_once: args.at_once as usize,
            programs: None,
        };
        lab::situations(&options, |played, said, done, of| {
            let line = lab::render_marked(&lab::Marked::of(played, said));
            cli::say(&format!("{done}/{of}  {line}"));
        })?
    };
    let (grade, all) = lab::SituationGrade::of(&sat);
    if let Some(path) = &args.page {
        let page = lab::situations_markdown(&grade, &all);
        Target::of(path)?.write(|out| Ok(out.write_all(page.as_bytes())?))?;
    }
    if args.json {
        view::json::lines(&all, out)?;
    } else {
        write!(out, "{}", lab::render_situations(&grade, &all))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_answer_that_is_right_is_a_cause_that_explain_tells() {
        let told: Vec<&str> = explain::Id::OWN.iter().map(|id| id.as_str()).collect();
        let asked = lab::answers(1..400);
        let unknown = asked
            .iter()
            .filter(|id| !told.contains(&id.as_str()) && !lab::UNTOLD.contains(&id.as_str()));
        assert_eq!(unknown.collect::<Vec<_>>(), [""; 0]);
        assert!(asked.len() > 25, "{asked:?}");
    }
}
