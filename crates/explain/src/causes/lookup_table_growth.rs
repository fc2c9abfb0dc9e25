//! C34: a lookup structure has grown until packets, or connections, spend the CPU walking it.

mod advice;
mod dce;
mod evidence;
mod kinds;

use analysis::profile::{Group, samples};
use analysis::stats::ratio;
use analysis::structures::Structure;
use analysis::words::{count, duration, figure, fitting, percent, plural, rounded};

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::doubts;
use crate::vocabulary::*;
use kinds::{KINDS, Kind, LookedUp, Walked};

pub(crate) const CAUSE: Cause = Cause {
    id: Id::LOOKUP_TABLE_GROWTH,
    number: "C34",
    title: "packets walk a lookup structure that has outgrown its size",
    page: include_str!("lookup_table_growth.md"),
    ground: Ground::Host,
    needs: &[
        &[SourceName::Profile],
        &[SourceName::Tables, SourceName::Slabs],
    ],
    seen_from: "2 % of one CPU spent in walking a table",
    rivals: &[],
    explains: &[],
    no: Some(no),
    symptom: None,
    find,
};

/// Below this share of one CPU nobody notices.
const LEAST_CPU: f64 = 0.02;
/// Fewer samples than this say little about a share.
const LEAST_SAMPLES: u64 = 50;
/// How far the cost of an entry may be from the usual one: it depends on the caches.
const COST_FACTOR: f64 = 8.0;

