//! The thread that counts: ports and lookup structures of every namespace, slabs of the host.

use std::collections::{BTreeMap, HashSet};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use recording::{HealthKind, Namespace, SourceName, Writer, monotonic_ns};

use super::counts::Counts;
use super::sources::sources;
use super::walk::{MOST_DESTINATIONS, Walk};
use crate::error::Error;
use crate::filter::Filter;
use crate::health::HealthLog;
use crate::netns::{self, Found, Home};
use crate::pace::{Allowance, Pace};
use crate::patience::Patience;
use crate::worker::{Control, Report};

/// Time between rounds: tables fill and ports run out over minutes, not milliseconds.
const EVERY: Duration = Duration::from_secs(5);
/// A round may use one part in so many of a CPU: it visits every socket, and 80,000 in TIME_WAIT took
/// 60 ms. What it counts is wanted at the beginning and the end; between them it can be rare.
const MOST: u32 = 250;
/// Slabs are read every so many rounds: the kernel locks each cache's lists for it.
const SLABS_EVERY: u64 = 6;

/// Counts until told to stop; its first round is when the recording has begun.
pub fn take_census(
    filter: &Filter,
    allowance: Allowance,
    writer: &Writer,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut object = MaybeUninit::uninit();
    let walk = Walk::load(&mut object, filter, MOST_DESTINATIONS);
    let mut census = Census {
        filter,
        health,
        home: Home::remember().map_err(|why| Error::System {
            what: "opening the own network namespace".into(),
            why,
        })?,
        counts: Counts::new(walk, writer.table()?, writer.table()?),
        uncounted: 0,
        counted: BTreeMap::new(),
        seen: BTreeMap::new(),
        told: HashSet::new(),
        slabs_told: false,
    };
    let mut pace = Pace::new(EVERY, MOST, allowance);
    control.begin(|| Ok(()))?;
    census.round(true, control.beginning())?;
    control.ready(census.report());
    for rounds in 1.. {
        let stopping = control.stopping(pace.interval);
        pace.begin();
        let with_slabs = stopping || rounds % SLABS_EVERY == 0;
        census.round(with_slabs, control.round(stopping))?;
        if stopping {
            break;
        }
        if let Some(detail) = pace.end() {
            health.say(
                SourceName::Tables,
                HealthKind::Slowed,
                0,
                format!("a round over ports and tables {detail}"),
            )?;
        }
    }
    Ok(census.report())
}

struct Census<'a, 'o> {
    filter: &'a Filter,
    health: &'a HealthLog,
    home: Home,
    counts: Counts<'o>,
    /// Sockets whose ports were not counted, over all rounds.
    uncounted: u64,
    /// When each namespace was counted last.
    counted: BTreeMap<u32, Instant>,
    seen: BTreeMap<u32, Namespace>,
    /// Namespaces that could not be visited, told once each.
    told: HashSet<u32>,
    /// That slabs are dear was said.
    slabs_told: bool,
}

impl Census<'_, '_> {
    fn round(&mut self, with_slabs: bool, patience: Patience) -> Result<(), Error> {
        self.counts.time_ns = monotonic_ns();
        let wanted = &self.filter.netns;
        let mut found = netns::find();
        found.retain(|inode, _| wanted.is_empty() || wanted.contains(inode));
        self.counted.retain(|inode, _| found.contains_key(inode));
        // Those that were left out last time go first.
        let mut found: Vec<(u32, Found)> = found.into_iter().collect();
        found.sort_by_key(|(inode, _)| self.counted.get(inode).copied());
        let mut left_out = 0;
        for (inode, found) in found {
            if patience.is_over() {
                left_out += 1;
                continue;
            }
            let counts = &mut self.counts;
            match self
                .home
                .visit(&found, || counts.of_namespace(inode, patience.within()))
            {
                Ok(uncounted) => {
                    let Some(uncounted) = uncounted? else {
                        left_out += 1;
                        continue;
                    };
                    self.counted.insert(inode, Instant::now());
                    if uncounted > 0 {
                        self.uncounted += uncounted;
                        let detail = "sockets to more destinations than are counted";
                        self.health
                            .say(SourceName::Ports, HealthKind::Lost, uncounted, detail)?;
                    }
                    self.seen.entry(inode).or_insert(found.namespace);
                }
                // It may have ended between finding and visiting it.
                Err(why) => {
                    if !netns::is_gone(&why) && self.told.insert(inode) {
                        let name = &found.namespace.name;
                        let detail = format!("namespace {name} could not be visited: {why}");
                        self.health
                            .say(SourceName::Tables, HealthKind::Partial, 1, detail)?;
                    }
                }
            }
        }
        if left_out > 0 && patience.is_whole() {
            let detail = if patience.is_last() {
                "network namespaces whose ports and tables were not counted once more at the end: it took too long"
            } else {
                "network namespaces whose ports and tables are counted in a later round: it took too long"
            };
            self.health
                .say(SourceName::Tables, HealthKind::Partial, left_out, detail)?;
        }
        let all = wanted.is_empty() && left_out == 0;
        self.counts.of_host(all, with_slabs)?;
        if let Some(detail) = self.counts.dear_slabs().filter(|_| !self.slabs_told) {
            self.slabs_told = true;
            self.health
                .say(SourceName::Slabs, HealthKind::Slowed, 0, detail)?;
        }
        self.counts.seal()
    }

    fn report(&self) -> Report {
        Report {
            sources: sources(
                self.counts.obstacle(),
                &self.counts.verdicts,
                self.uncounted,
            ),
            namespaces: self.seen.values().cloned().collect(),
            ..Report::default()
        }
    }
}
