//! `tcpwhy-lab lab corpus`: records the corpus anew, or a part of it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use lab::{CorpusShelf, Subject};

/// Arguments of `tcpwhy lab corpus`.
#[derive(Args, Debug)]
#[command(
    after_help = "`make corpus` records all of it in an hour and a half, and writes what explain says of it."
)]
pub struct CorpusArgs {
    /// Directory of the corpus; a new recording replaces the one of the same name
    dir: PathBuf,
    /// Only this scenario, or this situation of the exam, by its seed
    #[arg(long, value_name = "SUBJECT")]
    only: Vec<String>,
    /// The exam whose wrong answers belong to the corpus
    #[arg(long, value_name = "DIR", default_value = "docs/exam")]
    exam: PathBuf,
}

/// Runs the verb.
pub fn run(args: CorpusArgs, out: &mut impl Write) -> Result<ExitCode> {
    let mut shelf = CorpusShelf::open(&args.dir)?;
    let asked = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let sittings = lab::Sittings::open(&args.exam)?;
    let subjects = lab::subjects(&sittings)?;
    let subjects: Vec<Subject> = subjects.into_iter().filter(|s| asked(&s.name())).collect();
    if subjects.is_empty() {
        bail!("nothing of the corpus is called {}", args.only.join(", "));
    }
    let stop = lab::Stop::on_signals()?;
    let programs = lab::Programs::current()?;
    let mut failed = 0;
    for (at, subject) in subjects.iter().enumerate() {
        let began = Instant::now();
        let name = subject.name();
        let kept = match lab::record_subject(subject, &programs, &mut shelf, &stop) {
            Ok(kept) => kept,
            Err(e @ (lab::Error::Interrupted | lab::Error::NotRoot)) => return Err(e.into()),
            Err(e) => {
                failed += 1;
                cli::say(&format!("{name}: {e}"));
                continue;
            }
        };
        let recordings: Vec<&str> = kept.truths.iter().map(|t| t.recording.as_str()).collect();
        writeln!(
            out,
            "{}/{} {name}: {} looks, {:.0} s: {}",
            at + 1,
            subjects.len(),
            kept.looks,
            began.elapsed().as_secs_f64(),
            recordings.join(" ")
        )?;
        out.flush()?;
    }
    if failed > 0 {
        bail!("{failed} of {} could not be recorded", subjects.len());
    }
    Ok(ExitCode::SUCCESS)
}
