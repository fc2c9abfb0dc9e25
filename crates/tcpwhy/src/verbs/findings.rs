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
use crate::serving::WRITE_EVERY;
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
    let (alerts, written_ns) = Book::new(&store::findings(&args.store)).read()?;
    let now_ns = unix_ns(now.timestamp());
    // Twice what it takes at most: who is busy is late.
    let stale_ns = 2 * i64::try_from(WRITE_EVERY.as_nanos()).unwrap_or(i64::MAX);
    let is_stale = now_ns.saturating_sub(written_ns) > stale_ns;
    if is_stale {
        let at = Timestamp::from_nanosecond(written_ns.into()).unwrap_or_default();
        let at = at.to_zoned(looks::zone()).strftime("%F %T").to_string();
        cli::say(&format!(
            "tcpwhy: nobody has explained what this host does since {at}: what holds below held then; start `tcpwhy serve`"
        ));
    }
    let now_ns = if is_stale { written_ns } else { now_ns };
    let of_time = |alert: &&Alert| alert.is_raised() || alert.last_unix_ns >= since;
    let told: Vec<&Alert> = alerts.all().iter().filter(of_time).collect();
    if args.json {
        json::lines(&told, out)?;
    } else {
        let look = |to_s: i64, length_s: i64| {
            let store = args.store.display();
            format!("tcpwhy explain {store} --at @{to_s} --last {length_s}s")
        };
        let text = view::alerts::text(&told, now_ns, look, &looks::style(false));
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
