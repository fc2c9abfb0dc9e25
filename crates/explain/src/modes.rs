//! The modes of a distribution of latencies, and the kernel's schedule that explains them.

use analysis::Story;
use recording::sysctl;

use crate::limits;

/// Values that lie close together, with a gap on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) count: u64,
    pub(crate) median_ns: u64,
}

/// The modes, the shortest first.
pub(crate) fn modes(values: &mut [u64]) -> Vec<Mode> {
    values.sort_unstable();
    let bin = |v: u64| (v.max(1) as f64).log2() * limits::MODE_BINS.number();
    let parted = |a: &u64, b: &u64| (bin(*b) - bin(*a)) < limits::A_FEW.number();
    let least = limits::A_FEW
        .as_usize()
        .max((values.len() as f64 * limits::ONE_IN_A_THOUSAND.share()) as usize);
    let groups = values.chunk_by(parted).filter(|g| g.len() >= least);
    let modes = groups.map(|g| Mode {
        count: g.len() as u64,
        median_ns: g[(g.len() - 1) / 2],
    });
    modes.collect()
}

/// The same as a namespace has it set.
pub(crate) fn syn_schedule_of(story: &Story, netns: u32, quick: Option<u64>) -> Vec<u64> {
    let number = |name| story.settings.number(netns, name);
    let linear = number(sysctl::TCP_SYN_LINEAR_TIMEOUTS).unwrap_or(0);
    let most = number(sysctl::TCP_RTO_MAX_MS).map(|ms| ms.saturating_mul(1_000_000));
    syn_schedule(linear, most.unwrap_or(limits::RTO_MAX.ns()), quick)
}

/// When a client that gets no answer retransmits its SYN, ns after the first: once a second for
/// `linear` + 1 times (net.ipv4.tcp_syn_linear_timeouts; 0 where the kernel has no such setting),
/// then at double the interval each time, of at most `most` ns (net.ipv4.tcp_rto_max_ms).
///
/// A client that is answered with a stray ACK since Linux 5.6 retransmits it `quick` ns after that
/// first, which counts as a timeout.
pub(crate) fn syn_schedule(linear: u64, most: u64, quick: Option<u64>) -> Vec<u64> {
    let mut times = Vec::new();
    let (mut at, mut interval) = (0, limits::SYN_TIMEOUT.ns());
    for timeouts in 1..=limits::SYN_RETRIES.count() {
        at += match (timeouts, quick) {
            (1, Some(quick)) => quick,
            _ => interval,
        };
        times.push(at);
        if timeouts > linear {
            interval = (interval * 2).min(most.max(limits::SYN_TIMEOUT.ns()));
        }
    }
    times
}

/// Which time of a schedule a latency is: it comes up to a tenth later, at least 100 and at most 300 ms.
pub(crate) fn step(schedule: &[u64], latency_ns: u64) -> Option<usize> {
    let fits = |at: u64| {
        (at..=at
            + ((at as f64 * limits::STEP_LATE.share()) as u64)
                .clamp(limits::STEP_SLACK.ns(), 3 * limits::STEP_SLACK.ns()))
            .contains(&latency_ns)
    };
    // The latest that fits: the quick retry is close to nothing.
    schedule.iter().rposition(|at| fits(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn clusters_are_told_apart() {
        let mut values: Vec<u64> = (0..900).map(|i| 40_000 + i * 30).collect();
        values.extend((0..90).map(|i| S + i * 100_000));
        values.extend((0..9).map(|i| 3 * S + i * 1_000_000));
        values.push(50 * S);
        let found = modes(&mut values);
        let counts: Vec<_> = found.iter().map(|m| m.count).collect();
        assert_eq!(counts, [900, 90, 9], "one value is no mode");
        assert!((found[2].median_ns as f64 / S as f64 - 3.0).abs() < 0.01);
        assert_eq!(modes(&mut []), []);
    }

    #[test]
    fn the_schedules_are_those_that_linux_keeps() {
        let seconds = |s: Vec<u64>| s.iter().take(6).map(|t| t / S).collect::<Vec<_>>();
        let of = |linear, quick| seconds(syn_schedule(linear, limits::RTO_MAX.ns(), quick));
        assert_eq!(of(4, None), [1, 2, 3, 4, 5, 7]);
        assert_eq!(of(0, None), [1, 3, 7, 15, 31, 63]);
        assert_eq!(of(4, Some(S / 100)), [0, 1, 2, 3, 4, 6]);
        assert_eq!(of(0, Some(S / 100)), [0, 2, 6, 14, 30, 62]);
        let capped = |most| seconds(syn_schedule(0, most, None));
        assert_eq!(capped(2 * S), [1, 3, 5, 7, 9, 11]);
        assert_eq!(capped(S), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn latencies_are_matched_to_the_schedule() {
        let schedule = syn_schedule(0, limits::RTO_MAX.ns(), None);
        assert_eq!(step(&schedule, S + 20_000_000), Some(0));
        assert_eq!(step(&schedule, 3 * S + 200_000_000), Some(1));
        assert_eq!(step(&schedule, 2 * S), None);
        assert_eq!(step(&schedule, 100), None);
        assert_eq!(step(&[], S), None);
    }
}
