//! SYNs that connection tracking dropped though its table had room: it had no entry of their own to give them.

use analysis::{Conn, Outcome};
use recording::{RowRef, SourceName};

use crate::case::Case;
use crate::cause::Cause;
use crate::finding::{Scope, Step};
use crate::limits;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::say::{Quantity, say};
use crate::verdict::{Test, Verdict, every};
use crate::whole::{NO_CONNECTION, Whole};

/// A place whose SYNs found no entry in a namespace.
pub(crate) struct UntrackedSyns<'p, 'a> {
    pub(crate) place: &'p UnansweredSyns<'a>,
    pub(crate) netns: u32,
    /// SYNs for the place.
    pub(crate) lost: u64,
    /// What the namespace counted as insert_failed, with the row.
    pub(crate) failed: (u64, RowRef),
    /// Connections of this host to the place that had an entry when SYNs were dropped: the fewest; and the
    /// most there ever were.
    pub(crate) held: Option<(u64, u64)>,
    /// Connects of this host that lost a SYN, and those of them that lost a second one.
    pub(crate) lost_again: (u64, u64),
}

impl<'p, 'a> UntrackedSyns<'p, 'a> {
    pub(crate) fn of(place: &'p UnansweredSyns<'a>) -> Option<UntrackedSyns<'p, 'a>> {
        let netns = place.firewall_netns()?;
        let (lost, _) = place.untracked(netns);
        let failed = place.story.structures.conntrack(netns, "insert_failed")?;
        // Other packets fail to get one, too; but hardly fewer than these.
        let told = lost >= limits::UNANSWERED.count() && limits::MOST.reached(failed.0, lost);
        told.then(|| UntrackedSyns {
            place,
            netns,
            lost,
            failed,
            held: fullest(place),
            lost_again: lost_again(place),
        })
    }

    /// Each drop came when as many connections had an entry as ever, and what was retransmitted was dropped as
    /// well: there were no more to be had. Two that race for one find another a second later.
    pub(crate) fn is_exhausted(&self) -> bool {
        let (once, twice) = self.lost_again;
        self.held.is_some_and(is_full) && limits::MOST.exceeded(twice, once)
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope {
            resource: Some("conntrack".into()),
            ..self.place.scope(self.netns)
        }
    }

    /// What is said of it, whatever took the entries.
    pub(crate) fn case(&self, cause: Cause, scope: Scope) -> Case<'a> {
        let (place, lost) = (self.place, self.lost);
        Case::new(place.story, cause, scope)
            .placed(place.place())
            .affects(
                place.impact(lost, place.passed()),
                place.times.lost(place.story, lost),
            )
            .steps(place.firewall_steps())
            .steps([self.counted()])
            .checks(place.drops_check(lost))
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        [self.failed.1].into_iter()
    }

    /// What the namespace counted.
    fn counted(&self) -> Step {
        say!(
            "Connection tracking counted {insert_failed} that it could not insert (insert_failed): the \
             translated addresses and ports were another connection's.",
            insert_failed = Quantity::of(self.failed.0, "packet").rows(self.rows())
        )
    }
}

/// Whether the fewest are about as many as the most.
fn is_full((least, most): (u64, u64)) -> bool {
    most > 0 && limits::SNAT_FULL.reached(least, most)
}

/// The connections with an entry, as they fill what there is, if they do.
fn fullest(place: &UnansweredSyns) -> Option<(u64, u64)> {
    let [open, lingering] = [0, limits::TRACKED_LINGERS.ns()].map(|ns| held(place, ns));
    if lingering.is_some_and(is_full) {
        lingering
    } else {
        open
    }
}

/// Connects that lost a SYN, and those that lost a second one.
fn lost_again(place: &UnansweredSyns) -> (u64, u64) {
    let all = || place.story.all(&place.clients).map(|(_, c)| lost(c));
    let of = |n: u32| all().filter(|lost| *lost >= n).count() as u64;
    (of(1), of(2))
}

