//! The chain of a walk that is too long: the CPU, the function, the table, who fills it.

use analysis::Listener;
use analysis::profile::{Group, PARTS, samples};
use analysis::stats::ratio;
use analysis::words::{count, duration, figure, percent, plural};
use recording::sysctl::TCP_CHILD_EHASH_ENTRIES;
use recording::sysctl::TCP_EHASH_ENTRIES;

use super::{Case, LEAST_SAMPLES};

/// SYN and FIN are acknowledged as a byte each.
const NO_DATA: u64 = 2;

impl<'a> Case<'a> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let mut steps = vec![self.cpu_step(), self.function_step()];
        steps.push(self.table_step());
        steps.extend(self.never_forgets_step());
        steps.extend(self.cost_step());
        steps.extend(self.filler_step());
        steps.extend(self.limit_step());
        steps
    }

    /// The CPU that the walk keeps busiest, and its samples.
    fn hot_cpu(&self) -> (u32, u64) {
        let mut of_cpu = std::collections::BTreeMap::new();
        for group in &self.inside {
            *of_cpu.entry(group.cpu).or_insert(0) += group.count;
        }
        let hot = of_cpu
            .into_iter()
            .max_by_key(|(cpu, n)| (*n, u32::MAX - cpu));
        hot.unwrap_or_default()
    }

    fn rows(&self) -> impl Iterator<Item = RowRef> {
        let mut largest = self.inside.clone();
        largest.sort_by_key(|g| std::cmp::Reverse(g.count));
        largest.into_iter().map(|g| g.row).take(SHOWN_ROWS)
    }

    fn cpu_step(&self) -> Step {
        let (cpu, inside) = self.hot_cpu();
        let profile = &self.story.profile;
        let here = profile.groups.iter().filter(|g| g.cpu == cpu);
        let busy = samples(here.clone().filter(|g| !g.is_idle()));
        let within = samples(here.filter(|g| self.kind.walked.within(g)));
        Step::new(format!(
            "CPU {cpu} was in {} for {} of its busy time, and in {} for {} of that.",
            self.kind.walked.name(),
            percent(ratio(within as f64, busy as f64).unwrap_or(0.0)),
            self.function,
            percent(ratio(inside as f64, within as f64).unwrap_or(0.0)),
        ))
        .number("cpu", cpu)
        .number("busy_samples", busy)
        .number(self.kind.walked.number(), within)
        .number("function_samples", inside)
        .rows(self.rows())
    }

    /// Its share of the time in softirq, or the kernel, in each part of the recording that has some.
    fn shares(&self) -> Vec<f64> {
        let of_part = |part: u64| {
            let here = |g: &&&Group| u64::from(g.part) == part;
            let inside = samples(self.inside.iter().filter(here).copied());
            let all = self.story.profile.groups.iter();
            let all =
                samples(all.filter(|g| self.kind.walked.within(g) && u64::from(g.part) == part));
            (all >= LEAST_SAMPLES).then(|| inside as f64 / all as f64)
        };
        (0..PARTS).filter_map(of_part).collect()
    }

    fn function_step(&self) -> Step {
        let shares = self.shares();
        let within = self.kind.walked.name();
        let first = shares.first().copied().unwrap_or(self.share);
        let most = shares.iter().copied().fold(first, f64::max);
        let trend = match most > 1.5 * first {
            true => format!(
                ", and grows: from {} to {} of the time in {within}",
                percent(first),
                percent(most)
            ),
            false => String::new(),
        };
        Step::new(format!(
            "On all CPUs {} takes {} of the time in {within}{trend}.",
            self.function,
            percent(self.share)
        ))
        .number("share", self.share)
        .number("share_at_first", first)
        .number("share_at_most", most)
        .number("cpu_seconds", self.cpu_seconds())
        .rows(self.rows())
    }

    /// Entries added per second, if it grows.
    fn growth(&self) -> Option<f64> {
        let (first, last) = (&self.size.first, &self.size.fullest);
        let ns = last.time_ns.saturating_sub(first.time_ns);
        let more = last.entries.saturating_sub(first.entries);
        ratio(more as f64, ns as f64 / 1e9).filter(|_| more * 10 > last.entries)
    }

    fn table_step(&self) -> Step {
        let full = &self.size.fullest;
        let n = count(full.entries);
        let entries = self.kind.entries;
        let walk = match (full.buckets, full.longest_chain) {
            (Some(buckets), Some(longest)) => format!(
                "{n} {entries} in {}: {} in a chain, {} in the longest",
                plural(buckets, "bucket"),
                figure(self.walk),
                count(longest)
            ),
            (Some(buckets), None) => format!(
                "{n} {entries} in {}: {} in a chain",
                plural(buckets, "bucket"),
                figure(self.walk)
            ),
            (None, _) => format!("{n} {entries}, compared one after the other"),
        };
        let growth = match self.growth() {
            Some(rate) => format!(
                "; it held {} at first and grew by {} per second",
                count(self.size.first.entries),
                figure(rate)
            ),
            None => String::new(),
        };
        let name = self.kind.name;
        Step::new(format!("It walks {name}: {walk}{growth}."))
            .number("entries", full.entries)
            .number_if("buckets", full.buckets)
            .number("mean_chain", self.walk)
            .number_if("longest_chain", full.longest_chain)
            .number_if("growth_per_s", self.growth())
            .rows([self.size.first.row, full.row])
    }

    fn cost_step(&self) -> Option<Step> {
        let each = self.lookup_ns()?;
        let (lookups, rows) = self.lookups();
        let per_second = lookups as f64 / self.story.seconds();
        let step = Step::new(format!(
            "{} {} per second and looked up, {} each: {} per entry passed.",
            figure(per_second),
            self.kind.looked_up.name().1,
            duration(each as u64),
            duration_ns(each / self.mean_walk)
        ))
        .number("lookups_per_s", per_second)
        .number("lookup_us", each / 1e3)
        .number("entry_ns", each / self.mean_walk)
        .rows(rows);
        Some(step)
    }

    /// The listener whose connections fill the table.
    pub(super) fn filler(&self) -> Option<&'a Listener> {
        let here = self.story.listeners.all.iter();
        let here = here.filter(|l| self.netns == 0 || l.netns == self.netns);
        let most = here.max_by_key(|l| l.accepted.len())?;
        let share = most.accepted.len() as f64 / self.size.fullest.entries.max(1) as f64;
        (self.kind.structure == "ehash" && share >= 0.5).then_some(most)
    }

    fn filler_step(&self) -> Option<Step> {
        let filler = self.filler()?;
        let n = filler.accepted.len();
        let holder = filler.holders.first();
        let who = holder.map_or(String::new(), |h| format!(" ({}, pid {})", h.comm, h.pid));
        let idle = self.story.all(&filler.accepted);
        let idle = idle.filter(|(_, c)| c.bytes_received.max(c.bytes_acked) <= NO_DATA);
        let accepted = self.story.all(&filler.accepted);
        let step = Step::new(format!(
            "{}{who} accepted {} of them; on {} no byte went either way.",
            filler.local,
            count(n as u64),
            count(idle.count() as u64)
        ))
        .number("accepted", n)
        .rows(accepted.filter_map(|(_, c)| c.row()).take(SHOWN_ROWS));
        Some(step)
    }

    /// Who set the size.
    fn limit_step(&self) -> Option<Step> {
        if self.kind.structure != "ehash" {
            return None;
        }
        let value = self.story.settings.get(self.netns, TCP_EHASH_ENTRIES)?;
        let says = match self.is_own() {
            true => format!(
                "{TCP_EHASH_ENTRIES}={}: the namespace has a table of its own, as large as \
                 {TCP_CHILD_EHASH_ENTRIES} said where it was made.",
                value.text
            ),
            false => format!(
                "{TCP_EHASH_ENTRIES}={}: the host's table, made at boot (thash_entries).",
                value.text
            ),
        };
        Some(
            Step::new(says)
                .number("setting", &*value.text)
                .rows([value.row]),
        )
    }

    /// The namespace has its own table of connections: the setting is negative for a shared one.
    pub(super) fn is_own(&self) -> bool {
        let value = self.story.settings.get(self.netns, TCP_EHASH_ENTRIES);
        self.netns != 0
            && value.is_some_and(|v| v.text.trim().parse::<i64>().is_ok_and(|n| n > 0))
            && self.story.netns(self.netns).name.as_deref() != Some("host")
    }
}

/// A time below a microsecond.
fn duration_ns(ns: f64) -> String {
    format!("{} ns", figure(ns))
}
use crate::vocabulary::*;
