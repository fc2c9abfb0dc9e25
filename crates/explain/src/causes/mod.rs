//! The causes that tcpwhy knows: this list is the only one.

mod lost_syn;
mod options;
mod scene;

mod accept_queue_overflow;
mod connection_refused;
mod middlebox_strips_options;
mod syn_cookie_options_lost;
mod syn_queue_overflow;

use crate::finding::{Finding, Level};
use crate::story::Story;

/// A class of reasons for which TCP is slow or fails.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// Stable name in commands, JSON and docs.
    pub id: &'static str,
    /// Its number in the book.
    pub number: &'static str,
    /// What it is, as a heading.
    pub title: &'static str,
    /// Its page of the book, Markdown without the heading.
    pub page: &'static str,
    pub(crate) find: fn(&Story) -> Vec<Finding>,
}

/// All causes, by number.
pub(crate) const ALL: &[Cause] = &[
    accept_queue_overflow::CAUSE,
    syn_queue_overflow::CAUSE,
    syn_cookie_options_lost::CAUSE,
    middlebox_strips_options::CAUSE,
    connection_refused::CAUSE,
];

/// Findings reported per cause; a host with more listeners in trouble has one problem, not many.
pub(crate) const MOST_PER_CAUSE: usize = 100;

/// The findings of some causes, the greatest impact first.
pub(crate) fn find(story: &Story, causes: &[Cause]) -> (Vec<Finding>, Vec<(&'static str, usize)>) {
    let mut all = Vec::new();
    let mut cut = Vec::new();
    for cause in causes {
        let mut found = (cause.find)(story);
        rank(&mut found);
        if found.len() > MOST_PER_CAUSE {
            cut.push((cause.id, found.len() - MOST_PER_CAUSE));
            found.truncate(MOST_PER_CAUSE);
        }
        all.append(&mut found);
    }
    rank(&mut all);
    (all, cut)
}

/// The most connections affected first, weighed by how sure we are of each.
fn rank(findings: &mut [Finding]) {
    let weight = |f: &Finding| {
        let sure = match f.confidence.level {
            Level::High => 1.0,
            Level::Medium => 0.7,
            Level::Low => 0.4,
        };
        f.impact.affected as f64 * sure
    };
    findings.sort_by(|a, b| {
        let by_weight = weight(b).total_cmp(&weight(a));
        let by_name = || (a.number, &a.scope.listener).cmp(&(b.number, &b.scope.listener));
        by_weight.then_with(by_name)
    });
}
