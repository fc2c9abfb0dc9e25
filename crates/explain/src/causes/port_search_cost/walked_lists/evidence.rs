//! What shows that a connect() walked the lists of a server's port, step by step.

use analysis::Side;
use analysis::searches::Connecting;
use analysis::stats::{median, ratio};
use analysis::words::{duration, figure, plural};
use recording::TcpState;

use super::{Case, EXPIRED, FUNCTION, ITERATIONS, plural_entries};
use crate::finding::Step;
use crate::places::listener::SHOWN_ROWS;

impl Case<'_> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let mut steps = vec![self.call_step()];
        steps.extend(self.wait_step());
        steps.push(self.cpu_step());
        steps.extend(self.count_step());
        steps.extend(self.list_step());
        steps.extend(self.pause_step());
        steps
    }

    fn call_step(&self) -> Step {
        let waited = (self.calls.len() - self.searches.len()) as u64;
        let longest = self.longest_ns();
        let others = match waited {
            0 => String::new(),
            n => format!(" {} waited with it.", plural(n, "other call")),
        };
        let mut took: Vec<u64> = self.searches.iter().map(Connecting::took_ns).collect();
        Step::new(format!(
            "connect() of {} took {} in the median ({}), of which the search for a local port took up \
             to {}.{others}",
            self.comm,
            duration(median(&mut took).unwrap_or(0)),
            plural(self.searches.len() as u64, "call"),
            duration(longest)
        ))
        .number("searches", self.searches.len())
        .number("waited", waited)
        .number("longest_search_ms", longest as f64 / 1e6)
        .rows(self.searches.iter().map(|s| s.row).take(SHOWN_ROWS))
    }

    /// Those that waited for the lock were woken by the one that searched.
    fn wait_step(&self) -> Option<Step> {
        let ended = |at: u64| {
            self.searches
                .iter()
                .any(|s| s.returned_ns.abs_diff(at) < 1_000_000)
        };
        let all = self.story.waits.all.iter().filter(|w| {
            let there = w.syscall.as_deref() == Some("connect") && &*w.comm == self.comm;
            there && &*w.state == "D" && ended(w.end_ns)
        });
        let all: Vec<_> = all.collect();
        let longest = all.iter().max_by_key(|w| w.waited_ns)?;
        let step = Step::new(format!(
            "{} of {} ended when that search was over, the longest after {}: for a lock of the kernel, \
             in connect(), until {} let go of it.",
            plural(all.len() as u64, "wait"),
            self.comm,
            duration(longest.waited_ns),
            longest.waker_comm
        ))
        .number("waits", all.len())
        .number("longest_wait_ms", longest.waited_ns as f64 / 1e6)
        .rows(all.iter().map(|w| w.row).take(SHOWN_ROWS));
        Some(step)
    }

    fn cpu_step(&self) -> Step {
        let seconds = self.story.profile.cpu_seconds(self.inside);
        Step::new(format!(
            "{} spent {} of CPU time in {FUNCTION}, the look-up of one port.",
            self.comm,
            duration((seconds * 1e9) as u64)
        ))
        .number("samples", self.inside)
        .number("cpu_seconds", seconds)
        .rows(self.rows.iter().copied())
    }

    fn count_step(&self) -> Option<Step> {
        let (passed, expired) = (self.rise(ITERATIONS), self.rise(EXPIRED));
        let each = ratio(passed.by as f64, expired.by as f64)?;
        let step = Step::new(format!(
            "It passed {} of lists and ended {}: {} for each, as it begins again at the head after \
             each.",
            plural_entries(passed.by),
            plural(expired.by, TcpState::TimeWait.as_str()),
            plural_entries(each as u64)
        ))
        .number("iterations", passed.by)
        .number("expired", expired.by)
        .number("iterations_per_expired", each)
        .rows(passed.rows().chain(expired.rows()).take(2 * SHOWN_ROWS));
        (expired.by > 0).then_some(step)
    }

    fn list_step(&self) -> Option<Step> {
        let range = self.range.as_ref()?;
        let longest = self.searches.iter().zip(&self.met);
        let (search, met) = longest.max_by_key(|(s, _)| s.search_ns)?;
        let passed = range.before(search.port);
        let (low, high) = (*passed.first()?, *passed.last()?);
        let step = Step::new(format!(
            "Servers listen on {low} to {high}, within the range from which connect() chooses \
             ({}-{}), and it found {}, the next one. In the lists of these ports hung {} and {}, the \
             youngest in front.",
            range.first,
            range.last,
            search.port,
            plural(met.open, "open connection"),
            plural(met.time_wait, TcpState::TimeWait.as_str())
        ))
        .number("ports", passed.len())
        .number("open", met.open)
        .number("time_wait", met.time_wait)
        .rows(range.rows.iter().copied())
        .rows(met.rows.iter().copied());
        Some(step)
    }

    /// The lock is the one that TCP's input takes.
    fn pause_step(&self) -> Option<Step> {
        let longest = self.longest()?;
        let (from, to) = (longest.search_began_ns(), longest.returned_ns);
        let accepted = self.story.conns.iter();
        let accepted = accepted.filter(|c| c.netns == self.netns && c.side == Side::Accepted);
        let (mut all, mut within) = (0_u64, 0_u64);
        for conn in accepted {
            all += 1;
            within += u64::from((from + 1..to).contains(&conn.start_ns));
        }
        let rate = all as f64 / self.story.seconds();
        let expected = rate * longest.search_ns as f64 / 1e9;
        let step = Step::new(format!(
            "While it searched for {}, {} accepted; at other times {} per second: TCP's input needs \
             the lock.",
            duration(longest.search_ns),
            match within {
                0 => "no connection was".into(),
                n => format!("{} were", plural(n, "connection")),
            },
            figure(rate)
        ))
        .number("accepted_within", within)
        .number("accepted_per_s", rate)
        .rows([longest.row]);
        (expected >= 20.0 && within as f64 <= expected / 10.0).then_some(step)
    }
}
