//! How good the answers of sittings are, against what is asked of tcpwhy. Pure: other bars want no new runs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::draw::GRADING;
use super::sitting::{Fault, Found, Sitting};
use super::situation::{Part, Side};

/// What is asked.
pub mod bars {
    /// Of faults this much above what a user notices …
    pub const CLEAR: f64 = 3.0;
    /// … this share is found.
    pub const RECALL: f64 = 0.90;
    /// Of those this much below …
    pub const FAINT: f64 = 0.3;
    /// … at most this share.
    pub const FAINT_FOUND: f64 = 0.02;
    /// Of all findings this share is of something that was planted there.
    pub const PRECISION: f64 = 0.95;
    /// Where something is found, the first is what cost most, in this share of the situations.
    pub const FIRST: f64 = 0.95;
    /// Of what is found with each confidence so much is right.
    pub const CALIBRATION: [(&str, f64); 3] = [("high", 0.98), ("medium", 0.80), ("low", 0.50)];
    /// Of faults that cannot be told from where they were recorded so many are left alone.
    pub const SILENCE: f64 = 0.95;
    /// Findings name the right listener, process, resource.
    pub const OWNER: f64 = 0.95;
    /// So many situations are the least, …
    pub const SITUATIONS: u64 = 720;
    /// … so many of them healthy.
    pub const HEALTHY: u64 = 100;
    /// So many faults are among those that are taken for each other. Of the clear ones [`RECALL`] holds.
    pub const OF_GROUP: u64 = 20;
    /// What costs less than another divided by this costs less; nearer ones are equals.
    pub const APART: f64 = 1.5;
}

/// Causes that are easily taken for each other.
const GROUPS: &[&[&str]] = &[
    &["time-wait-collision", "conntrack-full", "half-open"],
    &[
        "accept-queue-overflow",
        "syn-queue-overflow",
        "local-firewall-drop",
        "path-drops-syn",
    ],
    &[
        "accept-queue-overflow",
        "descriptors-exhausted",
        "slow-accept",
        "accept-imbalance",
    ],
    &[
        "connection-refused",
        "injected-reset",
        "route-or-neighbour-failure",
    ],
    &[
        "reset-by-peer",
        "idle-timeout-mismatch",
        "injected-reset",
        "reset-unread-data",
        "reset-by-application",
    ],
    &[
        "syn-cookie-options-lost",
        "middlebox-strips-options",
        "syn-flood",
        "syn-queue-overflow",
    ],
    &["conntrack-full", "snat-ports-exhausted"],
    &["path-loss", "qdisc-drop"],
    &["path-loss", "pmtu-black-hole"],
    &["path-loss", "tail-loss"],
    &["nagle-delayed-ack", "tail-loss"],
    &["port-search-cost", "lookup-table-growth"],
    &["softirq-starvation", "cpu-contention"],
    &["cpu-contention", "cpu-saturated", "slow-application"],
    &["bufferbloat", "slow-reader"],
    &["slow-reader", "receive-buffer-small", "zero-window"],
    &["slow-peer", "peer-gone", "receive-buffer-small"],
];

/// All that is graded.
#[derive(Clone, Debug, Serialize)]
pub struct Grade {
    /// Situations that were seen.
    pub situations: u64,
    /// They are of the seeds that grade, and none other.
    pub grading: bool,
    /// Against what is asked.
    pub scores: Vec<Score>,
    /// The share of faults that is found, by how much above what a user notices.
    pub curve: Vec<Bin>,
    /// The same of faults that were met in one way or another: what it is called, and the curve.
    pub curves: Vec<(&'static str, Vec<Bin>)>,
    /// By confidence: right, and all.
    pub calibration: BTreeMap<String, (u64, u64)>,
    /// Causes that are taken for each other.
    pub groups: Vec<Group>,
    /// Per planted cause that a user notices, what was said.
    pub confusion: BTreeMap<String, Row>,
    /// Seconds claimed ÷ seconds planted, of findings that are right: the least tenth, the half, the greatest.
    pub claimed: Option<[f64; 3]>,
    /// What was wrong, by seed.
    pub wrong: Vec<(u64, Vec<String>)>,
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// What was counted.
    pub what: String,
    /// How many.
    pub right: u64,
    /// Of so many.
    pub of: u64,
    /// The share that is asked.
    pub bar: f64,
    /// Whether it was reached.
    pub met: bool,
}

/// Faults of about the same severity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// From here, in what a user notices, …
    pub from: f64,
    /// … to here.
    pub to: f64,
    /// Those that were found.
    pub found: u64,
    /// All.
    pub of: u64,
}

