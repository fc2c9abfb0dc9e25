//! The types that a column may have, and how each becomes Arrow and comes back.

mod addrs;
mod bools;
mod numbers;
mod texts;
mod value;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

pub use texts::TextBuilder;
pub use value::Value;

/// A value that one column of a table holds: knows its Arrow type and both directions.
pub trait Cell: Sized {
    /// Whether the column may hold null.
    const NULLABLE: bool;
    /// The type's name in the documentation.
    const TYPE: &'static str;
    /// Collects values of a column that is being written.
    type Builder: Default + Send;
    /// A column that is being read, already checked to be of the right type.
    type Reader;

    /// The Arrow type of the column.
    fn data_type() -> DataType;
    /// Adds one value to the column being written.
    fn append(self, builder: &mut Self::Builder);
    /// Adds values to the column being written; the loop over one column is what is fast.
    #[inline]
    fn extend(builder: &mut Self::Builder, values: impl Iterator<Item = Self>) {
        values.for_each(|value| value.append(builder));
    }
    /// Ends the column being written and leaves the builder empty.
    fn finish(builder: &mut Self::Builder) -> ArrayRef;
    /// Opens a column for reading; `None` when its type is not this cell's.
    fn reader(array: &ArrayRef) -> Option<Self::Reader>;
    /// The value in `row`, which must be within the column.
    fn get(reader: &Self::Reader, row: usize) -> Self;
    /// The value, whatever its type.
    fn value(&self) -> Value<'_>;
}
