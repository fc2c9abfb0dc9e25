//! `tcpwhy compare`: what differs between recordings, and what separates slow from fast.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::looks;

/// Arguments of `tcpwhy compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Two recordings, the fast one first; or many, which are split by their throughput
    #[arg(required = true, num_args = 2..)]
    recordings: Vec<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &CompareArgs, out: &mut impl Write) -> Result<ExitCode> {
    let comparison = explain::compare::compare(&args.recordings)?;
    if args.json {
        view::json::lines([&comparison], out)?;
    } else {
        let style = looks::style(false);
        let text = view::compare::comparison(&comparison, &style);
        out.write_all(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