/// Causes that are taken for each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Their ids.
    pub causes: &'static [&'static str],
    /// Faults that are one of them, however severe.
    pub faults: u64,
    /// Those that cost [`bars::CLEAR`] times what a user notices, and can be told from where they were recorded.
    pub clear: u64,
    /// Those of these that were found.
    pub found: u64,
    /// Findings of one of them where another one was planted.
    pub mistaken: u64,
}

impl Group {
    fn met(&self) -> bool {
        self.faults >= bars::OF_GROUP && self.found as f64 >= bars::RECALL * self.clear as f64
    }
}

/// What was said where a cause was planted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// So many faults.
    pub planted: u64,
    /// Those of them that cannot be told from where they were recorded.
    pub untold: u64,
    /// Named rightly.
    pub named: u64,
    /// Nothing was said there.
    pub silent: u64,
    /// Something else was said there, and that not.
    pub others: BTreeMap<String, u64>,
}

impl Grade {
    /// Every bar was met.
    pub fn passed(&self) -> bool {
        self.scores.iter().all(|s| s.met)
    }

    /// Grades sittings.
    pub fn of(sittings: &[Sitting]) -> Grade {
        let seen: Vec<&Sitting> = sittings.iter().filter(|s| s.failed.is_none()).collect();
        let mut wrong: Vec<(u64, Vec<String>)> = sittings
            .iter()
            .map(|s| (s.situation.seed, wrongs(s)))
            .filter(|(_, wrongs)| !wrongs.is_empty())
            .collect();
        wrong.sort();
        let groups: Vec<Group> = GROUPS.iter().map(|g| group(&seen, g)).collect();
        Grade {
            situations: seen.len() as u64,
            grading: sittings.iter().all(|s| s.situation.seed >= GRADING),
            scores: scores(&seen, &groups),
            curve: curve(&seen, |_, _| true),
            curves: WAYS
                .iter()
                .map(|(name, is)| (*name, curve(&seen, *is)))
                .collect(),
            calibration: calibration(&seen),
            groups,
            confusion: confusion(&seen),
            claimed: claimed(&seen),
            wrong,
        }
    }
}

/// The fault that a finding is right about.
fn about<'s>(sitting: &'s Sitting, found: &Found) -> Option<&'s Fault> {
    let mut faults = sitting.faults.iter();
    faults.find(|fault| fault.right.contains(&found.cause) && is_at(found, fault))
}

/// Whether a finding is in the nodes of a fault, or of the whole host.
fn is_at(found: &Found, fault: &Fault) -> bool {
    found.part.is_none_or(|part| part == fault.part)
}

/// Another way of telling a fault: neither right nor wrong.
fn may(sitting: &Sitting, found: &Found) -> bool {
    let mut faults = sitting.faults.iter();
    faults.any(|fault| fault.may.contains(&found.cause) && is_at(found, fault))
}

/// The findings that count.
fn counted(sitting: &Sitting) -> impl Iterator<Item = &Found> {
    sitting.findings.iter().filter(|f| !may(sitting, f))
}

fn is_found(sitting: &Sitting, fault: &Fault) -> bool {
    let mut findings = sitting.findings.iter();
    findings.any(|f| fault.right.contains(&f.cause) && is_at(f, fault))
}

/// What is wrong with the answer to a situation, each in a line.
pub(crate) fn wrongs(sitting: &Sitting) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    if let Some(why) = &sitting.failed {
        return vec![format!("the run failed: {why}")];
    }
    let named = |part: usize| {
        let part = sitting.situation.parts.get(part);
        part.map_or("?".into(), Part::in_words)
    };
    for fault in &sitting.faults {
        let severity = fault.significance();
        let found = is_found(sitting, fault);
        let (name, lost) = (named(fault.part), fault.lost_s());
        if severity >= bars::CLEAR && !found && !fault.right.is_empty() {
            let answer = fault.answer.as_deref().unwrap_or("nothing");
            wrong.push(format!(
                "missed {} of {name} (×{severity:.1}, {lost:.1} s lost; answered: {answer})",
                fault.cause
            ));
        }
        if severity <= bars::FAINT && found {
            wrong.push(format!(
                "found {} of {name}, which nobody noticed (×{severity:.2})",
                fault.cause
            ));
        }
    }
    for found in counted(sitting) {
        match about(sitting, found) {
            None => {
                let at = found.part.map_or("the host".into(), named);
                wrong.push(format!(
                    "{} ({}) at {at}: {}",
                    found.cause, found.confidence, found.title
                ));
            }
            Some(_) => wrong.extend(
                found
                    .wrong_owner
                    .iter()
                    .map(|why| format!("{}: {why}", found.cause)),
            ),
        }
    }
    if first_is_heaviest(sitting) == Some(false) {
        wrong.push("the first finding is not what cost most".into());
    }
    for found in sitting.without.iter().flatten() {
        wrong.push(format!(
            "without its faults: {} ({}): {}",
            found.cause, found.confidence, found.title
        ));
    }
    wrong
}

