//! `tcpwhy report`: a recording, explained, as one HTML file that opens anywhere.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use recording::{Filter, Recording};
use view::report::{self, Report};

use crate::filters;

/// Arguments of `tcpwhy report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// A recording; of several, the report also says what differs, two being FAST SLOW
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// Write the page into this file
    #[arg(short, value_name = "FILE", required_unless_present = "json")]
    output: Option<PathBuf>,
    /// The document that the page shows, as JSON, instead of the page
    #[arg(long)]
    json: bool,
    /// Pseudonyms for addresses and names
    #[arg(long)]
    redact: bool,
}

/// Runs the verb.
pub fn run(args: &ReportArgs, out: &mut impl Write) -> Result<ExitCode> {
    if let Some(path) = args.output.as_deref().filter(|path| path.is_dir()) {
        bail!(
            "{}: is a directory; name a file to write, such as report.html",
            path.display()
        );
    }
    let mut recordings = Vec::new();
    for (i, path) in args.recordings.iter().enumerate() {
        let recording = Recording::open(path)?;
        let (recording, _) = filters::redacted(args.redact, recording, Filter::default())?;
        // A recording's directory mostly has the host's name.
        let name = if args.redact {
            format!("recording {}", i + 1)
        } else {
            report::name_of(path)
        };
        recordings.push((name, recording));
    }
    let report = Report::of(&recordings)?;
    let Some(path) = &args.output else {
        write(&report, args.json, out)?;
        return Ok(ExitCode::SUCCESS);
    };
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        write(&report, args.json, &mut file)?;
        file.flush()?;
        Ok(file.get_ref().metadata()?.len())
    };
    let bytes: Result<u64> = write();
    let bytes = bytes.with_context(|| format!("writing {}", path.display()))?;
    eprintln!("wrote {} ({})", path.display(), size(bytes));
    Ok(ExitCode::SUCCESS)
}

fn write(report: &Report, json: bool, out: &mut impl Write) -> Result<()> {
    match json {
        true => {
            // As an error of the stream, so that a reader who has seen enough is none.
            serde_json::to_writer(&mut *out, &report.page).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        false => report.html(out)?,
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
