//! The chain of a refused connect: who tried, what the kernel answered, what listens nearby.

use std::collections::BTreeMap;

use analysis::Listener;
use analysis::words::{count, duration, list, plural};
use recording::Addr;

use super::Case;

impl Case<'_> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend(self.clients_step());
        steps.extend(self.resets_step());
        steps.extend(self.counted_step());
        steps.extend(self.listener_step());
        steps
    }

    fn clients_step(&self) -> Option<Step> {
        let n = self.place.refused.len() as u64;
        if n == 0 {
            return None;
        }
        let callers = self.callers();
        let by = callers.iter().take(3).map(|((pid, comm), n)| {
            let comm = comm.as_deref().unwrap_or("unknown");
            format!("{comm} (pid {pid}) {}", count(*n))
        });
        let by = match callers.is_empty() {
            true => String::new(),
            false => format!(": {}", list(&by.collect::<Vec<_>>())),
        };
        let refused = self.story.all(&self.place.refused);
        let rows = refused.filter_map(|(_, c)| c.refused.map(RowRef::from));
        let took = self.took();
        let step = Step::new(format!(
            "{} in SYN_SENT got a reset{by}.",
            match n {
                1 => "1 socket".into(),
                n => format!("{} sockets", count(n)),
            }
        ))
        .number("refused", n)
        .number("tried", self.place.tried)
        .number_if("median_ms", took.map(|ns| ns as f64 / 1e6))
        .rows(rows.take(SHOWN_ROWS));
        Some(step)
    }

    fn resets_step(&self) -> Option<Step> {
        let first = self.place.groups.first()?;
        let n: u64 = self.place.groups.iter().map(|g| g.count).sum();
        let mut remotes: BTreeMap<Addr, u64> = BTreeMap::new();
        for (addr, n) in self.place.groups.iter().flat_map(|g| &g.remotes) {
            *remotes.entry(*addr).or_default() += n;
        }
        let most = remotes.iter().max_by_key(|(_, n)| **n);
        let most = most.map_or(String::new(), |(addr, n)| {
            format!(", {} to {addr}", count(*n))
        });
        let (began, ended) = self.span();
        let since = |ns: u64| duration(ns.saturating_sub(self.story.start_ns));
        let rows = self
            .place
            .groups
            .iter()
            .flat_map(|g| g.rows.iter().copied());
        let reason = first.reason.as_deref().unwrap_or("none given");
        let step = Step::new(format!(
            "The kernel answered {} with a reset, reason {reason}{most}; from {} to {} after the \
             start of the recording.",
            plural(n, "SYN"),
            since(began),
            since(ended)
        ))
        .number("resets", n)
        .number("addresses", remotes.len())
        .number("per_second", n as f64 / self.seconds())
        .rows(rows.take(SHOWN_ROWS));
        Some(step)
    }

    /// The namespace that counted as many resets sent, when nothing else tells who sent them.
    fn counted_step(&self) -> Option<Step> {
        if self.told() {
            return None;
        }
        let refused = self.place.refused.len() as u64;
        let rises = self.story.counters.rises(counter::OUT_RSTS).into_iter();
        let (netns, rise) = rises.min_by_key(|(_, rise)| rise.by.abs_diff(refused))?;
        (rise.by * 10 >= refused * 9).then(|| {
            Step::new(format!(
                "As many resets were sent by this host: {} in {} (OutRsts), for {} refused.",
                count(rise.by),
                namespace(&self.story.netns(netns)),
                plural(refused, "connect")
            ))
            .number("resets", rise.by)
            .rows(rise.rows())
        })
    }

    /// What listens nearby, or did at other times.
    fn listener_step(&self) -> Option<Step> {
        let group = self.place.groups.first()?;
        let since = |ns: u64| duration(ns.saturating_sub(self.story.start_ns));
        let row = |l: &Listener| {
            let call = l.call.as_ref().map(|c| RowRef::from(c.row));
            call.or(l.socks.first().map(|s| s.last_row))
        };
        let mut rows: Vec<RowRef> = group.rows.first().copied().into_iter().collect();
        let mut says = Vec::new();
        if let Some(listener) = self.at_other_times() {
            rows.extend(row(listener));
            if let Some(closed) = listener.closed_ns {
                says.push(format!(
                    "a socket stopped listening there at {}",
                    since(closed)
                ));
            }
            if let Some(call) = &listener.call {
                says.push(format!("one began to at {}", since(call.time_ns)));
            }
        }
        let others = self.other_addresses();
        if !others.is_empty() {
            let near = self.story.listeners.at_port(group.netns, self.at.port);
            rows.extend(near.filter_map(row).take(1));
            says.push(format!(
                "the port is listened on, but only at {}",
                list(&others)
            ));
        }
        if says.is_empty() {
            says.push("no socket listens on the port, at any address".into());
        }
        let says = format!("In that namespace {}.", list(&says));
        Some(
            Step::new(says)
                .number("port", u64::from(self.at.port))
                .rows(rows),
        )
    }

    /// The listener that takes such connects before or after the refusals.
    fn at_other_times(&self) -> Option<&Listener> {
        let group = self.place.groups.first()?;
        let index = self
            .story
            .listeners
            .taking(group.netns, self.at, group.family)?;
        self.story.listeners.all.get(index as usize)
    }
}
use crate::vocabulary::*;
