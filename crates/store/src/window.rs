//! What a store holds of a time, as one recording.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use recording::Recording;

use crate::error::Error;
use crate::layout::{Stretch, is_store, pins, stretches};
use crate::notes::{Gap, Notes};

/// A recording that began so long before a time does not reach it, s: twice as long as one lasts.
const REACHES_S: i64 = 3600;
/// What one recording does not have and the next does not either is missing from here on, ns: segments are a second long.
const GAP_NS: i64 = 2_000_000_000;

/// A store that is read.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// What a store holds of a time.
#[derive(Debug)]
pub struct Window {
    /// All of it.
    pub recording: Recording,
    /// When nothing was recorded of it, and why, as far as is known.
    pub gaps: Vec<Gap>,
    /// It was recorded before and after the host was started anew, or its clock was set: only the last part is here.
    pub is_part: bool,
}

/// A recording of it, and when it begins and ends by the clock that it had, ns since 1970.
struct Part {
    recording: Recording,
    from_ns: i64,
    to_ns: i64,
}

impl Part {
    /// Of a recording of the store, what is between two moments, ns since 1970; `None` where it has nothing of it.
    fn of(stretch: &Stretch, from_ns: i64, to_ns: i64) -> Result<Option<Part>, Error> {
        let recording = Recording::hold(&stretch.path)?;
        let manifest = &recording.manifest;
        let offset = manifest.clock_offset_ns;
        let unix = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX).saturating_add(offset);
        let own = |ns: i64| u64::try_from(ns.saturating_sub(offset)).unwrap_or(0);
        let (start, end) = (unix(manifest.start_ns), unix(manifest.end_ns));
        if start > to_ns || end < from_ns {
            return Ok(None);
        }
        Ok(Some(Part {
            recording: recording.within(own(from_ns), own(to_ns)),
            from_ns: from_ns.max(start),
            to_ns: to_ns.min(end),
        }))
    }

    /// Whether the next one goes on where this one ends: the same start of the host, and a clock that was not set.
    fn goes_on_in(&self, next: &Part) -> bool {
        let (a, b) = (&self.recording.manifest, &next.recording.manifest);
        let set = a.clock_offset_ns.saturating_sub(b.clock_offset_ns);
        a.host.boot_id == b.host.boot_id && set.abs() < GAP_NS
    }
}

impl Store {
    /// Opens a store for reading.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn open(dir: &Path) -> Result<Store, Error> {
        if !is_store(dir) {
            let why = if dir.is_dir() {
                Error::Foreign
            } else {
                Error::Missing
            };
            return Err(why(dir.to_path_buf()));
        }
        Ok(Store {
            dir: dir.to_path_buf(),
        })
    }

    /// What the store remembers of itself.
    pub fn notes(&self) -> Notes {
        Notes::read(&self.dir)
    }

    /// What was recorded between two moments, ns since 1970. Only recordings of that time are opened.
    ///
    /// # Errors
    ///
    /// Nothing was recorded then, or what was is damaged.
    pub fn window(&self, from_ns: i64, to_ns: i64) -> Result<Window, Error> {
        const S: i64 = 1_000_000_000;
        let mut parts: Vec<Part> = Vec::new();
        let reached = |s: &Stretch| (from_ns / S - REACHES_S..=to_ns / S).contains(&s.start_s);
        for stretch in self.stretches()?.iter().filter(|s| reached(s)) {
            match Part::of(stretch, from_ns, to_ns) {
                Ok(part) => parts.extend(part),
                // It went while we looked: the oldest ones do.
                Err(_) if !stretch.path.exists() => {}
                Err(why) => return Err(why),
            }
        }
        let breaks = parts
            .windows(2)
            .rposition(|two| !two[0].goes_on_in(&two[1]));
        let last = parts.split_off(breaks.map_or(0, |at| at + 1));
        if last.is_empty() {
            return Err(self.nothing());
        }
        let gaps = self.gaps(&last, from_ns, to_ns);
        let mut recording = Recording::joined(last.into_iter().map(|p| p.recording).collect())?;
        // What is being recorded is whole so far, and what a killed recorder did not record is a gap.
        recording.manifest.complete = true;
        Ok(Window {
            recording,
            gaps,
            is_part: breaks.is_some(),
        })
    }

    /// All recordings; before the first one, what is left of those that have gone: what was kept around findings.
    fn stretches(&self) -> Result<Vec<Stretch>, Error> {
        let mut all = stretches(&self.dir)?;
        let first_s = all.first().map_or(i64::MAX, |s| s.start_s);
        // Nobody need explain a store.
        let mut pinned = stretches(&pins(&self.dir)).unwrap_or_default();
        pinned.retain(|pin| pin.start_s < first_s);
        // One that was taken when the first recording had begun holds some of it, too.
        let parts = pinned.into_iter().chain(all.drain(..));
        Ok(parts.collect())
    }

    /// When nothing was recorded between two moments.
    fn gaps(&self, parts: &[Part], from_ns: i64, to_ns: i64) -> Vec<Gap> {
        let starts = parts.iter().map(|p| p.from_ns).chain([to_ns]);
        let ends = [from_ns].into_iter().chain(parts.iter().map(|p| p.to_ns));
        let known = self.notes().gaps;
        let why = |from: i64, to: i64| {
            let meets = |g: &&Gap| g.from_ns <= to && g.to_ns >= from;
            known.iter().find(meets).map(|g| g.why.clone())
        };
        let gaps = ends.zip(starts).filter(|(end, start)| start - end > GAP_NS);
        let gaps = gaps.map(|(from_ns, to_ns)| Gap {
            from_ns,
            to_ns,
            why: why(from_ns, to_ns).unwrap_or_else(|| "no recorder ran".into()),
        });
        gaps.collect()
    }

    fn nothing(&self) -> Error {
        let all = self.stretches().unwrap_or_default();
        let time = |s: &Stretch| Timestamp::from_second(s.start_s).unwrap_or_default();
        let holds = match (all.first(), all.last()) {
            (Some(first), Some(last)) => format!(
                "it holds recordings that began from {} to {}",
                time(first),
                time(last)
            ),
            _ => "it holds none".into(),
        };
        Error::Nothing {
            path: self.dir.clone(),
            holds,
        }
    }
}
