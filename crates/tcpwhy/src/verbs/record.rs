//! `tcpwhy record`: record the live host into a directory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use observe::Part;

use crate::live::{self, LiveArgs};
use crate::surroundings;

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
    let stop = surroundings::begin()?;
    let parts = Part::by_default();
    let manifest = live::record(&stop, dir.clone(), time, filter, parts, &args.live)?;
    let lost: u64 = manifest.sources.iter().map(|s| s.lost).sum();
    let seconds = manifest.length().as_secs_f64();
    cli::say(&format!(
        "recorded {seconds:.1} s into {}{}; `tcpwhy explain {}` says what it shows",
        dir.display(),
        match lost {
            0 => String::new(),
            lost => format!(", {lost} records lost (see --ring-kib)"),
        },
        dir.display(),
    ));
    Ok(ExitCode::SUCCESS)
}

fn default_name(redacted: bool) -> PathBuf {
    let host = if redacted {
        "redacted".into()
    } else {
        plain(&rustix::system::uname().nodename().to_string_lossy())
    };
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    format!("{host}-{now}.tcpwhy").into()
}

/// A host's name as a part of a file's: whoever set it may have put anything into it.
fn plain(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain = host.trim_start_matches(['.', '-']).chars();
    let plain: String = plain.map(|c| if is_plain(c) { c } else { '-' }).collect();
    if plain.is_empty() {
        "host".into()
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn any_host_gives_a_file_name() {
        assert_eq!(plain("db-1.example"), "db-1.example");
        assert_eq!(plain("../etc\x1b[2J$(x)"), "-etc--2J--x-");
        assert_eq!(plain("-rf"), "rf");
        assert_eq!(plain(".."), "host");
    }
}
