//! What recording costs, second by second, and whether that is more than it may (`--max-cpu`).

use std::fs;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use recording::{HealthKind, SourceName};
use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;
use crate::health::HealthLog;
use crate::kernel::Moment;
use crate::worker::{Control, Report};

/// What it costs is added up so often.
const EVERY: Duration = Duration::from_secs(1);
/// For so long of that the kernel takes the time of our programs. To begin and to end this takes half a
/// millisecond of CPU, and each run of a program meanwhile some 20 ns more.
const WATCHED: Duration = Duration::from_millis(50);
/// Seconds in a row that must be dear: reading the symbols of a program that has just appeared is over in one.
const IN_A_ROW: u32 = 2;
/// Names of the threads that record begin so; those that they start bear their names.
const OURS: &str = "tcpwhy:";

/// Adds up what recording costs until told to stop. Tells `over` the percent of one CPU that it took when that
/// was more than `most`, for seconds in a row, and begins anew.
pub fn keep(
    most: f64,
    over: &SyncSender<f64>,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    crate::rights::shed(false);
    let mut row = Row::default();
    let (mut began, mut before) = (Instant::now(), threads_cpu());
    let mut told = false;
    while !control.stopping(EVERY - WATCHED) {
        let programs = match Moment::begin() {
            Ok(moment) => {
                if control.stopping(WATCHED) {
                    break;
                }
                moment.end()
            }
            Err(why) => {
                if !std::mem::replace(&mut told, true) {
                    let detail = format!(
                        "how long the programs in the kernel run cannot be told ({why}): --max-cpu counts the \
                         recorder's threads only"
                    );
                    health.say(SourceName::Recorder, HealthKind::Partial, 1, detail)?;
                }
                0.0
            }
        };
        let now = threads_cpu();
        let threads = now.saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64();
        (began, before) = (Instant::now(), now);
        let dear = row.add((threads + programs) * 100.0, most);
        // One that was not yet heard says the same.
        if let Some(Err(TrySendError::Disconnected(_))) = dear.map(|percent| over.try_send(percent))
        {
            // Nothing is left to switch off.
            control.wait();
            break;
        }
    }
    Ok(Report::default())
}

/// Seconds in a row that were dearer than allowed.
#[derive(Default)]
struct Row {
    seconds: u32,
    sum: f64,
}

impl Row {
    /// One more second, percent of a CPU; the average of the row once it is long enough, which ends it.
    fn add(&mut self, percent: f64, most: f64) -> Option<f64> {
        if percent <= most {
            *self = Row::default();
            return None;
        }
        self.seconds += 1;
        self.sum += percent;
        let long = self.seconds >= IN_A_ROW;
        long.then(|| std::mem::take(self).sum / f64::from(IN_A_ROW))
    }
}

/// CPU time so far of the threads that record: of this process, without those that do something else.
fn threads_cpu() -> Duration {
    let all = clock_gettime(ClockId::ProcessCPUTime);
    let all = Duration::new(all.tv_sec.unsigned_abs(), all.tv_nsec.unsigned_abs() as u32);
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let tasks = tasks.flatten().filter_map(|task| {
        let read = |file| fs::read_to_string(task.path().join(file)).ok();
        Some((read("comm")?, read("schedstat")?))
    });
    all.saturating_sub(others(tasks))
}

/// How long those threads ran that do not record, of the names and `schedstat`s of all.
fn others(tasks: impl Iterator<Item = (String, String)>) -> Duration {
    let others = tasks.filter(|(name, _)| !name.starts_with(OURS));
    others.filter_map(|(_, schedstat)| ran(&schedstat)).sum()
}

/// How long a thread ran, from its `schedstat`.
fn ran(schedstat: &str) -> Option<Duration> {
    let ns = schedstat.split_ascii_whitespace().next()?;
    Some(Duration::from_nanos(ns.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_second_alone_is_forgiven() {
        let mut row = Row::default();
        let said = [9.0, 1.0, 8.0, 10.0, 7.0, 5.0, 6.0, 8.0].map(|percent| row.add(percent, 5.0));
        assert_eq!(
            said,
            [None, None, None, Some(9.0), None, None, None, Some(7.0)]
        );
    }

    #[test]
    fn threads_that_do_not_record_are_told_by_their_names() {
        let tasks = [
            ("tcpwhy\n", "700 20 3\n"),
            ("tcpwhy:sampler\n", "50 1 1\n"),
            ("explainer\n", "8 1 1\n"),
            ("odd\n", ""),
        ];
        let tasks = tasks.map(|(name, stat)| (name.to_string(), stat.to_string()));
        assert_eq!(others(tasks.into_iter()), Duration::from_nanos(708));
    }
}
