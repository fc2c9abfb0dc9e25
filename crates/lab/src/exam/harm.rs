//! What a fault cost its clients, by their own log: what they waited with it, beyond what they waited in the
//! same situation without it. And from when on a user notices. Pure.

use serde::{Deserialize, Serialize};

use crate::workload::{ClientReport, Waits};

/// A wait is slow when it takes so many times as long as is usual, …
const SLOW: f64 = 2.0;
/// … and so much longer, ms: on a host of two CPUs whoever runs beside it is felt by less. Of faults that cost
/// microseconds each time, this is not asked.
const FLOOR_MS: f64 = 5.0;
/// What slow waits without the fault took longer than is usual is taken off so often: a host of two CPUs has
/// bad moments.
const LUCK: f64 = 2.0;
/// Requests that move so much, bytes, are transfers: a user notices their rate.
const TRANSFER: u64 = 256 * 1024;

/// What one client lost to a fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Felt {
    /// The client.
    pub client: String,
    /// Connects and requests that took more than twice as long as is usual, and some milliseconds more; and
    /// all of them.
    pub slow: (u64, u64),
    /// What those took longer than is usual, and what all took, s.
    pub slow_s: (f64, f64),
    /// The longest of them beyond what is usual, s.
    pub longest_s: f64,
    /// Connects and requests that failed, and all of them.
    pub failed: (u64, u64),
    /// From the first failure to the last, s.
    pub failing_s: f64,
    /// How long it had no success after a failure, in all, s.
    pub outage_s: f64,
    /// What its transfers, endless or not, took longer than without the fault, and how long they ran, s.
    pub streaming_s: (f64, f64),
}

/// From when on a user notices: what one client loses, any of these. It is what the design of tcpwhy calls a
/// finding, measured at the clients.
pub mod noticed {
    /// So many waits are slow, …
    pub const SLOW: f64 = 5.0;
    /// … so large a share of them, …
    pub const SLOW_SHARE: f64 = 0.001;
    /// … and what they take beyond is this share of all that is waited.
    pub const SLOW_TIME: f64 = 0.01;
    /// Of a fault that costs microseconds each time, they come to so much of the time that the client ran.
    pub const SMALL_TIME: f64 = 0.01;
    /// One wait lasts so much longer than is usual, s.
    pub const STALL_S: f64 = 3.0;
    /// So many connects or requests fail, …
    pub const FAILED: f64 = 3.0;
    /// … so large a share of them, …
    pub const FAILED_SHARE: f64 = 0.05;
    /// … over so long, s.
    pub const FAILING_S: f64 = 2.0;
    /// Transfers lose this share of their time.
    pub const STREAM_SHARE: f64 = 0.1;
}

impl Felt {
    /// What a client lost, from its reports with the fault and without it; `by_factor`: to a fault that costs
    /// microseconds each time.
    pub(crate) fn of(with: &ClientReport, without: &ClientReport, by_factor: bool) -> Felt {
        let floor_ms = if by_factor { 0.0 } else { FLOOR_MS };
        let late = |with, without| Late::of(with, without, floor_ms);
        let mut connects = late(&with.waited.connects, &without.waited.connects);
        let mut requests = late(&with.waited.requests, &without.waited.requests);
        let small_s = (connects.lost_ms + requests.lost_ms) / 1e3;
        if by_factor && small_s < noticed::SMALL_TIME * with.seconds {
            (connects.slow, requests.slow) = (0, 0);
        }
        let transfers = moves_much(without);
        if transfers {
            // What they lost is in their rate.
            (requests.lost_ms, requests.slow) = (0.0, 0);
        }
        let (failed, attempts) = failures(with);
        let (failed_without, attempts_without) = failures(without);
        let as_many = attempts as f64 / attempts_without.max(1) as f64;
        let usual = (failed_without as f64 * as_many).round() as u64;
        let fewer = |with: f64, without: f64| (with - without).max(0.0);
        let new = failed > usual;
        Felt {
            client: with.name.clone(),
            slow: (connects.slow + requests.slow, connects.of + requests.of),
            slow_s: (
                rounded((connects.lost_ms + requests.lost_ms) / 1e3),
                rounded((connects.whole_ms + requests.whole_ms) / 1e3),
            ),
            longest_s: rounded(connects.longest_ms.max(requests.longest_ms) / 1e3),
            failed: (failed.saturating_sub(usual), attempts),
            failing_s: if new { with.waited.failing_s } else { 0.0 },
            outage_s: if new {
                rounded(fewer(with.waited.outage_s, without.waited.outage_s))
            } else {
                0.0
            },
            streaming_s: streaming(with, without, transfers),
        }
    }

