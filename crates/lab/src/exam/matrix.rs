//! The confusion matrix: what was planted against what was named first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Sitting;

/// A row per cause that was planted, a column per cause that was planted or named.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// Ids of the columns; the rows are the same, in the same order, as far as they were planted.
    pub causes: Vec<String>,
    /// Per planted cause, how often each was named first.
    pub rows: BTreeMap<String, Vec<u64>>,
    /// Runs that failed, per planted cause.
    pub failed: BTreeMap<String, u64>,
}

impl Matrix {
    pub(super) fn of(sittings: &[Sitting]) -> Matrix {
        let mut causes: Vec<String> = Vec::new();
        let truths = sittings.iter().map(|s| &s.truth);
        for cause in truths.chain(sittings.iter().filter_map(|s| s.said.as_ref())) {
            if !causes.contains(cause) {
                causes.push(cause.clone());
            }
        }
        let mut matrix = Matrix {
            rows: BTreeMap::new(),
            failed: BTreeMap::new(),
            causes,
        };
        for sitting in sittings {
            let row = matrix.rows.entry(sitting.truth.clone());
            let row = row.or_insert_with(|| vec![0; matrix.causes.len()]);
            let said = |said| matrix.causes.iter().position(|c| c == said);
            match sitting.said.as_ref().and_then(said) {
                Some(column) => row[column] += 1,
                None => *matrix.failed.entry(sitting.truth.clone()).or_default() += 1,
            }
        }
        matrix
    }

    /// The rows in the order of the columns: cause, counts, failed runs.
    pub fn each(&self) -> impl Iterator<Item = (&str, &[u64], u64)> {
        self.causes.iter().filter_map(|cause| {
            let row = self.rows.get(cause)?;
            let failed = self.failed.get(cause).copied().unwrap_or(0);
            Some((cause.as_str(), row.as_slice(), failed))
        })
    }
}
