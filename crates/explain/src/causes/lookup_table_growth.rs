//! C34: a lookup structure has grown until packets spend the CPU walking it.

mod advice;
mod kinds;

use recording::RowRef;

use super::Cause;
use super::runqueue::softirq_waited;
use super::scene::{SHOWN_ROWS, doubts, weigh_checks};
use crate::finding::{Check, Confidence, Finding, Impact, Level, Netns, RuledOut, Scope, Step};
use crate::story::profile::{Group, PARTS, samples};
use crate::story::stats::ratio;
use crate::story::structures::Structure;
use crate::story::{Listener, Side, Story, source};
use crate::words::{count, duration, figure, fitting, percent, plural, rounded};
use kinds::{KINDS, Kind};

pub(crate) const CAUSE: Cause = Cause {
    id: "lookup-table-growth",
    number: "C34",
    title: "packets walk a lookup structure that has outgrown its size",
    page: PAGE,
    find,
};

const PAGE: &str = "
**Symptom.** The CPU that receives packets is busy in softirq although traffic has not grown, and
everything that it carries is a little later every week. No packet is lost, no queue is full. A
restart helps for a while.

**Mechanism.** Every packet is looked up: its connection in a hash table of established ones
(`__inet_lookup_established`), its flow in that of connection tracking, its fate among the rules of
a firewall (`nft_do_chain`) or of routing (`fib_rules_lookup`). A hash table does not grow with its
entries: entries ÷ buckets is the length of the chain that a lookup walks. Rules are compared one
after the other. New connections go to the head of a chain: it is the old ones that get slow, and
SYNs, which match nobody and walk to the end.

**Distinguish.** In `port-search-cost` the time goes into connect() or bind(), in the process that
connects (`__inet_hash_connect`), not into softirq. In `softirq-starvation` the softirq waits for a
CPU that somebody else has; here it has the CPU and uses it up. In `cpu-contention` threads wait
behind others' work. The profile names the function, the table says how long the walk is.
";

/// Below this share of one CPU nobody notices.
const LEAST_CPU: f64 = 0.02;
/// Fewer samples than this say little about a share.
const LEAST_SAMPLES: u64 = 50;
/// How far the cost of an entry may be from the usual one: it depends on the caches.
const COST_FACTOR: f64 = 8.0;
/// SYN and FIN are acknowledged as a byte each.
const NO_DATA: u64 = 2;

/// A structure that is walked too long.
struct Case<'a> {
    story: &'a Story,
    kind: &'static Kind,
    /// 0: the whole host.
    netns: u32,
    size: &'a Structure,
    /// Entries passed by a lookup at its fullest, and on average.
    walk: f64,
    mean_walk: f64,
    /// Samples in its functions, in softirq.
    inside: Vec<&'a Group>,
    /// The function that most of them pass through.
    function: &'static str,
    /// Share of the time in softirq.
    share: f64,
}

/// How much of its growth, 0..1, a structure had behind it on average over the recording: told by
/// the connections that came, else taken as even.
fn grown(story: &Story, kind: &Kind, netns: u32, size: &Structure) -> f64 {
    let added = size.fullest.entries.saturating_sub(size.first.entries);
    let came = story
        .conns
        .iter()
        .filter(|c| netns == 0 || c.netns == netns);
    let open_ns = came.filter(|c| c.side != Side::Older).map(|c| {
        let until = c.ended_ns.unwrap_or(story.end_ns);
        until.saturating_sub(c.start_ns) as f64
    });
    let mean_open = open_ns.sum::<f64>() / (story.seconds() * 1e9);
    match kind.structure {
        "ehash" => ratio(mean_open, added as f64)
            .unwrap_or(0.5)
            .clamp(0.0, 1.0),
        _ => 0.5,
    }
}

/// TCP segments that came to a namespace, 0 for all, and the rows that say so.
fn segments(story: &Story, netns: u32) -> (u64, Vec<RowRef>) {
    let rises = story.counters.rises("Tcp.InSegs").into_iter();
    let rises: Vec<_> = rises.filter(|(n, _)| netns == 0 || *n == netns).collect();
    let sum = rises.iter().fold(0u64, |n, (_, r)| n.saturating_add(r.by));
    let rows = rises.iter().flat_map(|(_, r)| r.rows()).take(SHOWN_ROWS);
    (sum, rows.collect())
}

fn find(story: &Story) -> Vec<Finding> {
    let cases = KINDS.iter().filter_map(|kind| Case::of(story, kind));
    cases.map(|case| case.finding()).collect()
}