/// Hardly anything walks such a structure, or what does has a short way.
fn no(asked: &Asked) -> Option<Step> {
    let profile = &asked.story.profile;
    let walking = |kind: &Kind| samples(profile.passing(kind.functions));
    let of_samples = samples(&profile.groups);
    let mut busy = KINDS.iter().filter(|kind| {
        let n = walking(kind);
        n >= LEAST_SAMPLES && profile.of_one_cpu(n) >= LEAST_CPU
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
        .map(|(_, size)| (kind.walk(size), size.fullest.row))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let name = kind.name;
    (walk < kind.least_walk && busy.next().is_none()).then(|| {
        say!(
            "a look-up in {name} passes {mean_chain} entries",
            mean_chain = Quantity::new(walk, figure(walk)).rows([row])
        )
    })
}

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
    /// Samples in its functions, in softirq or wherever it is walked.
    inside: Vec<&'a Group>,
    /// The function that most of them pass through.
    function: &'static str,
    /// Share of the time in softirq, or wherever it is walked.
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

/// What was looked up in a namespace, 0 for all, and the rows that say so.
fn looked_up(story: &Story, what: LookedUp, netns: u32) -> (u64, Vec<RowRef>) {
    let names = what.counters().iter();
    let rises = names.flat_map(|name| story.counters.rises(name));
    let rises: Vec<_> = rises.filter(|(n, _)| netns == 0 || *n == netns).collect();
    let sum = rises.iter().fold(0u64, |n, (_, r)| n.saturating_add(r.by));
    let rows = rises.iter().flat_map(|(_, r)| r.rows()).take(SHOWN_ROWS);
    (sum, rows.collect())
}

fn find(story: &Story) -> Vec<Finding> {
    findings(KINDS, |kind| Case::of(story, kind), Case::finding)
}

impl<'a> Case<'a> {
    /// The profile does not tell namespaces apart: of several structures the one that most entries
    /// were passed in is the one.
    fn of(story: &'a Story, kind: &'static Kind) -> Option<Case<'a>> {
        let walks = story
            .structures
            .named(kind.structure)
            .map(|(netns, size)| (kind.walk(size), netns, size));
        let walks = walks.filter(|(walk, ..)| *walk >= kind.least_walk);
        let lookups = |netns| looked_up(story, kind.looked_up, netns).0.max(1);
        let passed = |walk: f64, netns| walk * lookups(netns) as f64;
        let longest = walks.max_by(|a, b| {
            let by_passed = passed(a.0, a.1).total_cmp(&passed(b.0, b.1));
            // Of equals the whole host: its namespaces share the table.
            by_passed.then(b.1.cmp(&a.1))
        });
        let (walk, netns, size) = longest?;
        let profile = &story.profile;
        let inside: Vec<&Group> = profile
            .passing(kind.functions)
            .filter(|g| kind.walked.within(g))
            .collect();
        let n = samples(inside.iter().copied());
        let all = samples(profile.groups.iter().filter(|g| kind.walked.within(g)));
        let share = ratio(n as f64, all as f64)?;
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
            place: None,
            lost_s: Lost::elsewhere(
                (self.story.profile.of_one_cpu(self.samples()) * self.story.seconds() * 1e9) as u64,
            ),
            since: None,
            title: self.title(),
            fix: self.fix(),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope.netns),
            verify: self.verify(),
            scope,
        }
    }

    fn verify(&self) -> String {
        let top = match self.kind.walked {
            Walked::Softirq => "`perf top`",
            Walked::Kernel => "a profile",
        };
        format!(
            "Under the same load `tcpwhy stat tables` shows shorter chains or fewer rules, and \
             `{}` is no longer near the top of {top}.",
            self.function
        )
    }

    fn title(&self) -> String {
        let Kind {
            name,
            entries,
            walked,
            ..
        } = self.kind;
        let (packets, within) = (walked.by(), walked.sample());
        let n = count(self.size.fullest.entries);
        let share = percent(self.share);
        let walk = match self.size.fullest.buckets {
            Some(buckets) => format!("{n} {entries} in {} buckets", count(buckets)),
            None => format!("{n} {entries}, one after the other"),
        };
        fitting([
            format!("{packets} {name} ({walk}): {share} of {within} time."),
            format!("{packets} {name} ({walk})."),
            format!("{packets} {name}: {n} {entries}."),
        ])
    }

    fn fix(&self) -> String {
        match self.size.fullest.buckets {
            Some(_) if self.kind.structure == "dce" => self.dce_fix(),
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
        looked_up(self.story, self.kind.looked_up, self.netns)
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
        let openings = self.kind.looked_up == LookedUp::Openings;
        let (affected, counted) = match (self.connections(), self.lookups().0) {
            (0, 0) => (self.samples(), "samples"),
            (_, lookups) if openings => (lookups, "connections"),
            (0, lookups) => (lookups, "packets"),
            (n, _) => (n, "connections"),
        };
        let cost = match self.lookup_ns() {
            Some(ns) => format!(", {} of CPU time each", duration(ns as u64)),
            None => String::new(),
        };
        let cpu = percent(self.story.profile.of_one_cpu(self.samples()));
        let walker = match openings {
            true => format!("Each of {} {counted} walked", count(affected)),
            false => format!("Every packet of {} {counted} walks", count(affected)),
        };
        let says = format!(
            "{walker} up to {} {}{cost}: {cpu} of a CPU in all.",
            figure(self.walk),
            self.kind.entries
        );
        Impact::of(affected, affected, counted, says)
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "{} of {} are in {}, which does nothing but walk",
            percent(self.share),
            plural(
                self.within(),
                &format!("{} sample", self.kind.walked.sample())
            ),
            self.function
        ));
        c.weigh_checks(checks);
        let needed = [
            SourceName::Profile,
            SourceName::ProfileSymbols,
            SourceName::Tables,
            SourceName::Counters,
        ];
        doubts(self.story, &mut c, &needed);
        if self.story.profile.folded > 0 {
            c.at_most(Level::Medium, "not every sample of the profile was kept");
        }
        c
    }

    /// Samples where it is walked, in whatever function.
    fn within(&self) -> u64 {
        let groups = self.story.profile.groups.iter();
        samples(groups.filter(|g| self.kind.walked.within(g)))
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
        let (counted, _) = self.kind.looked_up.name();
        let cost = Check {
            formula: format!(
                "{counted} × {walk} ({} on average) × {} ns = CPU time in {}",
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
        };
        [cost].into_iter().chain(self.never_forgets()).collect()
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let here = self.samples();
        let search = samples(
            self.story
                .profile
                .passing(crate::places::port_search::FUNCTIONS),
        );
        let searched = RuledOut::new(
            Id::PORT_SEARCH_COST,
            format!(
                "{} in the search for a local port, {} here, in {}",
                plural(search, "sample"),
                count(here),
                self.kind.walked.name()
            ),
        );
        vec![searched]
    }
}

#[cfg(test)]
mod tests;
