//! How a view prints and what of: as text or JSON, in which time zone, which rows.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use recording::{Filter, Manifest};

/// How a view prints and what of.
#[derive(Clone, Debug)]
pub struct How {
    /// JSON lines instead of text.
    pub json: bool,
    /// Columns of the terminal; `None` in a pipe, where lines are as long as they are.
    pub width: Option<usize>,
    /// ASCII only in text, for terminals that have no other letters.
    pub ascii: bool,
    /// Which rows are shown.
    pub filter: Filter,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, ns.
    pub clock_offset_ns: i64,
    /// Time zone of the times in text.
    pub zone: TimeZone,
    /// Its short name at the start of the recording, which the header shows.
    pub zone_name: String,
    /// Names of network namespaces.
    pub names: BTreeMap<u32, String>,
}

impl How {
    /// Text in a pipe, times in UTC, everything shown, of the recording with this manifest.
    pub fn of(manifest: &Manifest) -> How {
        let names = manifest.namespaces.iter();
        How {
            json: false,
            width: None,
            ascii: false,
            filter: Filter::default(),
            clock_offset_ns: manifest.clock_offset_ns,
            zone: TimeZone::UTC,
            zone_name: "UTC".into(),
            names: names.map(|n| (n.inode, n.name.clone())).collect(),
        }
    }

    /// With times of this zone.
    pub fn zoned(self, zone: TimeZone, manifest: &Manifest) -> How {
        How {
            zone_name: zone_name(&zone, manifest.start_unix_ns()),
            zone,
            ..self
        }
    }

    /// Nanoseconds since 1970.
    pub(crate) fn unix_ns(&self, time_ns: u64) -> i64 {
        let time = i64::try_from(time_ns).unwrap_or(i64::MAX);
        time.saturating_add(self.clock_offset_ns)
    }

    /// The time of day with microseconds.
    pub(crate) fn time(&self, time_ns: u64) -> String {
        let unix = i128::from(self.unix_ns(time_ns));
        let Ok(stamp) = jiff::Timestamp::from_nanosecond(unix) else {
            return "-".into();
        };
        let at = self.zone.to_datetime(stamp);
        let us = at.subsec_nanosecond() / 1_000;
        let (h, m, s) = (at.hour(), at.minute(), at.second());
        format!("{h:02}:{m:02}:{s:02}.{us:06}")
    }

    /// The name of a network namespace, or its number; 0 is the whole host.
    pub(crate) fn netns(&self, inode: u32) -> String {
        if inode == 0 {
            return "(host)".into();
        }
        let name = self.names.get(&inode).filter(|n| !n.is_empty());
        name.cloned().unwrap_or_else(|| inode.to_string())
    }
}

/// What a zone is called at a moment, ns since 1970: `CET`, `+0530`.
pub(crate) fn zone_name(zone: &TimeZone, unix_ns: i64) -> String {
    let stamp = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    zone.to_offset_info(stamp).abbreviation().to_string()
}

/// The time zone of this machine; UTC where it has none.
pub fn local_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_recording_can_be_shown() {
        let mut how = How::of(&Manifest::default());
        assert_eq!(how.time(1_234_567_000), "00:00:01.234567");
        how.clock_offset_ns = i64::MAX;
        for extreme in [0, u64::MAX] {
            assert!(!how.time(extreme).is_empty());
        }
    }
}
