//! How good what is said of situations is: against what is right of each from where it was recorded. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::draw::GRADED;
use super::kinds::{Server, Topology, word};
use super::sitting::{Played, Said, Sat, Told};
use super::truth::{Right, comm, right};

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// What is wrong is said.
    Right,
    /// A part of it is said: what follows from it, or less than can be known.
    Partly,
    /// Nothing is said.
    Silent,
    /// Something else is said.
    Wrong,
    /// Nothing is wrong, and nothing is found.
    Quiet,
    /// Nothing is wrong, and something is found.
    FalseAlarm,
    /// From there nobody can know, and nothing is said.
    Unseen,
    /// No user noticed the fault.
    Unfelt,
    /// It was not played, or not explained.
    Failed,
}

/// One situation, with what its answer is worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Marked {
    /// What was planted and met.
    pub played: Played,
    /// What was said.
    pub said: Said,
    /// What is right.
    pub right: Right,
    /// What that is worth.
    pub mark: Mark,
    /// The first thing said is right, at least in part; `None` where nothing was said or nothing was wrong.
    pub first: Option<bool>,
    /// Findings beside the right ones, of what nobody planted.
    pub beside: Vec<String>,
    /// What is right and was missed is called ruled out.
    pub ruled_out: Vec<String>,
}

impl Marked {
    /// Of one situation.
    pub fn of(played: &Played, said: &Said) -> Marked {
        let right = right(&played.situation);
        let mut marked = Marked {
            mark: Mark::Failed,
            first: None,
            beside: Vec::new(),
            ruled_out: Vec::new(),
            played: played.clone(),
            said: said.clone(),
            right,
        };
        if played.failed.is_some() || said.failed.is_some() {
            return marked;
        }
        let is = |ids: &[String], told: &Told| ids.contains(&told.cause) && blames(&marked, told);
        let best = |told: &Told| is(&marked.right.best, told);
        let partly =
            |told: &Told| is(&marked.right.partly, told) || is_best_elsewhere(&marked, told);
        let fitting = |told: &Told| best(told) || partly(told);
        let beside = said.findings.iter().filter(|told| !fitting(told));
        let beside: Vec<String> = beside.map(|told| told.cause.clone()).collect();
        let is_sick = played.situation.fault.is_some();
        let felt = played.met.severity() >= 1.0;
        let mark = match () {
            () if !is_sick && said.findings.is_empty() => Mark::Quiet,
            () if !is_sick => Mark::FalseAlarm,
            () if !felt && beside.is_empty() => Mark::Unfelt,
            () if !felt => Mark::FalseAlarm,
            () if said.all().any(best) => Mark::Right,
            () if said.all().any(partly) => Mark::Partly,
            () if said.all().next().is_some() && !said.findings.is_empty() => Mark::Wrong,
            () if marked.right.silence => Mark::Unseen,
            () if said.not_tcp.is_some() => Mark::Wrong,
            () => Mark::Silent,
        };
        let first = said.all().next().filter(|_| is_sick && felt).map(fitting);
        let missed =
            matches!(mark, Mark::Silent | Mark::Wrong | Mark::Partly) && !marked.right.silence;
        let ruled_out = said
            .ruled_out
            .iter()
            .filter(|id| missed && marked.right.best.contains(id));
        let ruled_out: Vec<String> = ruled_out.cloned().collect();
        // Of several ways of telling it, one that does not hold is no mistake while another is open.
        let ids = marked
            .right
            .best
            .iter()
            .filter(|id| !id.starts_with("not-tcp:"));
        let all_out = ids.clone().count() > 0 && ids.clone().all(|id| ruled_out.contains(id));
        (marked.mark, marked.first, marked.beside) = (mark, first, beside);
        marked.ruled_out = if all_out { ruled_out } else { Vec::new() };
        marked
    }
}

/// It names the program whose time it was, and not what passes on, where both are recorded.
fn blames(marked: &Marked, told: &Told) -> bool {
    let Some(blamed) = &marked.right.blamed else {
        return true;
    };
    let s = &marked.played.situation;
    let passes = s
        .proxies
        .iter()
        .any(|p| word(p).starts_with(blamed.as_str()));
    match told.cause.as_str() {
        "slow-application" if s.topology != Topology::Hairpin => {
            told.host.as_deref().is_none_or(|host| host == "server")
        }
        // A thread may have a name of its own.
        "not-tcp:application" if !s.proxies.is_empty() && !passes => {
            let others = [Server::Nginx].map(comm).into_iter().chain(["haproxy"]);
            told.says.contains(blamed.as_str())
                || !others.clone().any(|other| told.says.contains(other))
        }
        _ => true,
    }
}

/// It is right but for whom it blames.
fn is_best_elsewhere(marked: &Marked, told: &Told) -> bool {
    marked.right.best.contains(&told.cause) && !blames(marked, told)
}

/// Counts of marks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// By mark.
    pub marks: BTreeMap<Mark, u64>,
}

