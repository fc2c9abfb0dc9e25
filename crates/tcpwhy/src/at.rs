//! `--at` and `--last`: which time of a store, or of a recording, is read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Span, Timestamp, Zoned};
use recording::{Manifest, Recording};
use store::{Gap, Store, is_store};

use crate::looks;

/// Where `serve` records, and where is looked when a time is named and no recording.
pub const STORE: &str = "/var/lib/tcpwhy";
/// What is read if only `--at` is given.
const LAST: Duration = Duration::from_secs(300);

/// Which time is read.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Time")]
pub struct AtArgs {
    /// Read what was recorded up to TIME: 03:07, "yesterday 03:07", "10m ago", 2026-12-01T03:07:00Z. Without a recording, of
    /// /var/lib/tcpwhy, where serve records
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Read this much up to --at, or up to now [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse)]
    last: Option<Duration>,
}

impl AtArgs {
    /// So much up to this time.
    pub fn new(at: String, last: Option<Duration>) -> AtArgs {
        AtArgs { at: Some(at), last }
    }

    /// What is read where no recording was named: the host's own store, if a time was.
    pub fn store(&self) -> Option<PathBuf> {
        self.asks().then(|| PathBuf::from(STORE))
    }

    /// Whether a time was named.
    pub fn asks(&self) -> bool {
        self.at.is_some() || self.last.is_some()
    }

    /// The time that was read, as these options take it at any later time; `None` where none was named.
    pub fn absolute(&self, manifest: &Manifest) -> Option<(String, String)> {
        if !self.asks() {
            return None;
        }
        // Whole seconds, which hold it.
        let from_s = manifest.start_unix_ns().div_euclid(1_000_000_000);
        let length_s = manifest.length().as_secs() + 2;
        let to = Timestamp::from_second(from_s.saturating_add_unsigned(length_s));
        Some((to.ok()?.to_string(), format!("{length_s}s")))
    }

    /// Opens what is recorded of that time; `open` opens a recording that is no store.
    pub fn open(&self, path: &Path, open: impl FnOnce() -> Result<Recording>) -> Result<Recording> {
        if is_store(path) {
            if !self.asks() {
                bail!(
                    "{}: a store of many recordings; name a time: --at 03:07, or --last 5m",
                    path.display()
                );
            }
            return self.of_store(path);
        }
        let recording = open()?;
        if !self.asks() {
            return Ok(recording);
        }
        let manifest = &recording.manifest;
        let offset = manifest.clock_offset_ns;
        let (from, to) = self.span(&Zoned::now())?;
        let own = |ns: i64| u64::try_from(ns.saturating_sub(offset)).unwrap_or(0);
        let (from, to) = (own(from), own(to));
        if from > manifest.end_ns || to < manifest.start_ns {
            let time = |ns: u64| {
                let unix = i128::from(ns) + i128::from(offset);
                let time = Timestamp::from_nanosecond(unix).unwrap_or_default();
                time.to_zoned(looks::zone()).strftime("%F %T").to_string()
            };
            bail!(
                "{}: nothing was recorded at that time; it holds {} to {}",
                path.display(),
                time(manifest.start_ns),
                time(manifest.end_ns)
            );
        }
        Ok(recording.within(from, to))
    }

    fn of_store(&self, path: &Path) -> Result<Recording> {
        let (from, to) = self.span(&Zoned::now())?;
        let window = Store::open(path)?.window(from, to)?;
        if window.is_part {
            cli::say(
                "tcpwhy: the host was started anew, or its clock was set, in this time: only what came after is read",
            );
        }
        for gap in window.gaps {
            cli::say(&format!("tcpwhy: {}", missing(&gap)));
        }
        Ok(window.recording)
    }

    /// From when to when, ns since 1970.
    fn span(&self, now: &Zoned) -> Result<(i64, i64)> {
        let now = now.with_time_zone(looks::zone());
        let to = match &self.at {
            Some(at) => moment("--at", at, &now)?,
            None => now.timestamp(),
        };
        let last = SignedDuration::try_from(self.last.unwrap_or(LAST)).context("--last")?;
        let from = to.checked_sub(last).context("--last")?;
        let ns = |t: Timestamp| i64::try_from(t.as_nanosecond()).context("--at");
        Ok((ns(from)?, ns(to)?))
    }
}

