//! The chain of a walk that is too long: the CPU, the function, the table, what fills it.

use std::collections::BTreeMap;

use analysis::Listener;
use analysis::profile::{Group, PARTS, samples};
use analysis::stats::ratio;
use analysis::words::{count, duration, figure, percent};
use recording::sysctl::{TCP_CHILD_EHASH_ENTRIES, TCP_EHASH_ENTRIES};

use super::Walk;
use crate::limits;
use crate::vocabulary::*;

impl<'a> Walk<'a> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let steps = [
            Some(self.cpu_step()),
            Some(self.function_step()),
            Some(self.table_step()),
            self.never_forgets_step(),
            self.cost_step(),
            self.filler_step(),
            self.limit_step(),
        ];
        steps.into_iter().flatten().collect()
    }

    /// The CPU that the walk keeps busiest, and its samples.
    fn hot_cpu(&self) -> (u32, u64) {
        let mut of_cpu = BTreeMap::new();
        for group in &self.inside {
            *of_cpu.entry(group.cpu).or_insert(0) += group.count;
        }
        let hot = of_cpu.into_iter();
        let hot = hot.max_by_key(|(cpu, n)| (*n, u32::MAX - cpu));
        hot.unwrap_or_default()
    }

    fn rows(&self) -> impl Iterator<Item = RowRef> {
        let mut largest = self.inside.clone();
        largest.sort_by_key(|g| std::cmp::Reverse(g.count));
        largest.into_iter().map(|g| g.row).take(SHOWN_ROWS)
    }

    fn cpu_step(&self) -> Step {
        let (cpu, inside) = self.hot_cpu();
        let here = self.story.profile.groups.iter().filter(|g| g.cpu == cpu);
        let busy = samples(here.clone().filter(|g| !g.is_idle()));
        let within = samples(here.filter(|g| self.kind.walked.within(g)));
        let share = |n: u64, of: u64| percent(ratio(n as f64, of as f64).unwrap_or(0.0));
        Step::new(format!(
            "CPU {cpu} was in {} for {} of its busy time, and in {} for {} of that.",
            self.kind.walked.name(),
            share(within, busy),
            self.function,
            share(inside, within),
        ))
        .number("cpu", cpu)
        .number("busy_samples", busy)
        .number(self.kind.walked.number(), within)
        .number("function_samples", inside)
        .rows(self.rows())
    }

    /// Its share of the time in softirq, or the kernel, in each part of the recording that has such time.
    fn shares(&self) -> Vec<f64> {
        let of_part = |part: u64| {
            let here = |g: &&Group| u64::from(g.part) == part;
            let all = self.story.profile.groups.iter().filter(here);
            let all = samples(all.filter(|g| self.kind.walked.within(g)));
            let inside = samples(self.inside.iter().copied().filter(here));
            (all >= limits::ENOUGH.count()).then(|| inside as f64 / all as f64)
        };
        (0..PARTS).filter_map(of_part).collect()
    }

    fn function_step(&self) -> Step {
        let shares = self.shares();
        let within = self.kind.walked.name();
        let first = shares.first().copied().unwrap_or(self.share);
        let most = shares.iter().copied().fold(first, f64::max);
        let trend = if most > limits::TWICE.times() * first {
            format!(
                ", and grows: from {} to {} of the time in {within}",
                percent(first),
                percent(most)
            )
        } else {
            String::new()
        };
        let function = self.function;
        say!(
            "On all CPUs {function} takes {share} of the time in {within}{trend}.",
            share = Quantity::share(self.share).rows(self.rows())
        )
        .number("share_at_first", first)
        .number("share_at_most", most)
        .number("cpu_seconds", self.cpu_seconds())
    }

    /// Entries added per second, if it grows.
    fn growth(&self) -> Option<f64> {
        let (first, last) = (&self.size.first, &self.size.fullest);
        let ns = last.time_ns.saturating_sub(first.time_ns);
        let more = last.entries.saturating_sub(first.entries);
        ratio(more as f64, ns as f64 / 1e9)
            .filter(|_| limits::SMALL_PART.exceeded(more, last.entries))
    }

    fn table_step(&self) -> Step {
        let (full, first) = (&self.size.fullest, &self.size.first);
        let (name, held) = (self.kind.name, self.kind.entries);
        let (chain, growth) = (figure(self.longest), self.growth());
        let walk = match (full.buckets, full.longest_chain) {
            (Some(buckets), longest) => {
                let buckets = Quantity::of(buckets, "bucket");
                let longest = longest.map(|n| format!(", {} in the longest", count(n)));
                let longest = longest.unwrap_or_default();
                format!(" in {buckets}: {chain} in a chain{longest}")
            }
            (None, _) => ", compared one after the other".into(),
        };
        let grew = growth.map(|rate| {
            format!(
                "; it held {} at first and grew by {} per second",
                count(first.entries),
                figure(rate)
            )
        });
        let grew = grew.unwrap_or_default();
        say!(
            "It walks {name}: {entries} {held}{walk}{grew}.",
            entries = Quantity::count(full.entries).rows([first.row, full.row])
        )
        .number_if("buckets", full.buckets)
        .number("mean_chain", self.longest)
        .number_if("longest_chain", full.longest_chain)
        .number_if("growth_per_s", growth)
    }

    fn cost_step(&self) -> Option<Step> {
        let each = self.lookup_ns()?;
        let per_second = self.lookups as f64 / self.story.seconds();
        let per_entry = each / self.mean;
        let happened = self.kind.looked_up.name().1;
        // Twice the spread of a count of samples, which is its square root.
        let samples = self.samples();
        let error = limits::LOOKUP_ERROR.times() * each / (samples.max(1) as f64).sqrt();
        Some(say!(
            "{lookups_per_s} {happened} per second; each lookup took {lookup_us} ± {error_us} ({samples}): \
             {entry_ns} per entry passed.",
            samples = Quantity::of(samples, "sample"),
            error_us = Quantity::new(error / 1e3, duration(error as u64)),
            lookups_per_s = Quantity::new(per_second, figure(per_second))
                .rows(self.lookup_rows.iter().copied()),
            lookup_us = Quantity::new(each / 1e3, duration(each as u64)),
            entry_ns = Quantity::new(per_entry, format!("{} ns", figure(per_entry)))
        ))
    }

    /// The listener whose connections fill the table.
    pub(super) fn filler(&self) -> Option<&'a Listener> {
        let listeners = &self.story.listeners;
        let longest = |l: &&Listener| l.accepted.len();
        let most = match self.netns {
            0 => listeners.all.iter().max_by_key(longest),
            own => listeners.of_netns(own).map(|(_, l)| l).max_by_key(longest),
        }?;
        let share = most.accepted.len() as f64 / self.size.fullest.entries.max(1) as f64;
        (self.kind.structure == "ehash" && share >= limits::MOST.share()).then_some(most)
    }

    fn filler_step(&self) -> Option<Step> {
        let filler = self.filler()?;
        let who = filler.holders.first();
        let who = who.map(|h| format!(" ({}, pid {})", h.comm, h.pid));
        let (at, who) = (filler.local, who.unwrap_or_default());
        let all = || self.story.all(&filler.accepted).map(|(_, c)| c);
        let idle = all().filter(|c| c.bytes_received.max(c.bytes_acked) <= limits::NO_DATA.bytes());
        let idle = count(idle.count() as u64);
        Some(say!(
            "{at}{who} accepted {accepted} of them; {idle} carried no byte either way.",
            accepted = Quantity::count(filler.accepted.len() as u64)
                .rows(all().filter_map(|c| c.row()).take(SHOWN_ROWS))
        ))
    }

    /// What set the size.
    fn limit_step(&self) -> Option<Step> {
        let value = self.story.settings.get(self.netns, TCP_EHASH_ENTRIES)?;
        let made = if self.is_own() {
            format!(
                "the namespace has a table of its own, as large as {TCP_CHILD_EHASH_ENTRIES} was where it \
             was created"
            )
        } else {
            "the host's table, made at boot (thash_entries)".into()
        };
        (self.kind.structure == "ehash").then(|| {
            say!(
                "{TCP_EHASH_ENTRIES}={setting}: {made}.",
                setting = Quantity::new(&*value.text, &*value.text).rows([value.row])
            )
        })
    }

    /// The namespace has its own table of connections: the setting is negative for a shared one.
    pub(super) fn is_own(&self) -> bool {
        let value = self.story.settings.get(self.netns, TCP_EHASH_ENTRIES);
        self.netns != 0
            && value.is_some_and(|v| v.text.trim().parse::<i64>().is_ok_and(|n| n > 0))
            && self.story.netns(self.netns).name.as_deref() != Some("host")
    }
}
