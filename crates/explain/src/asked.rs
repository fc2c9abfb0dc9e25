//! A place about which causes are asked why they do not hold where another one does.

use std::cell::OnceCell;
use std::rc::Rc;

use ahash::AHashSet;
use analysis::account::exchanged_ns;
use analysis::{Conn, Story, Way};
use recording::SourceName;

use crate::finding::Step;
use crate::limits;
use crate::place::{Place, SlowCalls};
use crate::places::listener::ListenerPlace;
use crate::places::losses::Losses;
use crate::places::options::WithoutOptions;
use crate::places::path::{End, sample_rows};
use crate::places::port_search::Destination;
use crate::places::process::connections;
use crate::places::refusals::Refusals;
use crate::places::reset_ends::ResetEnds;
use crate::places::slow_exchanges;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::say::{Quantity, say};

/// A cause's answer when it is asked why it does not hold at the place of another cause's finding: the number that
/// refutes it, or `None` if nothing does.
pub(crate) type No = fn(&Asked) -> Option<Step>;

/// A place that causes are asked about. What several of them need is derived once.
pub(crate) struct Asked<'a> {
    pub(crate) story: &'a Story,
    pub(crate) place: &'a Place,
    silent: OnceCell<Option<Rc<UnansweredSyns<'a>>>>,
    losses: OnceCell<Option<Rc<Losses<'a>>>>,
    refusals: OnceCell<Option<Refusals<'a>>>,
    resets: OnceCell<Option<ResetEnds<'a>>>,
    destination: OnceCell<Option<Rc<Destination<'a>>>>,
}

