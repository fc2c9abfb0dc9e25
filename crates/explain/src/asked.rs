//! A place that causes are asked about: why they do not hold where another one does.

use std::cell::OnceCell;

use analysis::Story;

use crate::finding::Step;
use crate::place::{Place, SlowCalls};
use crate::places::listener::Scene;
use crate::places::losses::Losses;
use crate::places::path::{End, sample_rows};
use crate::places::port_search::Destination;
use crate::places::process::connections;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::say::{Quantity, say};

/// A cause's answer when it is asked why it does not hold at the place of another one's finding: the
/// number that refutes it. `None` when nothing does.
pub(crate) type No = fn(&Asked) -> Option<Step>;

/// A place that causes are asked about; what several of them look at is derived once.
pub(crate) struct Asked<'a> {
    pub(crate) story: &'a Story,
    pub(crate) place: &'a Place,
    silent: OnceCell<Option<UnansweredSyns<'a>>>,
    losses: OnceCell<Option<Losses<'a>>>,
    destination: OnceCell<Option<Destination<'a>>>,
}

impl<'a> Asked<'a> {
    pub(crate) fn about(story: &'a Story, place: &'a Place) -> Asked<'a> {
        Asked {
            story,
            place,
            silent: OnceCell::new(),
            losses: OnceCell::new(),
            destination: OnceCell::new(),
        }
    }

    /// The connects to the place, and what was dropped of them.
    pub(crate) fn silent(&self) -> Option<&UnansweredSyns<'a>> {
        let silent = self.silent.get_or_init(|| match self.place {
            Place::At(netns, at) => Some(UnansweredSyns::at(self.story, *netns, *at)),
            Place::LocalPorts(netns, _, to) => {
                let netns = to.is_loopback().then_some(*netns);
                Some(UnansweredSyns::at(self.story, netns, *to))
            }
            Place::Listener(index) => {
                Scene::at(self.story, *index).map(UnansweredSyns::of_listener)
            }
            _ => None,
        });
        silent.as_ref()
    }

    /// What the ends that send lost, with those ends.
    pub(crate) fn losses(&self) -> Option<&Losses<'a>> {
        let losses = self.losses.get_or_init(|| match self.place {
            Place::Ends(ids) => {
                let ends = ids.iter().filter_map(|id| End::of(self.story, *id));
                Some(Losses::of(self.story, ends.collect()))
            }
            Place::Process(pid) => {
                let conns = connections(self.story, *pid).into_iter();
                let ends: Vec<End> = conns
                    .filter_map(|(id, _)| End::of(self.story, id))
                    .collect();
                (!ends.is_empty()).then(|| Losses::of(self.story, ends))
            }
            _ => None,
        });
        losses.as_ref()
    }

    /// The connects that local ports were wanted for.
    pub(crate) fn destination(&self) -> Option<&Destination<'a>> {
        let destination = self.destination.get_or_init(|| match self.place {
            Place::LocalPorts(netns, from, to) => Destination::of(self.story, *netns, *from, *to),
            _ => None,
        });
        destination.as_ref()
    }

    /// The calls that took long.
    pub(crate) fn calls(&self) -> Option<SlowCalls> {
        match self.place {
            Place::Calls(calls) => Some(calls.clone()),
            _ => self.destination()?.slow_calls(),
        }
    }

    /// Of ends whose senders are elsewhere: that the path had brought what waited here to be read.
    pub(crate) fn brought(&self) -> Option<Step> {
        let Place::Receivers(ids) = self.place else {
            return None;
        };
        let ends = ids.iter().filter_map(|id| End::of(self.story, *id));
        let ends: Vec<End> = ends.collect();
        let sum = |of: fn(&End) -> u32| Quantity::count(ends.iter().map(of).sum::<u32>());
        Some(say!(
            "{unread} of {samples} samples found data here that was not read: the path had brought it",
            unread = sum(|e| e.transfer.unread),
            samples = sum(|e| e.transfer.samples).rows(sample_rows(&ends))
        ))
    }
}
