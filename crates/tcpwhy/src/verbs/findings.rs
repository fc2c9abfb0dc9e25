//! `tcpwhy findings`: what `serve` raised and resolved.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use alerts::{Alert, Book};
use anyhow::Result;
use clap::Args;
use jiff::{Timestamp, Zoned};
use view::json;

use crate::at::{STORE, moment};
use crate::{given, looks};

/// Arguments of `tcpwhy findings`.
#[derive(Args, Debug)]
pub struct FindingsArgs {
    /// The store
    #[arg(value_name = "STORE", default_value = STORE)]
    store: PathBuf,
    /// Those that held at some time since then: 03:07, "yesterday 03:07", "10m ago", 2026-12-01T03:07:00Z
    #[arg(long, value_name = "TIME", default_value = "24h ago")]
    since: String,
    /// One JSON object per finding
    #[arg(long)]
    json: bool,
    /// Exit with 10 if a finding holds
    #[arg(long)]
    fail_on_finding: bool,
}

const FINDINGS: u8 = 10;

/// Runs the verb.
pub fn run(args: &FindingsArgs, out: &mut impl Write) -> Result<ExitCode> {
    let now = Zoned::now().with_time_zone(looks::zone());
    let since = unix_ns(moment("--since", &args.since, &now)?);
    let _held = given::hold([args.store.as_path()], None)?;
    let alerts = Book::new(&store::findings(&args.store)).read()?;
    let of_time = |alert: &&Alert| alert.is_raised() || alert.last_unix_ns >= since;
    let told: Vec<&Alert> = alerts.all().iter().filter(of_time).collect();
    if args.json {
        json::lines(&told, out)?;
    } else {
        let look = |to_s: i64, length_s: i64| {
            let store = args.store.display();
            format!("tcpwhy explain {store} --at @{to_s} --last {length_s}s")
        };
        let text = view::alerts::text(&told, unix_ns(now.timestamp()), look, &looks::style(false));
        out.write_all(text.as_bytes())?;
    }
    let holds = args.fail_on_finding && told.iter().any(|alert| alert.is_raised());
    Ok(if holds {
        ExitCode::from(FINDINGS)
    } else {
        ExitCode::SUCCESS
    })
}

fn unix_ns(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}
