//! What shows that a connect() walked the lists of a server's port, step by step.

use analysis::searches::Connecting;
use analysis::stats::{median, ratio};
use analysis::words::{duration, figure};
use recording::TcpState;

use super::{EXPIRED, FUNCTION, ITERATIONS, Walker, entries};
use crate::limits;
use crate::vocabulary::*;

impl Walker<'_> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let steps = [
            Some(self.call_step()),
            self.wait_step(),
            Some(self.cpu_step()),
            self.count_step(),
            self.list_step(),
            self.pause_step(),
        ];
        steps.into_iter().flatten().collect()
    }

    fn call_step(&self) -> Step {
        let (comm, waited) = (self.comm, (self.calls.len() - self.searches.len()) as u64);
        let others = match waited {
            0 => String::new(),
            n => format!(" {} waited with it.", Quantity::of(n, "other call")),
        };
        let mut took: Vec<u64> = self.searches.iter().map(Connecting::took_ns).collect();
        let took = duration(median(&mut took).unwrap_or(0));
        say!(
            "connect() of {comm} took {took} (median, {searches}); the search for a local port took up to \
             {longest_search_ms} of it.{others}",
            searches = Quantity::of(self.searches.len() as u64, "call")
                .rows(self.searches.iter().map(|s| s.row).take(SHOWN_ROWS)),
            longest_search_ms = Quantity::ns(self.longest_ns())
        )
        .number("waited", waited)
    }

    /// Those that waited for the lock were woken by the one that searched.
    fn wait_step(&self) -> Option<Step> {
        let ended = |at: u64| {
            let mut searches = self.searches.iter();
            searches.any(|s| s.returned_ns.abs_diff(at) < limits::SCHEDULERS_TURN.ns())
        };
        let all = self.story.waits.all.iter().filter(|w| {
            let there = w.syscall.as_deref() == Some("connect") && &*w.comm == self.comm;
            there && &*w.state == "D" && ended(w.end_ns)
        });
        let all: Vec<_> = all.collect();
        let longest = all.iter().max_by_key(|w| w.waited_ns)?;
        let (comm, waker) = (self.comm, &longest.waker_comm);
        Some(say!(
            "{waits} of {comm} ended when that search was over, the longest after {longest_wait_ms}: for a kernel \
             lock, in connect(), until {waker} released it.",
            waits = Quantity::of(all.len() as u64, "wait")
                .rows(all.iter().map(|w| w.row).take(SHOWN_ROWS)),
            longest_wait_ms = Quantity::ns(longest.waited_ns)
        ))
    }

    fn cpu_step(&self) -> Step {
        let (comm, seconds) = (self.comm, self.cpu_seconds());
        say!(
            "{comm} spent {cpu_seconds} of CPU time ({samples}) in {FUNCTION}, the look-up of one port.",
            cpu_seconds = Quantity::new(seconds, duration((seconds * 1e9) as u64)),
            samples = Quantity::of(self.inside, "sample").rows(self.rows.iter().copied())
        )
    }

    fn count_step(&self) -> Option<Step> {
        let (passed, ended) = (self.rise(ITERATIONS), self.rise(EXPIRED));
        let each = ratio(passed.by as f64, ended.by as f64)?;
        let rows = passed.rows().chain(ended.rows()).take(2 * SHOWN_ROWS);
        (ended.by > 0).then(|| {
            say!(
                "It passed {iterations} of lists and ended {expired}: {iterations_per_expired} for each, as it \
                 restarts at the head after each.",
                iterations = Quantity::new(passed.by, entries(passed.by)).rows(rows),
                expired = Quantity::of(ended.by, TcpState::TimeWait.as_str()),
                iterations_per_expired = Quantity::new(each, entries(each as u64))
            )
        })
    }

    fn list_step(&self) -> Option<Step> {
        let range = self.range.as_ref()?;
        let longest = self.searches.iter().zip(&self.met);
        let (search, met) = longest.max_by_key(|(s, _)| s.search_ns)?;
        let passed = range.before(search.port);
        let (low, high) = (*passed.first()?, *passed.last()?);
        let (first, last, found) = (range.first, range.last, search.port);
        Some(
            say!(
                "Servers listen on {low} to {high}, within the range from which connect() chooses ({first}-{last}), \
                 and it found {found}, the next one. The lists of these ports held {open} and {time_wait}, the \
                 youngest in front.",
                open = Quantity::of(met.open, "open connection").rows(range.rows.iter().copied()),
                time_wait = Quantity::of(met.time_wait, TcpState::TimeWait.as_str())
                    .rows(met.rows.iter().copied())
            )
            .number("ports", passed.len()),
        )
    }

    /// The lock is the one that TCP's input takes.
    fn pause_step(&self) -> Option<Step> {
        let longest = self.longest()?;
        let within = longest.search_began_ns() + 1..longest.returned_ns;
        let accepted = self.story.conns.iter();
        let accepted = accepted.filter(|c| c.netns == self.netns && c.side == Side::Accepted);
        let meanwhile = accepted.clone().filter(|c| within.contains(&c.start_ns));
        let meanwhile = meanwhile.count() as u64;
        let rate = accepted.count() as f64 / self.story.seconds();
        let expected = rate * longest.search_ns as f64 / 1e9;
        let searched = duration(longest.search_ns);
        (expected >= limits::ACCEPTS_EXPECTED.number()
            && meanwhile as f64 <= expected / limits::BY_FAR.times())
        .then(|| {
            say!(
                "While it searched for {searched}, {accepted_within} accepted; at other times \
                 {accepted_per_s} per second: TCP's input needs the lock.",
                accepted_within = Quantity::new(
                    meanwhile,
                    match meanwhile {
                        0 => "no connection was".into(),
                        1 => "1 connection was".into(),
                        n => format!("{} were", Quantity::of(n, "connection")),
                    }
                )
                .rows([longest.row]),
                accepted_per_s = Quantity::new(rate, figure(rate))
            )
        })
    }
}