    /// What it lost in all, s.
    pub fn lost_s(&self) -> f64 {
        self.slow_s.0 + self.outage_s + self.streaming_s.0
    }

    /// How severe that is: 1 is where a user begins to notice.
    pub fn significance(&self) -> f64 {
        use noticed::{
            FAILED, FAILED_SHARE, FAILING_S, SLOW, SLOW_SHARE, SLOW_TIME, STALL_S, STREAM_SHARE,
        };
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        let all = |bounds: &[f64]| bounds.iter().copied().fold(f64::INFINITY, f64::min);
        let (slow, waits) = (self.slow.0 as f64, self.slow.1 as f64);
        let (failed, attempts) = (self.failed.0 as f64, self.failed.1 as f64);
        let ways = [
            all(&[
                slow / SLOW,
                share(slow, waits) / SLOW_SHARE,
                share(self.slow_s.0, self.slow_s.1) / SLOW_TIME,
            ]),
            self.longest_s / STALL_S,
            // Without success after a failure, time and again, is waiting.
            all(&[
                failed / SLOW,
                share(failed, attempts) / SLOW_SHARE,
                share(self.outage_s, self.slow_s.1 + self.outage_s) / SLOW_TIME,
                self.failing_s / FAILING_S,
            ]),
            // Half as long is half as bad, and longer is no worse than many.
            all(&[failed / FAILED, share(failed, attempts) / FAILED_SHARE])
                * (self.failing_s / FAILING_S).min(1.0),
            share(self.streaming_s.0, self.streaming_s.1) / STREAM_SHARE,
        ];
        ways.into_iter().fold(0.0, f64::max)
    }
}

/// Waits that took longer than is usual.
#[derive(Default)]
struct Late {
    slow: u64,
    of: u64,
    lost_ms: f64,
    whole_ms: f64,
    longest_ms: f64,
}

impl Late {
    fn of(with: &Waits, without: &Waits, floor_ms: f64) -> Late {
        // Where nothing was waited for without the fault, what is usual is what most took with it.
        let Some(usual) = without.median_ms().or_else(|| with.median_ms()) else {
            return Late::default();
        };
        let limit = (SLOW * usual).max(usual + floor_ms);
        let late = |waits: &Waits| {
            let (slow, beyond_ms) = waits.beyond(limit);
            (slow, beyond_ms + slow as f64 * (limit - usual))
        };
        let ((slow, beyond), (slow_without, beyond_without)) = (late(with), late(without));
        let as_many = with.count() as f64 / without.count().max(1) as f64;
        let unlucky = (slow_without as f64 * as_many) as u64;
        let longest = with.longest_ms - without.longest_ms.max(usual);
        Late {
            slow: slow.saturating_sub(unlucky),
            of: with.count(),
            lost_ms: (beyond - LUCK * beyond_without * as_many).max(0.0),
            whole_ms: with.sum_ms(),
            longest_ms: longest.max(0.0),
        }
    }
}

/// Connects and requests that failed, and all.
fn failures(report: &ClientReport) -> (u64, u64) {
    let connects = report.connections.failed.values().sum::<u64>();
    let requests = report.requests.failed.values().sum::<u64>();
    let made = report.requests.answered + report.requests.unfinished;
    let failed = connects + requests;
    (failed, failed + made.max(report.connections.connected))
}

/// Its requests are transfers.
fn moves_much(report: &ClientReport) -> bool {
    let bytes = report.bytes_sent + report.bytes_received;
    report.requests.answered > 0 && bytes / report.requests.answered >= TRANSFER
}

/// What transfers took longer than without the fault, and how long they ran, s; `asked`: those that were asked for,
/// else those without an end.
fn streaming(with: &ClientReport, without: &ClientReport, asked: bool) -> (f64, f64) {
    let ran_s = |r: &ClientReport| {
        if asked {
            r.waited.requests.sum_ms() / 1e3
        } else {
            r.waited.streaming_s
        }
    };
    let rate = |r: &ClientReport| {
        let bytes = (r.bytes_sent + r.bytes_received) as f64;
        (ran_s(r) > 0.0).then(|| bytes / ran_s(r))
    };
    let Some((rate, usual)) = rate(with).zip(rate(without)) else {
        return (0.0, rounded(ran_s(with)));
    };
    let lost = ran_s(with) * (1.0 - rate / usual.max(1.0));
    (rounded(lost.max(0.0)), rounded(ran_s(with)))
}