/// What was not recorded, in a sentence.
fn missing(gap: &Gap) -> String {
    let time = |ns: i64| {
        let time = Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
        time.to_zoned(looks::zone()).strftime("%T").to_string()
    };
    format!(
        "nothing was recorded from {} to {}: {}",
        time(gap.from_ns),
        time(gap.to_ns),
        gap.why
    )
}

/// The moment that is named. A time to the minute is its end: who asks for 03:07 wants what happened then.
pub fn moment(option: &str, text: &str, now: &Zoned) -> Result<Timestamp> {
    let wrong = || {
        anyhow!(
            "{option} {text}: not a time; examples: 03:07, \"yesterday 03:07\", \"10m ago\", \"2026-12-01 03:07\", \
             2026-12-01T03:07:00Z"
        )
    };
    let text = text.trim();
    if text == "now" {
        return Ok(now.timestamp());
    }
    if let Some(unix) = text.strip_prefix('@') {
        let unix = unix.parse().map_err(|_| wrong())?;
        return Timestamp::from_second(unix).map_err(|_| wrong());
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Ok(stamp);
    }
    let ago = text.strip_suffix("ago").map_or(text, str::trim_end);
    // 00:10:00 would be a span, too.
    if let Some(ago) = (!ago.contains(':'))
        .then(|| ago.parse::<Span>().ok())
        .flatten()
    {
        return Ok(now.checked_sub(ago.abs()).map_err(|_| wrong())?.timestamp());
    }
    let (day, time) = match text.split_once([' ', 'T']) {
        Some((day, time)) => (Some(day), time),
        None => (None, text),
    };
    let time = clock(time).ok_or_else(wrong)?;
    let today = now.date();
    let on = |date: Date| {
        let at = DateTime::from_parts(date, time.0);
        let at = at.to_zoned(now.time_zone().clone()).map_err(|_| wrong())?;
        at.timestamp().saturating_add(time.1).map_err(|_| wrong())
    };
    let yesterday = today.yesterday().map_err(|_| wrong())?;
    match day {
        Some("today") => on(today),
        Some("yesterday") => on(yesterday),
        Some(date) => on(date.parse().map_err(|_| wrong())?),
        // The last time that it was so late.
        None => match on(today)? {
            at if at.as_second() - time.1.as_secs() > now.timestamp().as_second() => on(yesterday),
            at => Ok(at),
        },
    }
}

/// A time of day, and how long what is named lasts: a minute or nothing.
fn clock(text: &str) -> Option<(Time, SignedDuration)> {
    let minute = SignedDuration::from_secs(60);
    if let Ok(time) = Time::strptime("%H:%M:%S%.f", text) {
        return Some((time, SignedDuration::ZERO));
    }
    let time = Time::strptime("%H:%M", text).ok()?;
    Some((time, minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<String> {
        let now: Zoned = "2026-12-01T10:20:30[Europe/Berlin]".parse().unwrap();
        Ok(moment("--at", text, &now)?.to_string())
    }

    #[test]
    fn what_users_write() {
        for (text, utc) in [
            ("03:07", "2026-12-01T02:08:00Z"),
            ("03:07:30", "2026-12-01T02:07:30Z"),
            // Not yet today.
            ("10:21", "2026-11-30T09:22:00Z"),
            ("10:20", "2026-12-01T09:21:00Z"),
            ("yesterday 03:07", "2026-11-30T02:08:00Z"),
            ("today 03:07", "2026-12-01T02:08:00Z"),
            ("2026-11-28 23:59", "2026-11-28T23:00:00Z"),
            ("2026-11-28T23:59:01", "2026-11-28T22:59:01Z"),
            ("2026-12-01T03:07:00Z", "2026-12-01T03:07:00Z"),
            ("2026-12-01T03:07:00+02:00", "2026-12-01T01:07:00Z"),
            ("10m ago", "2026-12-01T09:10:30Z"),
            ("10m", "2026-12-01T09:10:30Z"),
            ("3 days ago", "2026-11-28T09:20:30Z"),
            ("@1796000000", "2026-11-30T00:53:20Z"),
            ("now", "2026-12-01T09:20:30Z"),
        ] {
            assert_eq!(at(text).unwrap(), utc, "{text}");
        }
        for text in [
            "",
            "25:00",
            "tomorrow",
            "3 fortnights",
            "yesterday",
            "@x",
            "12",
        ] {
            let error = at(text).unwrap_err().to_string();
            assert!(error.contains("examples: 03:07"), "{text}: {error}");
        }
    }
}
