//! What a cause is: a class of reasons for which TCP is slow or fails, declared once.

use std::borrow::Cow;

use recording::SourceName;

use crate::asked::No;
use crate::correlated_counters::Symptom;
use crate::found::Found;
use crate::id::Id;
use crate::layer::Layer;
use crate::verdict::Verdict;
use crate::whole::{RuleOut, Whole};

/// A class of reasons for which TCP is slow or fails.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// Stable name in commands, JSON and docs.
    pub id: Id,
    /// Its number in the book.
    pub number: &'static str,
    /// What it is, as a heading.
    pub title: &'static str,
    /// Its page of the book, Markdown without the heading.
    pub page: &'static str,
    /// Whose trouble it is, where a case does not say otherwise.
    pub layer: Layer,
    /// Where it shows.
    pub ground: Ground,
    /// What must have been recorded: at least one source of each of these lists.
    pub needs: &'static [&'static [SourceName]],
    /// From which severity on it is a finding, in words.
    pub seen_from: fn() -> Cow<'static, str>,
    /// What people see of it, in the words in which they search: `40 ms gaps`.
    pub signature: &'static [&'static str],
    /// Its look-alikes: each must say why it does not hold where this one does.
    pub rivals: &'static [Id],
    /// Causes whose findings at its places are its consequences: told under it, never beside it.
    pub explains: &'static [Id],
    /// The event that its findings may be several views of: they are told as one.
    pub told_with: Option<ToldWith>,
    /// Why it does not hold at a place, when it is asked; `None` as long as others answer for it.
    pub(crate) no: Option<No>,
    /// Which number refutes it in a whole recording in which it was not found, or why it cannot be told.
    pub(crate) rule_out: RuleOut,
    /// The symptom that counters are held against, to see which moved with it; `None` when it is not an event.
    pub(crate) symptom: Option<Symptom>,
    pub(crate) find: fn(&Whole) -> Found,
}

impl Cause {
    /// A custom cause, which looks at the host as a whole and needs nothing in particular: set what differs.
    pub fn new(id: Id, title: &'static str, find: fn(&Whole) -> Found) -> Cause {
        Cause {
            id,
            number: "",
            title,
            page: "",
            layer: Layer::ThisHost,
            ground: Ground::Host,
            needs: &[],
            seen_from: || "".into(),
            signature: &[],
            rivals: &[],
            explains: &[],
            told_with: None,
            no: None,
            rule_out: |_| Verdict::cannot("nothing in the recording refutes it"),
            symptom: None,
            find,
        }
    }
}

/// One event that shows as several findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToldWith {
    /// The stop of a process. Whatever waits for it is one finding, over all causes that declare this.
    Stop,
    /// The trouble of what several paths share: the findings of one cause on most of them are one. The text says what
    /// the affected paths do.
    Paths(&'static str),
    /// A reader at the far end of a path. Paths do not share it, so each is told alone.
    Readers,
}

/// Where a cause shows, and so what must have been there to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ground {
    /// On the host as a whole.
    Host,
    /// In how connections are opened and closed, at either end.
    Connections,
    /// Only at the end that listens.
    Listeners,
    /// In samples of connections that move data.
    Transfers,
    /// In requests that come to this host.
    Answers,
    /// In requests that go out from it.
    Requests,
}

/// What must have been recorded to see connects that connection tracking drops.
pub(crate) const CONNTRACK_DROPS: &[&[SourceName]] = &[
    &[SourceName::States],
    &[SourceName::Drops],
    &[SourceName::Conntrack],
];
/// The same of connects that a queue of a listener has no room for.
pub(crate) const LISTENER_DROPS: &[&[SourceName]] = &[
    &[SourceName::Sockets],
    &[SourceName::Drops, SourceName::Counters],
];
