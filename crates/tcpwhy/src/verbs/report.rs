//! `tcpwhy report`: a recording, explained, as one HTML file that opens anywhere.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use cli::Target;
use recording::Filter;
use view::report::{self, Report};

use crate::at::AtArgs;
use crate::{filters, given};

/// Arguments of `tcpwhy report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// A recording; for several, the report also shows what differs; name two as FAST SLOW
    #[arg(required_unless_present_any = ["from", "at", "last"], value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// The same as RECORDING; every verb that reads a recording takes --from
    #[arg(
        long,
        value_name = "RECORDING",
        conflicts_with = "recordings",
        hide_short_help = true
    )]
    from: Vec<PathBuf>,
    /// Write the page to this file; - is standard output [default: the recording's name with .html]
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the data behind the page as JSON, instead of the page
    #[arg(long)]
    json: bool,
    /// Replace addresses and names by pseudonyms
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    at: AtArgs,
}

/// Runs the verb.
pub fn run(args: &ReportArgs, out: &mut impl Write) -> Result<ExitCode> {
    let mut paths = [&args.recordings[..], &args.from].concat();
    if paths.is_empty() {
        paths.extend(args.at.store());
    }
    given::at_most_one_stdin(&paths)?;
    let output = match (&args.output, args.json) {
        (Some(output), _) => Some(output.clone()),
        (None, true) => None,
        (None, false) => Some(page_of(&paths)?),
    };
    // Before the work: what cannot be written is said at once.
    let target = output.as_deref().map(Target::of).transpose()?;
    let mut recordings = Vec::new();
    let to_file = target.as_ref().filter(|target| target.is_file());
    let output = to_file.and(output.as_deref());
    let _held = given::hold(paths.iter().map(PathBuf::as_path), output)?;
    for (i, path) in paths.iter().enumerate() {
        let recording = given::open_at(path, &args.at)?;
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
    let Some(target) = target else {
        write(&report, args.json, out)?;
        return Ok(ExitCode::SUCCESS);
    };
    let bytes = target.write(|out| write(&report, args.json, out))?;
    if let Some(path) = output {
        cli::say(&format!("wrote {} ({})", path.display(), size(bytes)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the page goes if that is not said: here, under the name of the first recording. What is there stays.
fn page_of(paths: &[PathBuf]) -> Result<PathBuf> {
    let first = paths.first().filter(|path| !given::is_stdin(path));
    let name = first.and_then(|path| path.file_stem());
    let Some(name) = name else {
        bail!("name the page with -o: the recording has no name of its own");
    };
    let mut page = name.to_os_string();
    page.push(".html");
    let page = PathBuf::from(page);
    if page.exists() {
        bail!("{0} exists already; -o {0} replaces it", page.display());
    }
    Ok(page)
}

fn write(report: &Report, json: bool, mut out: &mut dyn Write) -> Result<()> {
    if json {
        view::json::lines([&report.page], &mut out)?
    } else {
        report.html(&mut out)?
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
