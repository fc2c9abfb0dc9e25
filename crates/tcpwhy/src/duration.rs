//! Durations as users write them: `10s`, `1m 30s`, `250ms`, or a bare number of seconds.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// Reads a duration.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a valid duration; examples: 10s, 250ms, 1m30s");
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    let span: Span = text.parse().map_err(|_| wrong())?;
    let days = SpanRelativeTo::days_are_24_hours();
    let duration: SignedDuration = span.to_duration(days).map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write() {
        for (text, ms) in [
            ("10s", 10_000),
            ("3", 3_000),
            ("0.5", 500),
            ("250ms", 250),
            ("1m 30s", 90_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("3sec", 3_000),
            ("0s", 0),
            ("7d", 604_800_000),
            ("1d 2h", 93_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "x", "-1", "-5s", "3 fortnights", "nan", "inf"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
