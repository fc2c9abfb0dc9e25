//! What the recorder says of itself.

use crate::Text;
use crate::table::table;
use crate::vocabulary::{HealthKind, SourceName};

table! {
    /// What the recorder says of itself: losses and changes of plan.
    Health = "health" {
        /// When it was noticed.
        time_ns: u64, Ns;
        /// Source concerned.
        source: SourceName, Name;
        /// What it says.
        what: HealthKind, Name;
        /// How many.
        count: u64, Count;
        /// In plain words.
        detail: Text, Note;
    }
}
