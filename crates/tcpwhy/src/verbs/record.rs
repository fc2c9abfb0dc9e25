//! `tcpwhy record`: record the live host into a directory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use observe::Part;

use crate::live::{self, LiveArgs};

/// Arguments of `tcpwhy record`.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Directory to make [default: HOSTNAME-TIME.tcpwhy]
    #[arg(short, value_name = "NAME")]
    output: Option<PathBuf>,
    /// How long to record [default: 30s, or until COMMAND ends]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::duration::parse)]
    time: Option<Duration>,
    #[command(flatten)]
    live: LiveArgs,
}

const DEFAULT_TIME: Duration = Duration::from_secs(30);

/// Runs the verb.
pub fn run(args: RecordArgs) -> Result<ExitCode> {
    let time = args
        .time
        .or(args.live.command.is_empty().then_some(DEFAULT_TIME));
    let dir = args
        .output
        .unwrap_or_else(|| default_name(args.live.redact));
    let filter = args.live.filters.live()?;
    let manifest = live::record(dir.clone(), time, filter, Part::by_default(), &args.live)?;
    let lost: u64 = manifest.sources.iter().map(|s| s.lost).sum();
    let seconds = manifest.length().as_secs_f64();
    eprintln!(
        "recorded {seconds:.1} s into {}{}; `tcpwhy explain {}` says what it shows",
        dir.display(),
        match lost {
            0 => String::new(),
            lost => format!(", {lost} records lost (see --ring-kib)"),
        },
        dir.display(),
    );
    Ok(ExitCode::SUCCESS)
}

fn default_name(redacted: bool) -> PathBuf {
    let host = if redacted {
        "redacted".into()
    } else {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .replace('/', "-")
    };
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    format!("{host}-{now}.tcpwhy").into()
}
