//! Where a row of a recording is, in words and back.

use std::fmt;
use std::str::FromStr;

use crate::tables;

/// Where a row is: the evidence behind a finding points to rows with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowRef {
    /// Table name.
    pub table: &'static str,
    /// Number of the segment file.
    pub segment: u32,
    /// Row within the segment, from 0.
    pub row: u32,
}

impl fmt::Display for RowRef {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{:06}#{}", self.table, self.segment, self.row)
    }
}

/// As it prints: `event/000003#17`.
impl FromStr for RowRef {
    type Err = String;

    fn from_str(text: &str) -> Result<RowRef, String> {
        let parts = || {
            let (table, place) = text.split_once('/')?;
            let (segment, row) = place.split_once('#')?;
            Some((table, segment.parse().ok()?, row.parse().ok()?))
        };
        let (table, segment, row) = parts().ok_or_else(|| {
            format!(
                "{text:?} is not a valid row; a row is TABLE/SEGMENT#ROW, such as event/000003#17"
            )
        })?;
        let known = tables::ALL.iter().find(|t| t.name == table);
        let known = known.ok_or_else(|| {
            let all: Vec<_> = tables::ALL.iter().map(|t| t.name).collect();
            format!(
                "{text:?} is not a valid row: no table {table:?}; the tables are {}",
                all.join(", ")
            )
        })?;
        Ok(RowRef {
            table: known.name,
            segment,
            row,
        })
    }
}
