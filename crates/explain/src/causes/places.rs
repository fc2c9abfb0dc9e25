//! The place of a finding, and what its rivals look at when they are asked about it.

use std::cell::OnceCell;

use analysis::{ConnId, Endpoint, Story};

use super::losses::Losses;
use super::path::End;
use super::scene::Scene;
use super::unanswered_syns::UnansweredSyns;
use crate::finding::Step;

/// Where a case is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An address and port that connects go to; of a loopback address, in this namespace.
    At(Option<u32>, Endpoint),
    /// A listener of this host.
    Listener(u32),
    /// The ends that send over what is slow.
    Ends(Vec<ConnId>),
}

impl Place {
    /// The ends.
    pub(crate) fn ends(ends: &[End]) -> Place {
        Place::Ends(ends.iter().map(|e| e.id).collect())
    }

    /// Whether what is told of one is also told of the other.
    pub(crate) fn meets(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Ends(these), Place::Ends(those)) => these.iter().any(|id| those.contains(id)),
            _ => self == other,
        }
    }
}

/// A cause's answer when it is asked why it does not hold at the place of another one's finding: the
/// number that refutes it. `None` when nothing does.
pub(crate) type No = fn(&Asked) -> Option<Step>;

/// A place that causes are asked about; what several of them look at is derived once.
pub(crate) struct Asked<'a> {
    pub(crate) story: &'a Story,
    place: &'a Place,
    silent: OnceCell<Option<UnansweredSyns<'a>>>,
    losses: OnceCell<Option<Losses<'a>>>,
}

impl<'a> Asked<'a> {
    pub(crate) fn about(story: &'a Story, place: &'a Place) -> Asked<'a> {
        Asked {
            story,
            place,
            silent: OnceCell::new(),
            losses: OnceCell::new(),
        }
    }

    /// The connects to the place, and what was dropped of them.
    pub(crate) fn silent(&self) -> Option<&UnansweredSyns<'a>> {
        let silent = self.silent.get_or_init(|| match self.place {
            Place::At(netns, at) => Some(UnansweredSyns::at(self.story, *netns, *at)),
            Place::Listener(index) => {
                Scene::at(self.story, *index).map(UnansweredSyns::of_listener)
            }
            Place::Ends(_) => None,
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
            Place::At(..) | Place::Listener(_) => None,
        });
        losses.as_ref()
    }
}
