//! Copies a recording into few segments.

use crate::table::Table;
use crate::tables::{self, each_table};
use crate::{Error, Recording, Writer};

/// Rows of a segment: as many as are compressed together. Who looks for a time opens no more than he needs.
const ROWS: usize = 65_536;

macro_rules! copy_all {
    ($($table:ident,)+) => {
        fn copy_all(from: &Recording, to: &Writer) -> Result<(), Error> {
            $(copy::<tables::$table>(from, to)?;)+
            Ok(())
        }
    };
}
each_table!(copy_all);

impl Recording {
    /// Writes all that is read of it into another one, in as few segments as there can be.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or a disk that is full.
    pub fn copy_into(&self, writer: &Writer) -> Result<(), Error> {
        copy_all(self, writer)
    }
}

fn copy<T: Table>(from: &Recording, to: &Writer) -> Result<(), Error> {
    let mut copied = None;
    let mut rows = 0;
    for batch in from.scan::<T>()? {
        let batch = batch?;
        let table = match &mut copied {
            Some(table) => table,
            none => none.insert(to.table::<T>()?),
        };
        rows += batch.len();
        for (_, row) in batch.rows() {
            table.push(row)?;
        }
        if rows >= ROWS {
            rows = 0;
            table.seal()?;
        }
    }
    copied.map_or(Ok(()), |mut table| table.seal())
}
