//! When all that explain can use is recorded for a while: where who explains says that it looks sick, and CPU is to spare.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use observe::{Options, Part};

/// Touched by who explains when a window looks sick.
pub const SICK: &str = "sick";
/// What was touched so long ago says nothing of now: a window takes up to fifteen seconds.
const NOW: Duration = Duration::from_secs(20);
/// It goes on for so long after it looked sick last: episodes come back.
const AFTER: Duration = Duration::from_secs(60);
/// What is sick for longer is known; then comes as long a rest.
const MOST: Duration = Duration::from_secs(300);
/// The share of the CPUs that must be idle: all parts take up to 11 % of what a saturated host does (bench/overhead).
const SPARE: f64 = 0.15;

/// Decides it.
pub struct Closer {
    /// `None` where nobody explains.
    sick: Option<PathBuf>,
    cpus: Cpus,
    /// When it was turned on or off last.
    turned: Option<Instant>,
    /// When it looked sick last.
    seen: Option<Instant>,
}

impl Closer {
    /// Where who explains writes, if somebody does.
    pub fn new(findings: &Path, explained: bool) -> Closer {
        Closer {
            sick: explained.then(|| findings.join(SICK)),
            cpus: Cpus::default(),
            turned: None,
            seen: None,
        }
    }

    /// What is recorded then: as before, and all that explain can use.
    pub fn options(light: &Options) -> Options {
        Options {
            parts: light
                .parts
                .iter()
                .copied()
                .chain(Part::to_explain())
                .collect(),
            ..light.clone()
        }
    }

    /// Whether it is to be so now.
    pub fn is_wanted(&mut self, is_close: bool) -> bool {
        let Some(sick) = &self.sick else {
            return is_close;
        };
        let spare = self.cpus.idle() >= SPARE;
        // Whoever may write there can at most have more recorded.
        let touched = fs::symlink_metadata(sick).and_then(|file| file.modified());
        if touched.is_ok_and(|at| at.elapsed().is_ok_and(|age| age <= NOW)) {
            self.seen = Some(Instant::now());
        }
        let since = |at: Option<Instant>| at.map_or(Duration::MAX, |at| at.elapsed());
        if is_close {
            spare && since(self.seen) < AFTER && since(self.turned) < MOST
        } else {
            spare && since(self.seen) < NOW && since(self.turned) >= MOST
        }
    }

    /// It was turned on or off now.
    pub fn turned(&mut self) {
        self.turned = Some(Instant::now());
    }
}

/// How idle the CPUs are.
#[derive(Default)]
struct Cpus {
    /// When it was looked last, and ticks since the start: idle ones, and all.
    before: Option<(Instant, u64, u64)>,
    idle: f64,
}

impl Cpus {
    /// A shorter time is told in too few ticks.
    const OVER: Duration = Duration::from_secs(2);

    /// The share of the last seconds in which CPUs were idle; none where that is not known.
    fn idle(&mut self) -> f64 {
        if self
            .before
            .is_some_and(|(at, ..)| at.elapsed() < Cpus::OVER)
        {
            return self.idle;
        }
        let Some((idle, all)) = fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|s| ticks(&s))
        else {
            return 0.0;
        };
        if let Some((_, idle_before, all_before)) = self.before {
            let all = all.saturating_sub(all_before).max(1);
            self.idle = idle.saturating_sub(idle_before) as f64 / all as f64;
        }
        self.before = Some((Instant::now(), idle, all));
        self.idle
    }
}

/// Idle ticks of all CPUs together, waiting for disks among them, and all ticks.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    // Time of guests is in that of users.
    let own = ticks.get(..8)?;
    Some((own[3] + own[4], own.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_all_cpus() {
        let stat = "cpu  10 1 5 70 4 0 2 8 3 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ticks(stat), Some((74, 100)));
        assert_eq!(ticks("cpu  10 1\n"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn it_is_turned_on_where_it_looks_sick_and_off_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let mut closer = Closer::new(dir.path(), true);
        let idle = |closer: &mut Closer, idle| {
            closer.cpus.before = Some((Instant::now(), 0, 0));
            closer.cpus.idle = idle;
        };
        idle(&mut closer, 0.9);
        assert!(!closer.is_wanted(false), "nobody said so");
        fs::write(dir.path().join(SICK), "").unwrap();
        idle(&mut closer, 0.1);
        assert!(!closer.is_wanted(false), "no CPU to spare");
        idle(&mut closer, 0.9);
        assert!(closer.is_wanted(false));
        assert!(closer.is_wanted(false), "where it could not begin, still");
        closer.turned();
        assert!(closer.is_wanted(true), "it goes on");
        fs::remove_file(dir.path().join(SICK)).unwrap();
        assert!(closer.is_wanted(true), "for a while after it");
        closer.seen = Instant::now().checked_sub(AFTER);
        assert!(!closer.is_wanted(true));
        closer.turned();
        fs::write(dir.path().join(SICK), "").unwrap();
        assert!(!closer.is_wanted(false), "a rest comes first");
        closer.turned = Instant::now().checked_sub(MOST);
        assert!(closer.is_wanted(false));
        assert!(!Closer::new(dir.path(), false).is_wanted(false));
    }
}
