//! What the recorder says of itself.

use crate::cell::Text;
use crate::table::table;

table! {
    /// What the recorder says of itself: losses and changes of plan.
    Health = "health" {
        /// When it was noticed.
        time_ns: u64, Ns;
        /// Source concerned.
        source: Text, Name;
        /// `lost` (count records), `dropped` (count records found no place), `partial` (something could not be read), `slowed` (sampled less often), `late` (began later than it should have).
        what: Text, Name;
        /// How many.
        count: u64, Count;
        /// In plain words.
        detail: Text, Note;
    }
}