impl<'a> Case<'a> {
    /// The profile does not tell namespaces apart: of several structures the one that most entries
    /// were passed in is the one.
    fn of(story: &'a Story, kind: &'static Kind) -> Option<Case<'a>> {
        let walks = story.structures.named(kind.structure).map(|(netns, size)| {
            let walk = size.fullest.chain().unwrap_or(size.fullest.entries as f64);
            (walk, netns, size)
        });
        let walks = walks.filter(|(walk, ..)| *walk >= kind.least_walk);
        let passed = |walk: f64, netns| walk * segments(story, netns).0.max(1) as f64;
        let longest = walks.max_by(|a, b| {
            let by_passed = passed(a.0, a.1).total_cmp(&passed(b.0, b.1));
            // Of equals the whole host: its namespaces share the table.
            by_passed.then(b.1.cmp(&a.1))
        });
        let (walk, netns, size) = longest?;
        let profile = &story.profile;
        let inside: Vec<&Group> = profile
            .passing(kind.functions)
            .filter(|g| g.softirq)
            .collect();
        let n = samples(inside.iter().copied());
        let softirq = samples(profile.groups.iter().filter(|g| g.softirq));
        let share = ratio(n as f64, softirq as f64)?;
        let matters =
            n >= LEAST_SAMPLES && share >= kind.least_share && profile.of_one_cpu(n) >= LEAST_CPU;
        let through = |f: &&&'static str| samples(profile.passing(&[f]));
        let function = kind.functions.iter().max_by_key(through)?;
        let first = size.first.chain().unwrap_or(size.first.entries as f64);
        matters.then_some(Case {
            story,
            kind,
            netns,
            size,
            walk,
            mean_walk: first + (walk - first) * grown(story, kind, netns, size),
            inside,
            function,
            share,
        })
    }

    fn finding(&self) -> Finding {
        let scope = Scope {
            netns: match self.netns {
                0 => Netns::default(),
                netns => self.story.netns(netns),
            },
            resource: Some(self.kind.structure.into()),
            function: Some(self.function.into()),
            ..Scope::default()
        };
        let checks = self.arithmetic();
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number,
            title: self.title(),
            fix: self.fix(),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope.netns),
            verify: format!(
                "Under the same load `tcpwhy stat tables` shows shorter chains or fewer rules, and \
                 `{}` is no longer near the top of `perf top`.",
                self.function
            ),
            scope,
        }
    }

    fn title(&self) -> String {
        let Kind { name, entries, .. } = self.kind;
        let n = count(self.size.fullest.entries);
        let share = percent(self.share);
        let walk = match self.size.fullest.buckets {
            Some(buckets) => format!("{n} {entries} in {} buckets", count(buckets)),
            None => format!("{n} {entries}, one after the other"),
        };
        fitting([
            format!("Packets walk {name} ({walk}): {share} of softirq time."),
            format!("Packets walk {name} ({walk})."),
            format!("Packets walk {name}: {n} {entries}."),
        ])
    }

    fn fix(&self) -> String {
        match self.size.fullest.buckets {
            Some(_) => fitting([
                format!(
                    "Give {} {} buckets, so that a chain holds one entry.",
                    self.kind.name,
                    count(self.new_buckets())
                ),
                format!("Give it {} buckets.", count(self.new_buckets())),
            ]),
            None => format!(
                "Put what the {} {} compare into a set: one look-up for all.",
                count(self.size.fullest.entries),
                self.kind.entries
            ),
        }
    }

    fn samples(&self) -> u64 {
        samples(self.inside.iter().copied())
    }

    /// CPU time in the walk, s.
    fn cpu_seconds(&self) -> f64 {
        self.story.profile.cpu_seconds(self.samples())
    }

    /// Look-ups during the recording, and the rows that say so.
    fn lookups(&self) -> (u64, Vec<RowRef>) {
        if !self.kind.per_segment {
            return (0, Vec::new());
        }
        segments(self.story, self.netns)
    }

    /// What one look-up costs, ns.
    fn lookup_ns(&self) -> Option<f64> {
        ratio(self.cpu_seconds() * 1e9, self.lookups().0 as f64)
    }

    /// Connections of the namespace: the packets of each are looked up.
    fn connections(&self) -> u64 {
        let conns = self.story.conns.iter();
        conns
            .filter(|c| self.netns == 0 || c.netns == self.netns)
            .count() as u64
    }

    fn impact(&self) -> Impact {
        let (affected, counted) = match (self.connections(), self.lookups().0) {
            (0, 0) => (self.samples(), "samples"),
            (0, lookups) => (lookups, "packets"),
            (n, _) => (n, "connections"),
        };
        let cost = match self.lookup_ns() {
            Some(ns) => format!(", {} of CPU time each", duration(ns as u64)),
            None => String::new(),
        };
        let cpu = percent(self.story.profile.of_one_cpu(self.samples()));
        Impact {
            says: format!(
                "Every packet of {} {counted} walks up to {} {}{cost}: {cpu} of a CPU in all.",
                count(affected),
                figure(self.walk),
                self.kind.entries
            ),
            affected,
            of: affected,
            counted,
            share: 1.0,
            ..Impact::default()
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "{} of {} are in {}, which does nothing but walk",
            percent(self.share),
            plural(self.softirq(), "softirq sample"),
            self.function
        ));
        weigh_checks(&mut c, checks);
        let needed = [
            source::PROFILE,
            source::PROFILE_SYMBOLS,
            source::TABLES,
            source::COUNTERS,
        ];
        doubts(self.story, &mut c, &needed);
        if self.story.profile.folded > 0 {
            c.at_most(Level::Medium, "not every sample of the profile was kept");
        }
        c
    }

    fn softirq(&self) -> u64 {
        let groups = self.story.profile.groups.iter();
        samples(groups.filter(|g| g.softirq))
    }

    fn evidence(&self) -> Vec<Step> {
        let mut steps = vec![self.cpu_step(), self.function_step()];
        steps.push(self.table_step());
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
        let softirq = samples(here.filter(|g| g.softirq));
        Step::new(format!(
            "CPU {cpu} was in softirq for {} of its busy time, and in {} for {} of that.",
            percent(ratio(softirq as f64, busy as f64).unwrap_or(0.0)),
            self.function,
            percent(ratio(inside as f64, softirq as f64).unwrap_or(0.0)),
        ))
        .number("cpu", cpu)
        .number("busy_samples", busy)
        .number("softirq_samples", softirq)
        .number("function_samples", inside)
        .rows(self.rows())
    }

    /// Its share of the softirq time in each part of the recording that has some.
    fn shares(&self) -> Vec<f64> {
        let of_part = |part: u64| {
            let here = |g: &&&Group| u64::from(g.part) == part;
            let inside = samples(self.inside.iter().filter(here).copied());
            let all = self.story.profile.groups.iter();
            let all = samples(all.filter(|g| g.softirq && u64::from(g.part) == part));
            (all >= LEAST_SAMPLES).then(|| inside as f64 / all as f64)
        };
        (0..PARTS).filter_map(of_part).collect()
    }

    fn function_step(&self) -> Step {
        let shares = self.shares();
        let first = shares.first().copied().unwrap_or(self.share);
        let most = shares.iter().copied().fold(first, f64::max);
        let trend = match most > 1.5 * first {
            true => format!(
                ", and grows: from {} to {} of the time in softirq",
                percent(first),
                percent(most)
            ),
            false => String::new(),
        };
        Step::new(format!(
            "On all CPUs {} takes {} of the time in softirq{trend}.",
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
            "{} segments per second came in and were looked up, {} each: {} per entry passed.",
            figure(per_second),
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
    fn filler(&self) -> Option<&'a Listener> {
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
        let value = self.story.settings.get(self.netns, EHASH_ENTRIES)?;
        let says = match self.is_own() {
            true => format!(
                "{EHASH_ENTRIES}={}: the namespace has a table of its own, as large as \
                 {CHILD_ENTRIES} said where it was made.",
                value.text
            ),
            false => format!(
                "{EHASH_ENTRIES}={}: the host's table, made at boot (thash_entries).",
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
    fn is_own(&self) -> bool {
        let value = self.story.settings.get(self.netns, EHASH_ENTRIES);
        self.netns != 0
            && value.is_some_and(|v| v.text.trim().parse::<i64>().is_ok_and(|n| n > 0))
            && self.story.netns(self.netns).name.as_deref() != Some("host")
    }

    fn arithmetic(&self) -> Vec<Check> {
        let (lookups, _) = self.lookups();
        if lookups == 0 {
            return Vec::new();
        }
        let entry_ns = self.kind.entry_ns;
        let expected = lookups as f64 * self.mean_walk * entry_ns / 1e9;
        let measured = self.cpu_seconds();
        let walk = match self.size.fullest.buckets {
            Some(_) => format!("{} ÷ buckets", self.kind.entries),
            None => self.kind.entries.to_string(),
        };
        vec![Check {
            formula: format!(
                "segments in × {walk} ({} on average) × {} ns = CPU time in {}",
                figure(self.mean_walk),
                figure(entry_ns),
                self.function
            ),
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "s",
            agrees: measured * COST_FACTOR >= expected && measured <= expected * COST_FACTOR,
            tolerance: format!(
                "within a factor of {}: an entry costs more outside of the caches",
                figure(COST_FACTOR)
            ),
        }]
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let here = self.samples();
        let search = super::port_search_cost::searching(self.story);
        let starved = softirq_waited(self.story).map(|ns| RuledOut {
            cause: "softirq-starvation",
            because: format!(
                "the kernel's threads for packets waited {} for a CPU; the walk used {}",
                duration(ns),
                duration((self.cpu_seconds() * 1e9) as u64)
            ),
        });
        let searched = RuledOut {
            cause: "port-search-cost",
            because: format!(
                "{} in the search for a local port, {} here, in softirq",
                plural(search, "sample"),
                count(here)
            ),
        };
        [searched].into_iter().chain(starved).collect()
    }
}

/// A time below a microsecond.
fn duration_ns(ns: f64) -> String {
    format!("{} ns", figure(ns))
}

/// Buckets of the table that the namespace uses; negative when it is another's.
const EHASH_ENTRIES: &str = "net.ipv4.tcp_ehash_entries";
/// Buckets for namespaces made from this one.
const CHILD_ENTRIES: &str = "net.ipv4.tcp_child_ehash_entries";

#[cfg(test)]
mod tests;
