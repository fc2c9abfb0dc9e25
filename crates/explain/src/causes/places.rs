//! The place of a finding, and what its rivals look at when they are asked about it.

use std::cell::OnceCell;

use analysis::{Endpoint, Story};

use super::scene::Scene;
use super::silent::Silent;
use crate::finding::Step;

/// Where a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An address and port that connects go to; of a loopback address, in this namespace.
    At(Option<u32>, Endpoint),
    /// A listener of this host.
    Listener(u32),
}

/// A cause's answer when it is asked why it does not hold at the place of another one's finding: the
/// number that refutes it. `None` when nothing does.
pub(crate) type No = fn(&Asked) -> Option<Step>;

/// A place that causes are asked about; what several of them look at is derived once.
pub(crate) struct Asked<'a> {
    pub(crate) story: &'a Story,
    place: Place,
    silent: OnceCell<Silent<'a>>,
}

impl<'a> Asked<'a> {
    pub(crate) fn about(story: &'a Story, place: Place) -> Asked<'a> {
        Asked {
            story,
            place,
            silent: OnceCell::new(),
        }
    }

    /// The connects to the place, and what was dropped of them.
    pub(crate) fn silent(&self) -> &Silent<'a> {
        self.silent.get_or_init(|| match self.place {
            Place::At(netns, at) => Silent::at(self.story, netns, at),
            Place::Listener(index) => match Scene::at(self.story, index) {
                Some(scene) => Silent::of_listener(scene),
                None => Silent::at(self.story, None, Endpoint::default()),
            },
        })
    }
}