fn rounded(v: f64) -> f64 {
    (v * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Waited;

    fn report(waits: &[f64]) -> ClientReport {
        let mut waited = Waited::default();
        waits.iter().for_each(|ms| waited.requests.add(*ms));
        let mut report = ClientReport {
            waited,
            ..ClientReport::default()
        };
        report.requests.answered = waits.len() as u64;
        report
    }

    #[test]
    fn a_client_that_waits_as_without_the_fault_lost_nothing() {
        let same = report(&[1.0, 1.0, 1.0, 50.0]);
        let felt = Felt::of(&same, &same, false);
        assert_eq!((felt.lost_s(), felt.significance()), (0.0, 0.0));
    }

    #[test]
    fn what_is_beyond_the_usual_is_lost() {
        let usual = report(&[10.0; 100]);
        let mut waits = vec![10.0; 90];
        waits.extend([1020.0; 10]);
        let felt = Felt::of(&report(&waits), &usual, false);
        assert_eq!(felt.slow, (10, 100));
        assert!((felt.lost_s() - 10.1).abs() < 1e-6, "{felt:?}");
        assert!((felt.longest_s - 1.01).abs() < 1e-3);
        // Ten are twice what is asked; the time and the share are more than that.
        assert_eq!(felt.significance(), 2.0);
    }

    #[test]
    fn microseconds_count_where_the_fault_is_of_them() {
        let (with, without) = (report(&[0.5; 100]), report(&[0.05; 100]));
        assert_eq!(Felt::of(&with, &without, false).lost_s(), 0.0);
        let felt = Felt::of(&with, &without, true);
        assert_eq!(felt.slow, (100, 100));
        assert!(felt.significance() > 10.0);
        // Together 45 ms: of ten seconds that is nothing.
        let long = ClientReport {
            seconds: 10.0,
            ..with
        };
        let felt = Felt::of(&long, &without, true);
        assert!(felt.slow.0 == 0 && felt.significance() < 0.01, "{felt:?}");
    }

    #[test]
    fn failures_and_what_was_refused_anyhow() {
        let mut with = report(&[1.0; 60]);
        with.connections.failed.insert("ECONNREFUSED".into(), 40);
        (with.waited.outage_s, with.waited.failing_s) = (5.0, 4.0);
        let felt = Felt::of(&with, &report(&[1.0; 60]), false);
        assert_eq!((felt.failed, felt.outage_s), ((40, 100), 5.0));
        assert_eq!(felt.significance(), 8.0);
        let brief = Felt {
            failing_s: 1.0,
            ..felt
        };
        assert_eq!(brief.significance(), 4.0);
        let felt = Felt::of(&with, &with, false);
        assert_eq!((felt.failed.0, felt.significance()), (0, 0.0));
    }

    #[test]
    fn few_failures_that_keep_it_from_succeeding_are_waits() {
        let felt = Felt {
            slow_s: (0.0, 19.9),
            failed: (20, 10_000),
            failing_s: 9.3,
            outage_s: 10.1,
            ..Felt::default()
        };
        assert_eq!(felt.significance(), 2.0, "0.2 % of all");
        let at_once = Felt {
            outage_s: 0.01,
            ..felt.clone()
        };
        assert!(at_once.significance() < 0.1, "the next attempt succeeds");
        let burst = Felt {
            failing_s: 0.2,
            ..felt
        };
        assert!(burst.significance() <= 0.1, "once is no habit");
    }

    #[test]
    fn a_transfer_loses_the_time_that_it_would_not_have_needed() {
        let stream = |bytes| ClientReport {
            bytes_sent: bytes,
            waited: Waited {
                streaming_s: 10.0,
                ..Waited::default()
            },
            ..ClientReport::default()
        };
        let felt = Felt::of(&stream(400), &stream(1000), false);
        assert_eq!(felt.streaming_s, (6.0, 10.0));
        assert!((felt.significance() - 6.0).abs() < 1e-9);
        assert_eq!(Felt::of(&stream(1100), &stream(1000), false).lost_s(), 0.0);
    }

    #[test]
    fn requests_that_move_much_lose_by_their_rate() {
        let asked = |took_ms| ClientReport {
            bytes_sent: 100_000_000,
            ..report(&[took_ms; 100])
        };
        let felt = Felt::of(&asked(160.0), &asked(100.0), false);
        assert_eq!((felt.slow.0, felt.slow_s.0), (0, 0.0));
        assert_eq!(felt.streaming_s, (6.0, 16.0));
        // The same of small ones is not twice as long.
        let felt = Felt::of(&report(&[160.0; 100]), &report(&[100.0; 100]), false);
        assert_eq!(felt.lost_s(), 0.0);
    }

    #[test]
    fn one_long_stall_is_noticed() {
        let felt = Felt::of(&report(&[6001.0]), &report(&[1.0]), false);
        assert_eq!((felt.significance() * 10.0).round(), 20.0);
    }
}