/// Whether the first finding is about the fault that cost most; `None` where nothing was found, or nothing that
/// a user would notice was planted.
fn first_is_heaviest(sitting: &Sitting) -> Option<bool> {
    let first = counted(sitting).next()?;
    let tellable = |f: &&Fault| !f.right.is_empty() && f.significance() >= 1.0;
    let faults = sitting.faults.iter().filter(tellable);
    let most = faults.map(Fault::lost_s).reduce(f64::max)?;
    let right = about(sitting, first);
    Some(right.is_some_and(|fault| fault.lost_s() * bars::APART >= most))
}

fn scores(seen: &[&Sitting], groups: &[Group]) -> Vec<Score> {
    let faults = || {
        seen.iter()
            .flat_map(|s| s.faults.iter().map(move |f| (*s, f)))
    };
    let tellable = || faults().filter(|(_, f)| !f.right.is_empty());
    let share = |what: String, bar: f64, hits: &mut dyn Iterator<Item = bool>| {
        let (right, of) = hits.fold((0, 0), |(r, n), hit| (r + u64::from(hit), n + 1));
        let met = of > 0 && right as f64 >= bar * of as f64;
        Score {
            what,
            right,
            of,
            bar,
            met,
        }
    };
    let clear = tellable().filter(|(_, f)| f.significance() >= bars::CLEAR);
    let faint = tellable().filter(|(_, f)| f.significance() <= bars::FAINT);
    let findings = || seen.iter().flat_map(|s| counted(s).map(move |f| (*s, f)));
    let right = || findings().filter(|(s, f)| about(s, f).is_some());
    let healthy = || seen.iter().filter(|s| s.situation.is_healthy());
    let blind = faults().filter(|(_, f)| f.right.is_empty());
    let mut scores = vec![
        share(
            format!(
                "faults of {} times what a user notices, and more, that are found",
                bars::CLEAR
            ),
            bars::RECALL,
            &mut clear.map(|(s, f)| is_found(s, f)),
        ),
        share(
            format!(
                "faults of {} times that, and less, that are not",
                bars::FAINT
            ),
            1.0 - bars::FAINT_FOUND,
            &mut faint.map(|(s, f)| !is_found(s, f)),
        ),
        share(
            "findings of what was planted there".into(),
            bars::PRECISION,
            &mut findings().map(|(s, f)| about(s, f).is_some()),
        ),
        share(
            "situations in which the first finding is what cost most".into(),
            bars::FIRST,
            &mut seen.iter().filter_map(|s| first_is_heaviest(s)),
        ),
        share(
            "right findings that name the right owner".into(),
            bars::OWNER,
            &mut right().map(|(_, f)| f.wrong_owner.is_empty()),
        ),
        share(
            "healthy situations in which nothing is found".into(),
            1.0,
            &mut healthy().map(|s| s.findings.is_empty()),
        ),
        share(
            "situations with their faults taken away in which nothing is found".into(),
            1.0,
            &mut seen
                .iter()
                .filter_map(|s| s.without.as_ref().map(Vec::is_empty)),
        ),
        share(
            "faults not visible from the recorded side, and correctly not reported".into(),
            bars::SILENCE,
            &mut blind.map(|(s, fault)| {
                !s.findings
                    .iter()
                    .any(|f| f.part == Some(fault.part) && f.confidence != "low")
            }),
        ),
    ];
    for (level, bar) in bars::CALIBRATION {
        let of_level = findings().filter(|(_, f)| f.confidence == level);
        let what = format!("findings with {level} confidence that are right");
        let mut hits = of_level.map(|(s, f)| about(s, f).is_some());
        let score = share(what, bar, &mut hits);
        // Of a confidence that was never expressed nothing can be asked.
        scores.extend((score.of > 0).then_some(score));
    }
    let enough = |what: &str, n: u64, least: u64| Score {
        what: what.into(),
        right: n,
        of: least,
        bar: 1.0,
        met: n >= least,
    };
    scores.push(enough(
        "situations seen",
        seen.len() as u64,
        bars::SITUATIONS,
    ));
    scores.push(enough(
        "situations seen that are healthy",
        healthy().count() as u64,
        bars::HEALTHY,
    ));
    let met = groups.iter().filter(|g| g.met()).count() as u64;
    scores.push(enough(
        "groups of causes that are taken for each other, with faults enough, and found as those of all",
        met,
        groups.len() as u64,
    ));
    scores
}

