//! A whole recording that causes are asked about. Counts that several of them need are made once.

use std::cell::OnceCell;
use std::rc::Rc;

use ahash::AHashMap;
use analysis::{Conn, Group, Story, What, is_firewall};
use recording::{RowRef, counter};

use crate::inquiry::Inquiry;
use crate::limits::Limit;
use crate::places::listener::{ListenerPlace, SHOWN_ROWS, listener_places};
use crate::places::losses::Losses;
use crate::places::lost_answers::{self, LostAnswers};
use crate::places::path::{End, ends, paths};
use crate::places::refusals::{self, Refusals};
use crate::places::unanswered_syns::{self, UnansweredSyns};
use crate::say::{Quantity, say};
use crate::verdict::{Answered, Test, Verdict, every};

/// A cause's answer for a whole recording in which it was not found: the number that refutes it everywhere, measured
/// against the limits that a finding needs, or why it cannot tell.
pub(crate) type RuleOut = fn(&Whole) -> Verdict;

/// A recording that causes are asked about.
pub struct Whole<'a> {
    pub(crate) story: &'a Story,
    pub(crate) inquiry: Inquiry<'a>,
    paths: OnceCell<Vec<Rc<Losses<'a>>>>,
    ends: OnceCell<Vec<End<'a>>>,
    syns: OnceCell<Vec<Rc<UnansweredSyns<'a>>>>,
    refused: OnceCell<Vec<Refusals<'a>>>,
    answers: OnceCell<Vec<LostAnswers<'a>>>,
}

impl<'a> Whole<'a> {
    pub(crate) fn of(story: &'a Story, inquiry: Inquiry<'a>) -> Whole<'a> {
        Whole {
            story,
            inquiry,
            paths: OnceCell::new(),
            ends: OnceCell::new(),
            syns: OnceCell::new(),
            refused: OnceCell::new(),
            answers: OnceCell::new(),
        }
    }

    /// What is derived from it.
    pub fn story(&self) -> &'a Story {
        self.story
    }

    /// Every end that was sampled.
    pub(crate) fn ends(&self) -> &[End<'a>] {
        self.ends.get_or_init(|| ends(self.story).collect())
    }

    /// What was lost on each path that leaves its host.
    pub(crate) fn losses(&self) -> &[Rc<Losses<'a>>] {
        self.paths.get_or_init(|| {
            let paths = paths(self.story);
            paths.iter().map(|path| Rc::new(path.losses())).collect()
        })
    }

    /// Every place where SYNs were unanswered or were dropped on this host.
    pub(crate) fn silent(&self) -> &[Rc<UnansweredSyns<'a>>] {
        self.syns.get_or_init(|| {
            let places = unanswered_syns::places(self.story);
            places.into_iter().map(Rc::new).collect()
        })
    }

    /// Every place where connects were refused.
    pub(crate) fn refused(&self) -> &[Refusals<'a>] {
        self.refused.get_or_init(|| refusals::places(self.story))
    }

    /// Every listener whose answers to SYNs get lost.
    pub(crate) fn lost_answers(&self) -> &[LostAnswers<'a>] {
        self.answers
            .get_or_init(|| lost_answers::places(self.story, self.silent()))
    }

    /// Connects of this host.
    pub(crate) fn connects(&self) -> u64 {
        let connects = |c: &&Conn| c.connects();
        self.story.conns.iter().filter(connects).count() as u64
    }

    /// Connects of this host and incoming connections, plus the SYNs that were dropped here.
    pub(crate) fn opened(&self) -> u64 {
        let known = self.story.conns.len() as u64;
        known.saturating_add(self.syns_dropped(|_| true).0)
    }

    /// The SYNs dropped here that match a predicate, with some of their rows.
    fn syns_dropped(&self, counts: impl Fn(&Group) -> bool) -> (u64, Vec<RowRef>) {
        let groups = self.story.packets.all().iter();
        let groups = groups.filter(|g| g.what == What::SynDropped && counts(g));
        let rows = groups.clone().flat_map(|g| g.rows.iter().copied());
        let rows = rows.take(SHOWN_ROWS).collect();
        (groups.map(|g| g.count).sum(), rows)
    }

    /// SYNs that firewalls of this host dropped.
    pub(crate) fn firewalled(&self) -> Quantity {
        let (n, rows) = self.syns_dropped(|g| g.reason.as_deref().is_some_and(is_firewall));
        Quantity::of(n, "SYN").rows(rows)
    }

    /// Packets that this host saw, by its counters or else by its connections.
    pub(crate) fn packets(&self) -> u64 {
        let counters = &self.story.counters;
        let counted = [counter::IN_SEGS, counter::OUT_SEGS];
        let counted = counted.iter().flat_map(|name| counters.rises(name));
        let counted = counted.fold(0, |sum: u64, (_, rise)| sum.saturating_add(rise.by));
        let sent = self.ends().iter().map(|e| e.transfer.segments());
        let sent = sent.fold(0, u64::saturating_add);
        counted.max(sent).max(self.opened())
    }

    /// For each namespace, the rise of a counter against another one that counts everything it could have happened to.
    pub(crate) fn counted(
        &self,
        name: &str,
        of: &str,
        limit: &'static Limit,
        share: Option<&'static Limit>,
    ) -> Vec<Option<Answered>> {
        let counters = &self.story.counters;
        let all = counters.rises(of).into_iter().map(|(netns, whole)| {
            let rise = counters.rise(netns, name);
            let says = || {
                say!(
                    "{short} rose by {rise_by}, {of_short} by {whole_by}",
                    short = Quantity::new(counter::short(name), counter::short(name)),
                    rise_by = Quantity::count(rise.by).rows(rise.rows()),
                    of_short = Quantity::new(counter::short(of), counter::short(of)),
                    whole_by = Quantity::count(whole.by).rows(whole.rows())
                )
            };
            let of = whole.by.max(rise.by);
            let share = share.map(|limit| Test::share(rise.by, of, limit, says()));
            every(
                [Test::events(rise.by, of, limit, says())]
                    .into_iter()
                    .chain(share),
            )
        });
        all.collect()
    }

    /// Listeners of this host.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = ListenerPlace<'a>> + use<'a> {
        listener_places(self.story)
    }

    /// Tests the losses of each path against the limits of a cause.
    pub(crate) fn on_paths(&self, tests: impl Fn(&Losses<'a>) -> Option<Answered>) -> Verdict {
        Verdict::nearest(self.losses().iter().map(|losses| tests(losses)), NO_PATH)
    }

    /// The size of the largest group of equal keys.
    pub(crate) fn most_by<K: std::hash::Hash + Eq>(all: impl Iterator<Item = K>) -> u64 {
        let mut by: AHashMap<K, u64> = AHashMap::new();
        for key in all {
            *by.entry(key).or_default() += 1;
        }
        by.into_values().max().unwrap_or(0)
    }
}

/// Why a cause cannot tell when there was nothing to examine.
pub(crate) const NO_PATH: &str = "no connection to another host sent enough to judge its path";
pub(crate) const NO_CONNECT: &str = "no connection was opened from this host";
pub(crate) const NO_CONNECTION: &str = "no connection was opened or tried";
pub(crate) const NO_ARRIVAL: &str = "no connection came to a listener of this host";
pub(crate) const NO_PACKET: &str = "no packet was counted";
pub(crate) const NO_TRANSFER: &str = "no sampled connection moved much data";
pub(crate) const NOT_COUNTED: &str = "the counters that would show it were not read";
