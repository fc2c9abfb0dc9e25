//! What a table is, and the macro that declares one: row, schema, builders, reader and docs at once.

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::SchemaRef;

use crate::cell::{Cell, Value};

/// The unit of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// A name or a text that is the kernel's, or tcpwhy's own.
    Name,
    /// The name of a program or a thread.
    Program,
    /// A command line: whatever looks like a secret in it is `***`.
    CommandLine,
    /// The path of a cgroup.
    Cgroup,
    /// The name of a host.
    Host,
    /// A file of a program; or the name of a part of the kernel, which has no `/`.
    File,
    /// One of several things of a kind: a cgroup's path, `comm/pid` of a process, or a plain name.
    Instance,
    /// In plain words.
    Note,
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
            Unit::Name | Unit::Instance => "name",
            Unit::Program => "program's name",
            Unit::CommandLine => "command line",
            Unit::Cgroup => "cgroup's path",
            Unit::Host => "host's name",
            Unit::File => "file",
            Unit::Note => "text",
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
        use Unit::{Address, Cgroup, CommandLine, File, Host, Instance, Name, Note, Program};
        !matches!(
            self.unit,
            Name | Program | CommandLine | Cgroup | Host | File | Instance | Note | Address
        )
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

/// A row type that this crate declares; [`tables`](crate::tables) has them all.
pub trait Table: Columnar + Send + 'static {
    /// Name, documentation and columns.
    const INFO: TableInfo;

    /// When the row happened or was sampled, ns of CLOCK_MONOTONIC.
    fn time_ns(&self) -> u64;
    /// Its columns in order: name and value.
    fn cells(&self) -> Vec<(&'static str, Value<'_>)>;
}

/// A row type as columns of Arrow, which makes a release with other types every few months: no part of
/// what this crate promises.
#[doc(hidden)]
pub trait Columnar: Sized {
    /// Collects rows into columns.
    type Builder: Default + Send;
    /// Reads rows back from columns.
    type Reader;

    /// The Arrow schema of a segment.
    fn schema() -> SchemaRef;
    /// Adds one row.
    fn append(self, builder: &mut Self::Builder);
    /// Ends the columns and leaves the builder empty.
    fn finish(builder: &mut Self::Builder) -> Vec<ArrayRef>;
    /// Opens a batch for reading; the error is the name of the column that is missing or of
    /// another type.
    fn reader(batch: &RecordBatch) -> Result<Self::Reader, &'static str>;
    /// The row at `row`, which must be within the batch.
    fn get(reader: &Self::Reader, row: usize) -> Self;
}

/// A column that a recording of an older tcpwhy does not have: null, where it may be.
pub(crate) fn absent<C: Cell>(rows: usize) -> Option<C::Reader> {
    if C::NULLABLE {
        C::reader(&new_null_array(&C::data_type(), rows))
    } else {
        None
    }
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
            use arrow_array::{ArrayRef, RecordBatch};
            use arrow_schema::{Field, Schema, SchemaRef};
            use $crate::cell::{Cell, Value};
            use $crate::table::{Column, Columnar, Table, TableInfo, Unit, absent};

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

                fn time_ns(&self) -> u64 { self.time_ns }
                fn cells(&self) -> Vec<(&'static str, Value<'_>)> {
                    vec![ $( (stringify!($col), Cell::value(&self.$col)), )+ ]
                }
            }

            impl Columnar for $row {
                type Builder = Builder;
                type Reader = Reader;

                fn schema() -> SchemaRef { SCHEMA.clone() }
                fn append(self, b: &mut Builder) { $( Cell::append(self.$col, &mut b.$col); )+ }
                fn finish(b: &mut Builder) -> Vec<ArrayRef> {
                    vec![ $( <$ty as Cell>::finish(&mut b.$col), )+ ]
                }
                fn reader(batch: &RecordBatch) -> Result<Reader, &'static str> {
                    Ok(Reader { $( $col: match batch.column_by_name(stringify!($col)) {
                        Some(column) => <$ty as Cell>::reader(column),
                        None => absent::<$ty>(batch.num_rows()),
                    }.ok_or(stringify!($col))?, )+ })
                }
                fn get(r: &Reader, row: usize) -> Self {
                    $row { $( $col: <$ty as Cell>::get(&r.$col, row), )+ }
                }
            }
        };
    };
    (@null) => { None::<&str> };
    (@null $null:literal) => { Some($null) };
}
pub(crate) use table;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Wait;

    /// One wait, as a tcpwhy wrote it that did not know this column.
    fn without(column: &str) -> RecordBatch {
        let mut builder = <Wait as Columnar>::Builder::default();
        let wait = Wait {
            pid: 7,
            cause_answer: Some(true),
            syscall: Some("poll".into()),
            ..Wait::default()
        };
        wait.append(&mut builder);
        let whole = RecordBatch::try_new(Wait::schema(), Wait::finish(&mut builder)).unwrap();
        let schema = Wait::schema();
        let kept = (0..schema.fields().len()).filter(|i| schema.field(*i).name() != column);
        whole.project(&kept.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_column_that_came_later_is_null_in_older_recordings() {
        let read = |column| Wait::get(&Wait::reader(&without(column)).ok().unwrap(), 0);
        assert_eq!(read("cause_answer").cause_answer, None);
        assert_eq!(read("cause_sent_ago_ns").pid, 7);
        let row = read("syscall");
        assert_eq!((row.syscall, row.cause_answer), (None, Some(true)));
        assert_eq!(Wait::reader(&without("pid")).err(), Some("pid"));
    }
}