fn group(seen: &[&Sitting], causes: &'static [&'static str]) -> Group {
    let is_one = |cause: &String| causes.contains(&cause.as_str());
    let mut group = Group {
        causes,
        faults: 0,
        clear: 0,
        found: 0,
        mistaken: 0,
    };
    for sitting in seen {
        for fault in sitting.faults.iter().filter(|f| is_one(&f.cause)) {
            group.faults += 1;
            if fault.significance() >= bars::CLEAR && !fault.right.is_empty() {
                group.clear += 1;
                group.found += u64::from(is_found(sitting, fault));
            }
            let there = counted(sitting).filter(|f| f.part == Some(fault.part) && is_one(&f.cause));
            let mistaken = there.filter(|f| about(sitting, f).is_none());
            group.mistaken += mistaken.count() as u64;
        }
    }
    group
}

/// Edges of the ranges of severity; what is below the first or above the last is in a range of its own.
const EDGES: [f64; 8] = [0.1, 0.3, 0.55, 1.0, 1.8, 3.0, 10.0, 30.0];

/// Ways in which a fault may be met.
const WAYS: &[(&str, Way)] = &[
    ("both sides recorded", |_, part| part.side == Side::Both),
    ("one side recorded", |_, part| part.side != Side::Both),
    ("several faults at once", |s, _| s.faults.len() > 1),
    ("IPv6, or addresses translated", |_, part| {
        part.ipv6 || part.nat
    }),
    ("older than the recording", |s, _| {
        s.situation.older_ms > 0.0
    }),
];
type Way = fn(&Sitting, &Part) -> bool;

fn curve(seen: &[&Sitting], is: Way) -> Vec<Bin> {
    let met = |s: &Sitting, f: &Fault| s.situation.parts.get(f.part).is_some_and(|p| is(s, p));
    let from = std::iter::once(0.0).chain(EDGES);
    let to = EDGES.into_iter().chain([f64::INFINITY]);
    let bin = |(from, to): (f64, f64)| {
        let (mut found, mut of) = (0, 0);
        for (sitting, fault) in seen
            .iter()
            .flat_map(|s| s.faults.iter().map(move |f| (s, f)))
        {
            let severity = fault.significance();
            let here = from <= severity && severity < to;
            if here && !fault.right.is_empty() && met(sitting, fault) {
                of += 1;
                found += u64::from(is_found(sitting, fault));
            }
        }
        Bin {
            from,
            to,
            found,
            of,
        }
    };
    from.zip(to).map(bin).filter(|bin| bin.of > 0).collect()
}

fn calibration(seen: &[&Sitting]) -> BTreeMap<String, (u64, u64)> {
    let mut levels: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for sitting in seen {
        for found in counted(sitting) {
            let (right, of) = levels.entry(found.confidence.clone()).or_default();
            *right += u64::from(about(sitting, found).is_some());
            *of += 1;
        }
    }
    levels
}

fn confusion(seen: &[&Sitting]) -> BTreeMap<String, Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for sitting in seen {
        for fault in sitting.faults.iter().filter(|f| f.significance() >= 1.0) {
            let row = rows.entry(fault.cause.clone()).or_default();
            row.planted += 1;
            if fault.right.is_empty() {
                row.untold += 1;
                continue;
            }
            let mut there = counted(sitting).filter(|f| f.part == Some(fault.part));
            match (is_found(sitting, fault), there.next()) {
                (true, _) => row.named += 1,
                (false, None) => row.silent += 1,
                (false, Some(other)) => *row.others.entry(other.cause.clone()).or_default() += 1,
            }
        }
    }
    rows
}

fn claimed(seen: &[&Sitting]) -> Option<[f64; 3]> {
    let mut ratios: Vec<f64> = Vec::new();
    for sitting in seen {
        for fault in sitting.faults.iter().filter(|f| f.significance() >= 1.0) {
            let of_fault = sitting.findings.iter();
            let of_fault = of_fault.filter(|f| fault.right.contains(&f.cause) && is_at(f, fault));
            let claims: Vec<f64> = of_fault.filter_map(|f| f.lost_s).collect();
            if !claims.is_empty() && fault.lost_s() > 0.0 {
                ratios.push(claims.iter().sum::<f64>() / fault.lost_s());
            }
        }
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let at = (share * (ratios.len().checked_sub(1)?) as f64).round() as usize;
        ratios.get(at).copied()
    };
    Some([at(0.1)?, at(0.5)?, at(0.9)?])
}

#[cfg(test)]
#[path = "grade_tests.rs"]
mod tests;
