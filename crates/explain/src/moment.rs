//! The moment from which on a trouble is seen.

use analysis::Story;
use analysis::words::{duration, rounded};
use serde::{Deserialize, Serialize};

/// Since when a finding holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Since {
    /// After the start of the recording, s.
    pub after_start_s: f64,
    /// What the moment is.
    pub began: Began,
    /// The same in words.
    pub says: String,
}

/// What a moment is at which a trouble began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Began {
    /// It was there when the recording began.
    Before,
    /// The rate of what suffers broke.
    Broke,
    /// The symptom had been rare, and became frequent.
    Rose,
    /// The symptom was first seen.
    Seen,
}

impl Since {
    /// A moment in ns of CLOCK_MONOTONIC, and what it is.
    pub(crate) fn at(story: &Story, time_ns: u64, began: Began) -> Since {
        Since::after(time_ns.saturating_sub(story.start_ns), began)
    }

    fn after(after_ns: u64, began: Began) -> Since {
        let moment = || match after_ns {
            0 => "the very start".into(),
            after => format!("{} after the start", duration(after)),
        };
        let says = match began {
            Began::Before => "before the recording started".into(),
            Began::Broke => format!("{}, when the rate broke", moment()),
            Began::Rose => format!("{}, when it became frequent", moment()),
            Began::Seen => moment(),
        };
        Since {
            after_start_s: rounded(after_ns as f64 / 1e9),
            began,
            says,
        }
    }

    /// A moment of a part, as the whole recording counts it, which began `earlier_ns` before. What was there
    /// when the part began was first seen there.
    pub(crate) fn count_from(&mut self, earlier_ns: u64) {
        let began = match self.began {
            Began::Before if earlier_ns > 0 => Began::Seen,
            began => began,
        };
        let after_ns = (self.after_start_s * 1e9) as u64;
        *self = Since::after(after_ns.saturating_add(earlier_ns), began);
    }
}
