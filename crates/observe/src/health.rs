//! What the recorder says of itself while it runs: one table, written by several threads.

use std::sync::{Arc, Mutex};

use recording::tables::Health;
use recording::{Error, HealthKind, SourceName, TableWriter, Text, monotonic_ns};

/// The `health` table, shared. Rows are rare.
#[derive(Clone)]
pub struct HealthLog(Arc<Mutex<TableWriter<Health>>>);

impl HealthLog {
    /// A log into `table`.
    pub fn new(table: TableWriter<Health>) -> HealthLog {
        HealthLog(Arc::new(Mutex::new(table)))
    }

    /// Adds a row, sealed at once: what was lost must be known even after a crash.
    pub fn say(
        &self,
        source: SourceName,
        what: HealthKind,
        count: u64,
        detail: impl Into<Text>,
    ) -> Result<(), Error> {
        let mut table = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        table.push(Health {
            time_ns: monotonic_ns(),
            source,
            what,
            count,
            detail: detail.into(),
        })?;
        table.seal()
    }
}
