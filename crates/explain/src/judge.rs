//! Asks the causes: what holds, what follows from what, which rivals are ruled out, what matters most.

use ahash::AHashSet;
use analysis::Story;

use crate::asked::Asked;
use crate::cause::Cause;
use crate::causes::ALL;
use crate::correlated_counters;
use crate::episodes::Episode;
use crate::finding::{Finding, Level, RuledOut};
use crate::found::{Found, MAX_PER_CAUSE};
use crate::id::Id;
use crate::limits;
use crate::lost;
use crate::matters;
use crate::place::Place;
use crate::rank::{rank, weight};
use crate::shared_paths;
use crate::verdict::Verdict;
use crate::who_wins;
use crate::whole::Whole;

/// What the causes say about a story.
#[derive(Default)]
pub(crate) struct Judged {
    /// The findings, the most time lost first.
    pub(crate) findings: Vec<Finding>,
    /// Cases that cost too little, each with the reason.
    pub(crate) little: Vec<(Finding, String)>,
    /// Causes that found more than is reported, and how many more.
    pub(crate) cut: Vec<(Id, usize)>,
    /// Causes that saw something, and what became of it where they have no finding.
    pub(crate) seen: Vec<(Id, &'static str)>,
}

/// What happened to traces that a cause saw but that are not in any finding of it.
const IF_ASKED: &str =
    "traces of it were seen; they are reported when asked about (a filter, a command)";
const UNDER_ANOTHER: &str = "its symptoms are reported under another finding";

/// Asks some causes. Cases that the user asked about are reported even if they are too small to be a finding.
pub(crate) fn judge(whole: &Whole, causes: &[Cause]) -> Judged {
    let (story, inquiry) = (whole.story, &whole.inquiry);
    let mut all = Vec::new();
    let mut judged = Judged::default();
    for cause in causes {
        let Found {
            kept: mut found,
            more,
        } = (cause.find)(whole);
        let seen = !found.is_empty();
        found.retain(|f| !f.only_if_asked || inquiry.asks(f));
        if seen {
            let became = if found.is_empty() {
                IF_ASKED
            } else {
                UNDER_ANOTHER
            };
            judged.seen.push((cause.id, became));
        }
        rank(&mut found);
        let mut found = shared_paths::told_by_path(story, cause.told_with, found);
        let cut = found.len().saturating_sub(MAX_PER_CAUSE) + more;
        if cut > 0 {
            judged.cut.push((cause.id, cut));
            found.truncate(MAX_PER_CAUSE);
        }
        for finding in &mut found {
            ask_rivals(story, cause, finding);
        }
        if let Some(symptom) = cause.symptom {
            for finding in &mut found {
                let moved = correlated_counters::step(story, symptom, &finding.scope);
                finding.evidence.extend(moved);
            }
        }
        all.append(&mut found);
    }
    let mut all = who_wins::told_once(story, inquiry, all);
    lost::settle(all.iter_mut().map(|f| &mut f.lost_s));
    rank(&mut all);
    for finding in all {
        match matters::too_little(story, &finding, inquiry.asks(&finding)) {
            None => judged.findings.push(finding),
            Some(why) => judged.little.push((finding, why)),
        }
    }
    judged
}

impl Judged {
    /// Merges what was found in an episode of a recording of so many seconds. A finding that also holds in the whole
    /// recording is usually reported there; the episode dates it if it accounts for half of the cost in the whole.
    pub(crate) fn take(&mut self, part: Judged, episode: Episode, seconds: f64) {
        for mut finding in part.findings {
            finding.episodes = vec![episode];
            let mut known = self.findings.iter();
            let told = known.any(|known| tells(known, &finding) || entails(known, &finding));
            let known = self.findings.iter_mut().find(|known| same(known, &finding));
            if known.is_none() && told {
                continue;
            }
            self.little.retain(|(little, _)| !same(little, &finding));
            let Some(known) = known else {
                self.findings.push(finding);
                continue;
            };
            let mut episodes = std::mem::take(&mut known.episodes);
            // A finding in the whole recording has more evidence than one in a part of it.
            let dates = limits::MOST.reached(weight(&finding), weight(known))
                && !goes_on(known, episode, seconds);
            if episodes.is_empty() && !dates {
                continue;
            }
            if !episodes.is_empty() && weight(&finding) > weight(known) {
                *known = finding;
            }
            episodes.push(episode);
            known.episodes = episodes;
        }
        rank(&mut self.findings);
    }
}

/// Whether a finding in an episode follows from one in the whole recording at the same place. Only places that are the
/// same in both count: an index belongs to one story.
fn entails(known: &Finding, part: &Finding) -> bool {
    let here = matches!(
        known.place,
        Some(Place::At(..) | Place::LocalPorts(..) | Place::Process(_) | Place::Table(..))
    );
    here && known.place == part.place && who_wins::explains(known).contains(&part.cause)
}

/// Whether a known finding already covers most of the ends of the other. The known one sees more of the time. An
/// episode does not know when an end began that is older than the episode.
fn tells(known: &Finding, other: &Finding) -> bool {
    let ends = |f: &Finding| -> AHashSet<_> {
        let all = f.lost_s.ends();
        all.map(|(netns, local, remote, _)| (netns, local, remote))
            .collect()
    };
    let (of, known) = (ends(other), ends(known));
    let told = of.intersection(&known).count();
    told > 0 && limits::MOST.reached(told, of.len())
}

/// Whether the episode is the rest of a trouble that began shortly before it, or is a large part of that trouble.
fn goes_on(known: &Finding, episode: Episode, seconds: f64) -> bool {
    let lasts = episode.to_s - episode.from_s;
    let since = known.since.as_ref().map(|since| since.after_start_s);
    since.is_some_and(|since| {
        let shortly = since > episode.from_s - lasts;
        let large = seconds - since < limits::SEVERAL_TIMES.times() * lasts;
        since < episode.from_s && (shortly || large)
    })
}

/// Whether two findings have the same cause at the same place.
fn same(a: &Finding, b: &Finding) -> bool {
    let at = |f: &Finding| (f.cause, f.scope.netns.inode, f.scope.role);
    at(a) == at(b) && a.scope.place() == b.scope.place()
}

/// Asks each rival why it does not hold where the finding does. A rival that cannot be ruled out lowers the confidence.
fn ask_rivals(story: &Story, cause: &Cause, finding: &mut Finding) {
    let Some(place) = finding.place.clone() else {
        return;
    };
    let asked = Asked::about(story, &place);
    for id in cause.rivals {
        let rival = ALL.iter().find(|c| c.id == *id);
        let there = rival.and_then(|c| c.no).and_then(|no| no(&asked));
        match Verdict::there(there) {
            Verdict::No(no, _) => finding.ruled_out.push(RuledOut::by(*id, no)),
            _ if who_wins::takes_in(cause, finding, *id) => {
                let follows = "its symptoms are a consequence of this".to_string();
                finding.ruled_out.push(RuledOut::new(*id, follows));
            }
            _ => {
                let why = format!("{id} could not be ruled out");
                finding.confidence.at_most(Level::Medium, why);
                finding.unsure_of.push(*id);
            }
        }
    }
}
