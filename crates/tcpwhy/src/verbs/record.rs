//! `tcpwhy record`: record the live host into a directory, or as one file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use explain::shell;
use observe::Part;

use crate::kept::{self, Kept};
use crate::live::{self, Bounds, LiveArgs};
use crate::{surroundings, unfinished};

/// Arguments of `tcpwhy record`.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Directory to create, or one file if it ends in .tcpw; - writes that to standard output [default:
    /// HOSTNAME-TIME.tcpwhy]
    #[arg(short, value_name = "NAME")]
    output: Option<PathBuf>,
    /// Replace the recording that has this name
    #[arg(long, requires = "output")]
    force: bool,
    /// Finish the .tcpw file that a killed run left incomplete
    #[arg(long, conflicts_with_all = ["force", "time", "max_size", "command"])]
    recover: bool,
    /// Stop when the recording reaches this size: 500M, 2G. It always stops before the disk is full
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    max_size: Option<u64>,
    /// How long to record [default: 30s, or until COMMAND ends]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::duration::parse)]
    time: Option<Duration>,
    #[command(flatten)]
    live: LiveArgs,
}

const DEFAULT_TIME: Duration = Duration::from_secs(30);

/// Runs the verb.
pub fn run(args: RecordArgs) -> Result<ExitCode> {
    if args.recover {
        unfinished::recover(args.output.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let time = args
        .time
        .or(args.live.command.is_empty().then_some(DEFAULT_TIME));
    let name = args
        .output
        .unwrap_or_else(|| kept::default_name(args.live.redact));
    let filter = args.live.filters.live()?;
    let stop = surroundings::begin()?;
    let mut kept = Kept::at(&name, args.force)?;
    kept.stops_with_reader(&stop)?;
    let parts = Part::by_default();
    let bounds = Bounds {
        time,
        bytes: args.max_size,
    };
    let recorded = live::record(&stop, &kept, bounds, filter, parts, &args.live)?;
    kept.end()?;
    let manifest = recorded.manifest;
    let lost: u64 = manifest.sources.iter().map(|s| s.lost).sum();
    let seconds = manifest.length().as_secs_f64();
    let name = kept.name().display();
    let (into, next) = if kept.takes_stdout() {
        (String::new(), String::new())
    } else {
        let next = shell!("tcpwhy explain {name}", name);
        let next = next.map(|next| format!("; {} says what it shows", next.in_sentence()));
        (format!(" into {name}"), next.unwrap_or_default())
    };
    let lost = match lost {
        0 => String::new(),
        lost => format!(", {lost} records lost (see --ring-kib)"),
    };
    let full = if recorded.is_full {
        ", as much as --max-size allows"
    } else {
        ""
    };
    cli::say(&format!("recorded {seconds:.1} s{into}{full}{lost}{next}"));
    match recorded.cut_by {
        Some(why) => Err(why),
        None => Ok(ExitCode::SUCCESS),
    }
}
