//! The corpus: recordings with their truth, against which a change of judgement is read. Each subject is planted,
//! recorded from every side from which something can be told of it, as severe as is just told and just not.

mod ladder;
mod look;
mod shelf;
mod subject;

pub use shelf::{CorpusShelf, RecordedTruth};
pub use subject::{Subject, subjects};

use crate::plant::require_root;
use crate::{Error, Programs, Stop, clean_leftovers};

/// What of a subject goes into the corpus.
#[derive(Debug, Default)]
pub struct Kept {
    /// The truth of each recording that was kept.
    pub truths: Vec<RecordedTruth>,
    /// How many times it was planted.
    pub looks: usize,
}

/// Records a subject, and keeps what belongs into the corpus. Wants root, and the calling thread to stay.
pub fn record_subject(
    subject: &Subject,
    programs: &Programs,
    shelf: &mut CorpusShelf,
    stop: &Stop,
) -> Result<Kept, Error> {
    require_root()?;
    clean_leftovers()?;
    shelf.forget(|recording| subject.holds(recording))?;
    match subject {
        Subject::Scenario(name) => ladder::record(name, programs, shelf, stop),
        Subject::Situation(situation) => look::record_situation(situation, programs, shelf, stop),
    }
}