impl<'a> Asked<'a> {
    pub(crate) fn about(story: &'a Story, place: &'a Place) -> Asked<'a> {
        Asked {
            story,
            place,
            silent: OnceCell::new(),
            losses: OnceCell::new(),
            refusals: OnceCell::new(),
            resets: OnceCell::new(),
            destination: OnceCell::new(),
        }
    }

    /// The connects to the place, and which of them were dropped.
    pub(crate) fn silent(&self) -> Option<&Rc<UnansweredSyns<'a>>> {
        let silent = self.silent.get_or_init(|| {
            let silent = match self.place {
                Place::At(netns, at) => Some(UnansweredSyns::at(self.story, *netns, *at)),
                Place::LocalPorts(netns, _, to) => {
                    let netns = to.is_loopback().then_some(*netns);
                    Some(UnansweredSyns::at(self.story, netns, *to))
                }
                Place::Listener(index)
                | Place::Service {
                    listener: Some(index),
                    ..
                } => ListenerPlace::at(self.story, *index).map(UnansweredSyns::of_listener),
                Place::WithoutOptions(_) => {
                    let here = self.without_options()?.listener_place()?;
                    Some(UnansweredSyns::of_listener(here))
                }
                _ => None,
            };
            silent.map(Rc::new)
        });
        silent.as_ref()
    }

    /// The listener that the place is about.
    pub(crate) fn listener(&self) -> Option<ListenerPlace<'a>> {
        match self.place {
            Place::Listener(index)
            | Place::Service {
                listener: Some(index),
                ..
            } => ListenerPlace::at(self.story, *index),
            _ => None,
        }
    }

    /// The losses of the sending ends, with those ends; also `None` if retransmissions were not recorded.
    pub(crate) fn losses(&self) -> Option<&Rc<Losses<'a>>> {
        if !self.story.health.has(&SourceName::Retransmits) {
            return None;
        }
        let losses = self.losses.get_or_init(|| {
            let losses = match self.place {
                Place::Ends(ids) | Place::Service { ids, .. } => {
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
            };
            losses.map(Rc::new)
        });
        losses.as_ref()
    }

    /// The refused connects to the place, if any.
    pub(crate) fn refusals(&self) -> Option<&Refusals<'a>> {
        let refusals = self.refusals.get_or_init(|| match self.place {
            Place::At(netns, at) => Refusals::at(self.story, *netns, *at),
            _ => None,
        });
        refusals.as_ref()
    }

    /// The connections that were ended by resets.
    pub(crate) fn resets(&self) -> Option<&ResetEnds<'a>> {
        let resets = self.resets.get_or_init(|| match self.place {
            Place::Resets(ids) => Some(ResetEnds::of(self.story, ids)),
            _ => None,
        });
        resets.as_ref()
    }

    /// The connections without TCP options.
    pub(crate) fn without_options(&self) -> Option<WithoutOptions<'a>> {
        match self.place {
            Place::WithoutOptions(ids) => Some(WithoutOptions::of(self.story, ids)),
            _ => None,
        }
    }

    /// Shows that SYNs were answered, even if with a reset: nothing dropped them.
    pub(crate) fn answered(&self) -> Option<Step> {
        match (self.refusals(), self.resets()) {
            (Some(refusals), _) => refusals.answered(),
            (None, resets) => resets?.answered(),
        }
    }

    /// For sending ends: the number of connections between their addresses, and how many of these retransmitted their
    /// SYN.
    pub(crate) fn on_the_way(&self) -> Option<(u64, u64)> {
        let way = |c: &Conn| (c.netns, c.local.addr, c.remote.addr);
        let ways: AHashSet<Way> = self.losses()?.ends.iter().map(|e| way(e.conn)).collect();
        let there = ways.iter().flat_map(|way| self.story.on_way(*way));
        let retried = there.clone().filter(|(_, c)| c.syn_retries > 0);
        Some((there.count() as u64, retried.count() as u64))
    }

    /// The connects that needed local ports.
    pub(crate) fn destination(&self) -> Option<&Rc<Destination<'a>>> {
        let destination = self.destination.get_or_init(|| match self.place {
            Place::LocalPorts(netns, from, to) => {
                Destination::of(self.story, *netns, *from, *to).map(Rc::new)
            }
            _ => None,
        });
        destination.as_ref()
    }

    /// The slow calls.
    pub(crate) fn calls(&self) -> Option<SlowCalls> {
        match self.place {
            Place::Calls(calls) => Some(calls.clone()),
            _ => self.destination()?.slow_calls(),
        }
    }

    /// For requests: shows that loss repair was no part of their time.
    pub(crate) fn not_repaired(&self) -> Option<Step> {
        let all = slow_exchanges::at(self.story, self.place)?;
        let (repair_ns, whole_ns) = (all.all.repair_ns, exchanged_ns(&all.all));
        (!limits::SMALL_PART.exceeded(repair_ns, whole_ns)).then(|| {
            say!(
                "loss repair took {repair_ms} of the {whole_ms} of its requests, and {retransmitted} were retransmitted",
                repair_ms = Quantity::ns(repair_ns),
                whole_ms = Quantity::ns(whole_ns).rows(all.busiest),
                retransmitted = Quantity::of(all.all.retransmits, "segment")
            )
        })
    }

    /// For requests: shows that the threads that worked on them got a CPU when they wanted one.
    pub(crate) fn had_a_cpu(&self) -> Option<Step> {
        let all = slow_exchanges::at(self.story, self.place)?;
        let (alone_ns, waited_ns) = (all.all.think_alone_ns, all.all.think_runqueue_ns);
        let told = alone_ns > 0 && !limits::SMALL_PART.exceeded(waited_ns, alone_ns);
        told.then(|| {
            say!(
                "its threads waited {waited_ms} for a CPU during {think_ms} of service time",
                think_ms = Quantity::ns(alone_ns).rows(all.busiest),
                waited_ms = Quantity::ns(waited_ns)
            )
        })
    }

    /// For requests: shows that windows and unread data were no part of their time.
    pub(crate) fn not_held_back(&self) -> Option<Step> {
        let all = slow_exchanges::at(self.story, self.place)?;
        let (send_ns, unread_ns) = (all.all.send_ns, all.all.unread_ns);
        let whole_ns = exchanged_ns(&all.all);
        let held_ns = send_ns.saturating_add(unread_ns);
        (!limits::SMALL_PART.exceeded(held_ns, whole_ns)).then(|| {
            say!(
                "windows held back {send_ms} of the {whole_ms} of its requests, and data waited unread for {unread_ms}",
                whole_ms = Quantity::ns(whole_ns).rows(all.busiest),
                send_ms = Quantity::ns(send_ns),
                unread_ms = Quantity::ns(unread_ns)
            )
        })
    }

    /// For ends whose senders are on other hosts: shows that the path had delivered the data that waited here to be
    /// read.
    pub(crate) fn brought(&self) -> Option<Step> {
        let Place::Receivers(ids) = self.place else {
            return None;
        };
        let ends = ids.iter().filter_map(|id| End::of(self.story, *id));
        let ends: Vec<End> = ends.collect();
        let sum = |of: fn(&End) -> u32| Quantity::count(ends.iter().map(of).sum::<u32>());
        Some(say!(
            "{unread} of {samples} samples found unread data here: the path had delivered it",
            unread = sum(|e| e.transfer.unread),
            samples = sum(|e| e.transfer.samples).rows(sample_rows(&ends))
        ))
    }
}
