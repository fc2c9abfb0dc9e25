//! `tcpwhy compare`: what differs between recordings, and what separates slow from fast.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{given, looks};

/// Arguments of `tcpwhy compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Two recordings, the fast one first; or more, which are split by throughput
    #[arg(value_name = "RECORDING", required_unless_present = "from", num_args = 2..)]
    recordings: Vec<PathBuf>,
    /// The same as RECORDING; every verb that reads a recording takes --from
    #[arg(long, value_name = "RECORDING", num_args = 2.., conflicts_with = "recordings", hide_short_help = true)]
    from: Vec<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &CompareArgs, out: &mut impl Write) -> Result<ExitCode> {
    let paths = [&args.recordings[..], &args.from].concat();
    given::at_most_one_stdin(&paths)?;
    let _held = given::hold(paths.iter().map(PathBuf::as_path), None)?;
    let open = |path: &PathBuf| Ok((path.display().to_string(), given::open(path)?));
    let comparison = explain::compare::compare::<anyhow::Error>(paths.iter().map(open))?;
    if args.json {
        view::json::lines([&comparison], out)?;
    } else {
        let style = looks::style(false);
        let text = view::compare::comparison(&comparison, &style);
        out.write_all(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
