//! C34: a lookup structure has grown until packets, or connections, spend the CPU walking it.

mod advice;
mod dce;
mod evidence;
mod kinds;

use analysis::profile::{Group, samples};
use analysis::stats::ratio;
use analysis::structures::Structure;
use analysis::words::{count, duration, figure, percent, rounded};

use crate::limits;
use crate::vocabulary::*;
use kinds::{KINDS, Kind, LookedUp, Walked, passed};

pub(crate) const CAUSE: Cause = Cause {
    id: Id::LOOKUP_TABLE_GROWTH,
    number: "C34",
    title: "packets walk a lookup structure that has outgrown its size",
    page: include_str!("lookup_table_growth.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[
        &[SourceName::Profile],
        &[SourceName::Tables, SourceName::Slabs],
    ],
    seen_from: || "2 % of one CPU spent in walking a table".into(),
    signature: &[
        "more CPU per packet every day",
        "slower the more connections, neighbours or rules there are",
        "neighbour table overflow",
    ],
    rivals: &[Id::PORT_SEARCH_COST, Id::SOFTIRQ_STARVATION],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        KINDS
            .iter()
            .filter_map(|k| Walk::of(story, k))
            .map(|w| judge(&w))
            .collect()
    },
};

/// Hardly anything walks such a structure, or the walk is short.
fn no(asked: &Asked) -> Option<Step> {
    let profile = &asked.story.profile;
    let walking = |kind: &Kind| samples(profile.passing(kind.functions));
    let of_samples = samples(&profile.groups);
    let mut busy = KINDS.iter().filter(|kind| {
        let n = walking(kind);
        n >= limits::ENOUGH.count() && profile.of_one_cpu(n) >= limits::LOOKUP_CPU.share()
    });
    let Some(kind) = busy.next() else {
        let walking: u64 = KINDS.iter().map(walking).sum();
        return (of_samples > 0).then(|| {
            say!(
                "{walking} of {of_samples} are in functions that walk a lookup structure",
                walking = Quantity::count(walking),
                of_samples = Quantity::of(of_samples, "sample")
            )
        });
    };
    let sizes = asked.story.structures.named(kind.structure);
    let (walk, row) = sizes
        .map(|(_, size)| (passed(&size.fullest), size.fullest.row))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let name = kind.name;
    (walk < kind.least_walk.number() && busy.next().is_none()).then(|| {
        say!(
            "a lookup in {name} passes {mean_chain} entries",
            mean_chain = Quantity::new(walk, figure(walk)).rows([row])
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let profile = &whole.story.profile;
    let of = samples(&profile.groups);
    let kinds = KINDS.iter().map(|kind| {
        let n = samples(profile.passing(kind.functions));
        let cpu = profile.of_one_cpu(n);
        let says = || {
            say!(
                "{walking} of {of_samples} are in functions that walk {name}, {of_one_cpu} of one CPU",
                walking = Quantity::count(n),
                of_samples = Quantity::of(of, "sample"),
                name = Quantity::new(kind.name, kind.name),
                of_one_cpu = Quantity::share(cpu)
            )
        };
        let sizes = whole.story.structures.named(kind.structure);
        let walks = sizes.map(|(_, size)| (passed(&size.fullest), size.fullest.row));
        let longest = walks.max_by(|a, b| a.0.total_cmp(&b.0));
        let walk = longest.map(|(walk, row)| {
            let mean_chain = Quantity::new(walk, figure(walk)).rows([row]);
            let step = say!(
                "a lookup in {name} passes {mean_chain} entries",
                name = Quantity::new(kind.name, kind.name),
                mean_chain
            );
            Test::from(walk, kind.least_walk, step)
        });
        let cpu = Test::from(cpu, &limits::LOOKUP_CPU, says());
        every([Test::events(n, of, &limits::ENOUGH, says()), cpu].into_iter().chain(walk))
    });
    Verdict::nearest(kinds, "the CPU profile has no sample")
}

/// A structure that is walked too long.
struct Walk<'a> {
    story: &'a Story,
    kind: &'static Kind,
    /// 0: the whole host.
    netns: u32,
    size: &'a Structure,
    /// Entries passed by a look-up at the structure's fullest, and on average.
    longest: f64,
    mean: f64,
    /// Samples in its functions, in softirq or wherever it is walked.
    inside: Vec<&'a Group>,
    /// The function that most of them pass through.
    function: &'static str,
    /// Share of the time in softirq, or wherever it is walked.
    share: f64,
    /// Look-ups during the recording, and the rows that say so.
    lookups: u64,
    lookup_rows: Vec<RowRef>,
}

fn judge(walk: &Walk) -> Finding {
    let (story, kind, function) = (walk.story, walk.kind, walk.function);
    let netns = match walk.netns {
        0 => Netns::default(),
        netns => story.netns(netns),
    };
    let scope = Scope {
        netns: netns.clone(),
        resource: Some(kind.structure.into()),
        function: Some(function.into()),
        ..Scope::default()
    };
    let (share, name, walked) = (percent(walk.share), kind.name, kind.walked);
    let (packets, within) = (walked.by(kind.looked_up), walked.sample());
    let n = count(walk.size.fullest.entries);
    let entries = kind.entries;
    let long = match walk.size.fullest.buckets {
        Some(buckets) => format!("{n} {entries} in {} buckets", count(buckets)),
        None => format!("{n} {entries}, one after the other"),
    };
    let all = story.profile.groups.iter();
    let all = samples(all.filter(|g| walked.within(g)));
    let top = match walked {
        Walked::Softirq => "perf top",
        Walked::Kernel => "a profile",
    };
    Case::new(story, CAUSE, scope)
        .placed(Place::Table(walk.netns, kind.structure))
        .title([
            format!("{packets} {name} ({long}): {share} of {within} time."),
            format!("{packets} {name} ({long})."),
            format!("{packets} {name}: {n} {entries}."),
        ])
        .fix(walk.fix())
        .affects(
            walk.impact(),
            Lost::elsewhere((walk.cpu_seconds() * 1e9) as u64),
        )
        .because(format!(
            "{share} of {} are in {function}, which does nothing but walk",
            Quantity::of(all, &format!("{within} sample"))
        ))
        .rests_on(&[SourceName::ProfileSymbols, SourceName::Counters])
        .at_most_if(
            Level::Medium,
            story.profile.folded > 0,
            "not every sample of the profile was kept",
        )
        .steps(walk.evidence())
        .checks(walk.cost_check())
        .checks(walk.never_forgets())
        .advise(walk.advice(&netns))
        .verify(sentence!(
            "Under the same load `tcpwhy stat tables` shows shorter chains or fewer rules, and \
             {function} is no longer near the top of {top}.",
            function,
            top
        ))
}

/// How much of its growth, 0..1, a structure had behind it on average over the recording: from the connections that
/// came, else assumed even.
fn grown(story: &Story, kind: &Kind, netns: u32, size: &Structure) -> f64 {
    if kind.structure != "ehash" {
        return limits::GROWN_EVENLY.share();
    }
    let added = size.fullest.entries.saturating_sub(size.first.entries);
    let came = story.conns.iter();
    let came = came.filter(|c| (netns == 0 || c.netns == netns) && c.side != Side::Older);
    let open_ns = came.map(|c| {
        let until = c.ended_ns.unwrap_or(story.end_ns);
        until.saturating_sub(c.start_ns) as f64
    });
    let mean_open = open_ns.sum::<f64>() / (story.seconds() * 1e9);
    let share = ratio(mean_open, added as f64).unwrap_or(limits::GROWN_EVENLY.share());
    share.clamp(0.0, 1.0)
}

/// What was looked up in a namespace, 0 for all, and the rows that say so.
fn looked_up(story: &Story, what: LookedUp, netns: u32) -> (u64, Vec<RowRef>) {
    let names = what.counters().iter();
    let rises = names.flat_map(|name| story.counters.rises(name));
    let rises: Vec<_> = rises.filter(|(n, _)| netns == 0 || *n == netns).collect();
    let sum = rises.iter().fold(0u64, |n, (_, r)| n.saturating_add(r.by));
    let rows = rises.iter().flat_map(|(_, r)| r.rows()).take(SHOWN_ROWS);
    (sum, rows.collect())
}

impl<'a> Walk<'a> {
    /// The profile does not tell namespaces apart: of several structures, the one in which most entries were passed is
    /// taken.
    fn of(story: &'a Story, kind: &'static Kind) -> Option<Walk<'a>> {
        let sizes = story.structures.named(kind.structure);
        let walks = sizes.map(|(netns, size)| (passed(&size.fullest), netns, size));
        let walks = walks.filter(|(longest, ..)| *longest >= kind.least_walk.number());
        let lookups = |netns| looked_up(story, kind.looked_up, netns).0.max(1);
        let work = |longest: f64, netns| longest * lookups(netns) as f64;
        let most = walks.max_by(|a, b| {
            let by_work = work(a.0, a.1).total_cmp(&work(b.0, b.1));
            // On a tie the whole host: its namespaces share the table.
            by_work.then(b.1.cmp(&a.1))
        });
        let (longest, netns, size) = most?;
        let profile = &story.profile;
        let inside = profile.passing(kind.functions);
        let inside: Vec<&Group> = inside.filter(|g| kind.walked.within(g)).collect();
        let n = samples(inside.iter().copied());
        let all = samples(profile.groups.iter().filter(|g| kind.walked.within(g)));
        let share = ratio(n as f64, all as f64)?;
        let matters = n >= limits::ENOUGH.count()
            && share >= kind.least_share.share()
            && profile.of_one_cpu(n) >= limits::LOOKUP_CPU.share();
        let through = |f: &&&'static str| samples(profile.passing(&[f]));
        let function = kind.functions.iter().max_by_key(through)?;
        let first = passed(&size.first);
        let (lookups, lookup_rows) = looked_up(story, kind.looked_up, netns);
        matters.then_some(Walk {
            story,
            kind,
            netns,
            size,
            longest,
            mean: first + (longest - first) * grown(story, kind, netns, size),
            inside,
            function,
            share,
            lookups,
            lookup_rows,
        })
    }

    fn samples(&self) -> u64 {
        samples(self.inside.iter().copied())
    }

    /// CPU time in the walk, s.
    fn cpu_seconds(&self) -> f64 {
        self.story.profile.cpu_seconds(self.samples())
    }

    /// The same as a share of one CPU, in words.
    fn of_a_cpu(&self) -> String {
        percent(self.story.profile.of_one_cpu(self.samples()))
    }

    /// What one look-up costs, ns.
    fn lookup_ns(&self) -> Option<f64> {
        ratio(self.cpu_seconds() * 1e9, self.lookups as f64)
    }

    fn impact(&self) -> Impact {
        let conns = self.story.conns.iter();
        let here = conns.filter(|c| self.netns == 0 || c.netns == self.netns);
        let openings = self.kind.looked_up == LookedUp::Openings;
        // The packets of each connection are looked up.
        let (affected, counted) = match (here.count() as u64, self.lookups) {
            (0, 0) => (self.samples(), "samples"),
            // Only packets to new neighbours walk there.
            (_, 0) if self.kind.walked == Walked::Kernel => (self.samples(), "samples"),
            (_, lookups) if openings => (lookups, "connections"),
            (0, lookups) => (lookups, "packets"),
            (n, _) => (n, "connections"),
        };
        let cost = match self.lookup_ns() {
            Some(ns) => format!(", {} of CPU time each", duration(ns as u64)),
            None => String::new(),
        };
        let n = count(affected);
        let walker = match (openings, self.kind.walked) {
            (true, _) => format!("Each of {n} {counted} walked"),
            (false, Walked::Softirq) => format!("Every packet of {n} {counted} walks"),
            (false, Walked::Kernel) => "Each new neighbour walks".into(),
        };
        let says = format!(
            "{walker} up to {} {}{cost}: {} of a CPU in total.",
            figure(self.longest),
            self.kind.entries,
            self.of_a_cpu()
        );
        Impact::of(affected, affected, counted, says)
    }

    /// What that many look-ups of that length cost elsewhere.
    fn cost_check(&self) -> Option<Check> {
        let (entries, entry_ns) = (self.kind.entries, self.kind.entry.number());
        let expected = self.lookups as f64 * self.mean * entry_ns / 1e9;
        let measured = self.cpu_seconds();
        let walk = match self.size.fullest.buckets {
            Some(_) => format!("{entries} ÷ buckets"),
            None => entries.to_string(),
        };
        (self.lookups > 0).then(|| Check {
            formula: format!(
                "{} × {walk} ({} on average) × {} ns = CPU time in {}",
                self.kind.looked_up.name().0,
                figure(self.mean),
                figure(entry_ns),
                self.function
            ),
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "s".into(),
            agrees: measured * limits::BY_FAR.times() >= expected
                && measured <= expected * limits::BY_FAR.times(),
            tolerance: format!(
                "within a factor of {}: an entry costs more outside the caches",
                figure(limits::BY_FAR.times())
            ),
        })
    }
}

#[cfg(test)]
mod tests;