impl Tally {
    fn add(&mut self, mark: Mark) {
        *self.marks.entry(mark).or_default() += 1;
    }

    /// So many.
    pub fn n(&self, mark: Mark) -> u64 {
        self.marks.get(&mark).copied().unwrap_or(0)
    }

    /// Faults that a user noticed, and that can be known from where it was recorded.
    pub fn felt(&self) -> u64 {
        [Mark::Right, Mark::Partly, Mark::Silent, Mark::Wrong]
            .map(|m| self.n(m))
            .iter()
            .sum()
    }

    /// Situations in which nothing was wrong.
    pub fn healthy(&self) -> u64 {
        self.n(Mark::Quiet) + self.n(Mark::FalseAlarm)
    }
}

/// How good all answers are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SituationGrade {
    /// Of all.
    pub all: Tally,
    /// By what was drawn: `topology`, `shape` …, then which.
    pub by: BTreeMap<&'static str, BTreeMap<String, Tally>>,
    /// First findings that are right, of those that were first.
    pub first: (u64, u64),
    /// Faults that cannot be known from where it was recorded and of which nothing is found, of those of which nothing
    /// is right to be said.
    pub unseen: (u64, u64),
    /// Misses whose cause is called ruled out, of all misses.
    pub ruled_out: (u64, u64),
    /// By confidence: findings that fit, and all.
    pub calibration: BTreeMap<String, (u64, u64)>,
    /// Healthy situations of which it is said whose time it was, though nothing was slow.
    pub blamed_in_health: u64,
    /// Situations with a fault that was felt, with findings beside it of what nobody planted.
    pub beside: u64,
    /// All seeds are those that grade.
    pub graded: bool,
}

/// What is read off a situation for a table.
type Way = (&'static str, fn(&Played) -> String);
const WAYS: &[Way] = &[
    ("topology", |p| word(&p.situation.topology)),
    ("shape", |p| word(&p.situation.shape)),
    ("gives up after", |p| {
        format!("{:>5} s", p.situation.patience.gives_up_s)
    }),
    ("side recorded", |p| word(&p.situation.side)),
    ("age", |p| word(&p.situation.age)),
    ("server", |p| word(&p.situation.server)),
    ("caller", |p| word(&p.situation.caller)),
    ("severity", severity),
    ("fault", |p| {
        p.situation
            .fault
            .map_or("none".into(), |(fault, _)| word(&fault))
    }),
];

fn severity(played: &Played) -> String {
    match played.met.severity() {
        _ if played.situation.fault.is_none() => "none".into(),
        s if s < 1.0 => "below ×1".into(),
        s if s < 3.0 => "×1 to ×3".into(),
        s if s < 10.0 => "×3 to ×10".into(),
        _ => "×10 and more".into(),
    }
}

impl SituationGrade {
    /// Of all situations of a directory that something is said of.
    pub fn of(sat: &Sat) -> (SituationGrade, Vec<Marked>) {
        let mut grade = SituationGrade {
            graded: sat.played.keys().all(|seed| GRADED.contains(seed)),
            ..SituationGrade::default()
        };
        let with = sat
            .played
            .values()
            .filter_map(|p| Some((p, sat.said.get(&p.situation.seed)?)));
        let all: Vec<Marked> = with
            .map(|(played, said)| Marked::of(played, said))
            .collect();
        for marked in &all {
            grade.add(marked);
        }
        (grade, all)
    }

    fn add(&mut self, marked: &Marked) {
        let (played, said, mark) = (&marked.played, &marked.said, marked.mark);
        self.all.add(mark);
        for (name, which) in WAYS {
            self.by
                .entry(*name)
                .or_default()
                .entry(which(played))
                .or_default()
                .add(mark);
        }
        if let Some(first) = marked.first {
            self.first.0 += u64::from(first);
            self.first.1 += 1;
        }
        if marked.right.silence && matches!(mark, Mark::Unseen | Mark::Wrong) {
            self.unseen.0 += u64::from(mark == Mark::Unseen);
            self.unseen.1 += 1;
        }
        if matches!(mark, Mark::Silent | Mark::Wrong) {
            self.ruled_out.0 += u64::from(!marked.ruled_out.is_empty());
            self.ruled_out.1 += 1;
        }
        if !matches!(mark, Mark::Failed) {
            for told in &said.findings {
                let level = self.calibration.entry(told.confidence.clone()).or_default();
                level.0 += u64::from(!marked.beside.contains(&told.cause));
                level.1 += 1;
            }
        }
        let healthy =
            matches!(mark, Mark::Quiet | Mark::FalseAlarm) && played.situation.fault.is_none();
        self.blamed_in_health += u64::from(healthy && said.not_tcp.is_some());
        self.beside += u64::from(marked.first.is_some() && !marked.beside.is_empty());
    }
}

#[cfg(test)]
#[path = "grade_tests.rs"]
mod tests;
