//! What a table is, and the macro that declares one: row, schema, builders, reader and docs at once.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

/// The unit of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds; a point in time is one of CLOCK_MONOTONIC.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSec,
    /// TCP segments.
    Segments,
    /// A number of things.
    Count,
    /// A number that names something (a port, a pid, an inode).
    Id,
    /// A name or a text.
    Name,
    /// An IP address.
    Address,
    /// Yes or no.
    Flag,
    /// A TCP sequence number.
    Seq,
}

impl Unit {
    /// The unit as the documentation prints it.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Us => "µs",
            Unit::Ms => "ms",
            Unit::Bytes => "bytes",
            Unit::BytesPerSec => "bytes/s",
            Unit::Segments => "segments",
            Unit::Count => "count",
            Unit::Id => "id",
            Unit::Name => "name",
            Unit::Address => "address",
            Unit::Flag => "yes/no",
            Unit::Seq => "sequence number",
        }
    }
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The column's name; part of the format.
    pub name: &'static str,
    /// The type's name, as in the docs.
    pub type_name: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// What it says.
    pub doc: &'static str,
    /// What null means; `None` when the column is never null.
    pub null: Option<&'static str>,
}

impl Column {
    /// Whether the values are numbers: neither texts nor addresses, which are dictionaries.
    pub fn is_number(&self) -> bool {
        !matches!(self.unit, Unit::Name | Unit::Address)
    }
}

/// A table's name, documentation and columns, without its row type.
#[derive(Clone, Copy, Debug)]
pub struct TableInfo {
    /// The table's name; also the name of its directory.
    pub name: &'static str,
    /// What one row is.
    pub doc: &'static str,
    /// The columns in order.
    pub columns: &'static [Column],
}

/// A row type declared with [`table!`](crate::table).
pub trait Table: Sized + Send + 'static {
    /// Name, documentation and columns.
    const INFO: TableInfo;
    /// Collects rows into columns.
    type Builder: Default + Send;
    /// Reads rows back from columns.
    type Reader;

    /// The Arrow schema of a segment.
    fn schema() -> SchemaRef;
    /// When the row happened or was sampled, ns of CLOCK_MONOTONIC.
    fn time_ns(&self) -> u64;
    /// Adds one row.
    fn append(self, builder: &mut Self::Builder);
    /// Ends the columns and leaves the builder empty.
    fn finish(builder: &mut Self::Builder) -> Vec<ArrayRef>;
    /// Opens a batch for reading; the error is the name of the column that is missing or of
    /// another type.
    fn reader(batch: &RecordBatch) -> Result<Self::Reader, &'static str>;
    /// The row at `row`, which must be within the batch.
    fn get(reader: &Self::Reader, row: usize) -> Self;
    /// Its columns that are not null, in order: name, and value without its unit.
    fn cells(&self) -> Vec<(&'static str, String)>;
}

/// Declares a table once. Each column: doc comment, name, type, unit and, for an `Option`, what
/// null means. The first column must be `time_ns: u64, Ns`.
macro_rules! table {
    (
        #[doc = $table_doc:literal] $(#[doc = $table_more:literal])*
        $row:ident = $name:literal {
            $( $(#[doc = $doc:literal])+ $col:ident : $ty:ty , $unit:ident $(, null $null:literal)? ; )+
        }
    ) => {
        #[doc = $table_doc] $(#[doc = $table_more])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
        pub struct $row { $( $(#[doc = $doc])+ pub $col: $ty, )+ }

        const _: () = {
            use std::sync::{Arc, LazyLock};
            use arrow::array::{ArrayRef, RecordBatch};
            use arrow::datatypes::{Field, Schema, SchemaRef};
            use $crate::cell::Cell;
            use $crate::table::{Column, Table, TableInfo, Unit};

            const COLUMNS: &[Column] = &[ $( Column {
                name: stringify!($col),
                type_name: <$ty as Cell>::TYPE,
                unit: Unit::$unit,
                doc: concat!($($doc),+),
                null: table!(@null $($null)?),
            }, )+ ];
            // A column is nullable exactly when its declaration says what null means.
            $( const _: () = assert!(
                <$ty as Cell>::NULLABLE == table!(@null $($null)?).is_some(),
                concat!("say what null means, or use no Option: ", stringify!($col)),
            ); )+

            static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
                Arc::new(Schema::new(vec![ $( Field::new(
                    stringify!($col), <$ty as Cell>::data_type(), <$ty as Cell>::NULLABLE,
                ), )+ ]))
            });

            #[derive(Default)]
            pub struct Builder { $( pub $col: <$ty as Cell>::Builder, )+ }
            pub struct Reader { $( pub $col: <$ty as Cell>::Reader, )+ }

            impl Table for $row {
                const INFO: TableInfo = TableInfo {
                    name: $name,
                    doc: concat!($table_doc $(, $table_more)*),
                    columns: COLUMNS,
                };
                type Builder = Builder;
                type Reader = Reader;

                fn schema() -> SchemaRef { SCHEMA.clone() }
                fn time_ns(&self) -> u64 { self.time_ns }
                fn append(self, b: &mut Builder) { $( Cell::append(self.$col, &mut b.$col); )+ }
                fn finish(b: &mut Builder) -> Vec<ArrayRef> {
                    vec![ $( <$ty as Cell>::finish(&mut b.$col), )+ ]
                }
                fn reader(batch: &RecordBatch) -> Result<Reader, &'static str> {
                    Ok(Reader { $( $col: batch
                        .column_by_name(stringify!($col))
                        .and_then(<$ty as Cell>::reader)
                        .ok_or(stringify!($col))?, )+ })
                }
                fn get(r: &Reader, row: usize) -> Self {
                    $row { $( $col: <$ty as Cell>::get(&r.$col, row), )+ }
                }
                fn cells(&self) -> Vec<(&'static str, String)> {
                    let all = [ $( (stringify!($col), Cell::shown(&self.$col)), )+ ];
                    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
                }
            }
        };
    };
    (@null) => { None::<&str> };
    (@null $null:literal) => { Some($null) };
}
pub(crate) use table;