/// That a place lost nothing so, if it did not: asked of either cause.
pub(crate) fn none_failed(place: &UnansweredSyns) -> Option<Step> {
    let Some(netns) = place.firewall_netns() else {
        return Some(say!("no firewall of this host dropped a SYN to it"));
    };
    if UntrackedSyns::of(place).is_some() {
        return None;
    }
    let Some((failed, row)) = place.story.structures.conntrack(netns, "insert_failed") else {
        let told = place.story.health.has(&SourceName::Conntrack);
        return told
            .then(|| say!("connection tracking there counted none that it could not insert"));
    };
    Some(say!(
        "connection tracking counted {insert_failed} that it could not insert, of {dropped} dropped for it",
        insert_failed = Quantity::of(failed, "packet").rows([row]),
        dropped = Quantity::of(place.firewall_drops(), "SYN")
    ))
}

/// Connections of this host to the place with an entry: the fewest when a SYN was dropped, and the most, where
/// entries outlive their connections so long, ns; `None` where no client is here.
fn held(place: &UnansweredSyns, lingers_ns: u64) -> Option<(u64, u64)> {
    let story = place.story;
    let all = || story.all(&place.clients).map(|(_, c)| c);
    let made = || all().filter(|c| matches!(c.outcome, Outcome::Open | Outcome::Closed));
    let began = made().map(|c| c.established_ns.unwrap_or(c.start_ns));
    let mut began: Vec<u64> = began.collect();
    let until = made().filter_map(|c| Some(c.ended_ns?.saturating_add(lingers_ns)));
    let mut until: Vec<u64> = until.collect();
    began.sort_unstable();
    until.sort_unstable();
    let by = |times: &[u64], ns: u64| times.partition_point(|t| *t <= ns) as u64;
    let at = |ns: u64| by(&began, ns).saturating_sub(by(&until, ns));
    let least = all()
        .filter(|c| lost(c) > 0)
        .map(|c| at(c.start_ns))
        .min()?;
    let most = began.iter().map(|ns| at(*ns)).max().unwrap_or(0);
    Some((least, most.max(least)))
}

/// SYNs of a connect that nothing answered.
fn lost(conn: &Conn) -> u32 {
    let last = matches!(conn.outcome, Outcome::Pending | Outcome::Failed);
    conn.syn_retries.saturating_add(u32::from(last))
}

/// SYNs that connection tracking dropped, and what it could not insert: whatever took the entries.
pub(crate) fn rule_out(whole: &Whole) -> Verdict {
    let says = |lost: u64, rows: Vec<RowRef>, of: u64| {
        say!(
            "connection tracking dropped {dropped} of {opened}",
            dropped = Quantity::of(lost, "SYN").rows(rows),
            opened = Quantity::of(of, "connection that was opened or tried")
        )
    };
    let places = whole.silent().iter().filter(|p| p.firewall_drops() > 0).map(|place| {
        let netns = place.firewall_netns()?;
        let (lost, _) = place.untracked(netns);
        let of = place.times.total().max(place.passed()).saturating_add(place.firewall_drops());
        let failed = whole.story.structures.conntrack(netns, "insert_failed");
        let failed = failed.map(|(n, row)| {
            let step = say!(
                "connection tracking counted {insert_failed} that it could not insert, of {dropped} dropped for a place",
                insert_failed = Quantity::of(n, "packet").rows([row]),
                dropped = Quantity::of(lost, "SYN")
            );
            Test::share(n, lost, &limits::MOST, step)
        });
        let dropped = Test::events(lost, of, &limits::UNANSWERED, says(lost, place.firewall_rows(), of));
        every([dropped].into_iter().chain(failed))
    });
    let of = whole.opened();
    let none = || {
        every([Test::events(
            0,
            of,
            &limits::UNANSWERED,
            says(0, Vec::new(), of),
        )])
    };
    Verdict::nearest_or(places, none, NO_CONNECTION)
}
