//! A view is its columns. Each is declared once; text, JSON, the panes of `top`, the tables of the report
//! and the book take from that declaration what they show.

use analysis::words::count;
use recording::{Addr, TableInfo, Word};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::how::How;
use crate::numbers::{endpoint, measure, ms, number, rounded, tenth};

/// What is known of a column without any line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Its header; empty where text does not show it.
    pub(crate) name: &'static str,
    /// Its least width.
    pub(crate) width: usize,
    /// Flush left, as words are.
    pub(crate) left: bool,
    /// Its key in JSON; several, where a value has parts.
    pub(crate) keys: &'static [&'static str],
    /// The unit of its values, which is how text writes them.
    pub(crate) unit: Unit,
    /// What it says.
    pub(crate) help: &'static str,
    /// Text leaves it out where there is only one network namespace.
    pub(crate) of_several: bool,
    /// It stands for all columns of this table, which only JSON has.
    pub(crate) table: Option<TableInfo>,
}

/// A column of numbers.
pub(crate) const fn right(
    name: &'static str,
    width: usize,
    keys: &'static [&'static str],
    unit: Unit,
) -> Head {
    Head {
        name,
        width,
        left: false,
        keys,
        unit,
        help: "",
        of_several: false,
        table: None,
    }
}

/// A column of words.
pub(crate) const fn left(
    name: &'static str,
    width: usize,
    keys: &'static [&'static str],
    unit: Unit,
) -> Head {
    Head {
        left: true,
        ..right(name, width, keys, unit)
    }
}

/// What only JSON has.
pub(crate) const fn json(keys: &'static [&'static str], unit: Unit) -> Head {
    left("", 0, keys, unit)
}

/// All columns of a table.
pub(crate) const fn row(table: TableInfo) -> Head {
    Head {
        table: Some(table),
        ..json(&[], Unit::Name)
    }
}

impl Head {
    /// With what it says, unless it was said before.
    pub(crate) const fn saying(self, help: &'static str) -> Head {
        if help.is_empty() {
            self
        } else {
            Head { help, ..self }
        }
    }
}

/// Columns that many views have.
pub(crate) mod heads {
    use super::{Head, Unit, left, right};

    pub(crate) const TIME: Head = left("TIME", 15, &["time_ns", "unix_ns"], Unit::Time)
        .saying("When it was; `time_ns` is CLOCK_MONOTONIC, `unix_ns` counts since 1970.");
    pub(crate) const NETNS: Head = left("NETNS", 10, &["netns", "netns_name"], Unit::Name)
        .saying("Network namespace: its inode, and its name.");
    /// The same, in text only where there are several.
    pub(crate) const NETNS_OF_SEVERAL: Head = Head {
        of_several: true,
        ..NETNS
    };
    pub(crate) const LOCAL: Head = left("LOCAL", 21, &["local_addr", "local_port"], Unit::Address)
        .saying("The end on this host; port 0, `*` in text, when there is none yet.");
    pub(crate) const REMOTE: Head =
        left("REMOTE", 21, &["remote_addr", "remote_port"], Unit::Address).saying("The other end.");
    pub(crate) const PID: Head =
        right("PID", 7, &["pid"], Unit::Id).saying("Process that owns the socket.");
    pub(crate) const COMM: Head =
        left("COMM", 15, &["comm"], Unit::Name).saying("Name of that process.");
}

/// Units, and how text writes values in them; JSON has plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A moment: the time of day.
    Time,
    /// A number that names something.
    Id,
    /// A name; a dash where there is none.
    Name,
    /// In plain words; nothing where there is nothing to say.
    Words,
    /// An address, or one with a port.
    Address,
    /// A number of things.
    Count,
    /// A number of things by which something changed, with its sign.
    Change,
    /// TCP segments.
    Segments,
    /// Bytes.
    Bytes,
    /// Nanoseconds, which text shows as milliseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// This many a second.
    PerSecond,
    /// Bits a second.
    BitsPerSecond,
    /// A share.
    Percent,
    /// One number ÷ another: with three decimal places.
    Ratio,
    /// A number that may have a fraction: as short as it is exact to a tenth.
    Measure,
    /// Yes or no.
    Flag,
    /// A TCP sequence number.
    Seq,
}

impl Unit {
    /// That of the value in JSON, as the book names it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Unit::Time => "time",
            Unit::Id => "id",
            Unit::Name => "name",
            Unit::Words => "text",
            Unit::Address => "address",
            Unit::Count | Unit::Change => "count",
            Unit::Segments => "segments",
            Unit::Bytes => "bytes",
            Unit::Ns => "ns",
            Unit::Us => "µs",
            Unit::Ms => "ms",
            Unit::PerSecond => "per s",
            Unit::BitsPerSecond => "bits/s",
            Unit::Percent => "%",
            Unit::Ratio => "ratio",
            Unit::Measure => "see `UNIT`",
            Unit::Flag => "yes/no",
            Unit::Seq => "sequence number",
        }
    }
}

/// Names and values of an object in JSON.
pub(crate) type Fields<'l> = Vec<(&'static str, recording::Value<'l>)>;

/// What a line has in a column.
#[derive(Clone, Debug)]
pub(crate) enum Value<'l> {
    /// As a table could hold it.
    Cell(recording::Value<'l>),
    /// A text made for it.
    Words(String),
    /// A value that text shows in other words than JSON.
    Told(recording::Value<'l>, String),
    /// A moment, ns of CLOCK_MONOTONIC: of `time_ns`, and of `unix_ns` since 1970.
    Time(u64),
    /// A network namespace: its inode, and of `netns_name` its name.
    Netns(u32),
    /// An address, and of `…_port` a port.
    Endpoint(Addr, u16),
    /// Several texts.
    List(Vec<String>),
    /// An object.
    Object(Fields<'l>),
    /// Several objects.
    Objects(Vec<Fields<'l>>),
    /// The columns of a table.
    Row(Fields<'l>),
    /// Was not asked for: not even null.
    Absent,
}

impl Value<'_> {
    /// The cell in text.
    pub(crate) fn text(&self, unit: Unit, how: &How) -> String {
        use recording::Value as Cell;
        let text = match (self, unit) {
            (Value::Cell(Cell::Real(value)), Unit::Ratio) => format!("{value:.3}"),
            (Value::Cell(Cell::Real(value)), Unit::Measure) => measure(*value),
            (Value::Cell(Cell::Real(value)), _) => tenth(*value),
            (Value::Cell(Cell::Unsigned(ns)), Unit::Ns) => ms(*ns),
            (Value::Cell(Cell::Signed(change)), Unit::Change) => format!("{change:+}"),
            (Value::Cell(value), _) => value.to_string(),
            (Value::Words(text) | Value::Told(_, text), _) => text.clone(),
            (Value::Time(time_ns), _) => how.time(*time_ns),
            (Value::Netns(inode), _) => how.netns(*inode),
            (Value::Endpoint(addr, port), _) => endpoint(*addr, *port),
            // JSON has these; text has lines of their own for them.
            (Value::List(_) | Value::Object(_) | Value::Objects(_), _) => String::new(),
            (Value::Row(_) | Value::Absent, _) => String::new(),
        };
        if text.is_empty() && unit != Unit::Words {
            "-".into()
        } else {
            text
        }
    }
}

macro_rules! cells {
    ($($cell:ty),+) => {$(
        impl<'l> From<$cell> for Value<'l> {
            fn from(cell: $cell) -> Self { Value::Cell(cell.into()) }
        }
    )+};
}
cells!(
    u8,
    u16,
    u32,
    u64,
    i32,
    i64,
    f64,
    bool,
    Addr,
    &'l str,
    recording::Value<'l>
);

impl<'l, W: Word> From<&'l W> for Value<'l> {
    fn from(word: &'l W) -> Self {
        (&**word.text()).into()
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Words(text)
    }
}

impl From<Vec<String>> for Value<'_> {
    fn from(texts: Vec<String>) -> Self {
        Value::List(texts)
    }
}

impl<'l> From<Fields<'l>> for Value<'l> {
    fn from(fields: Fields<'l>) -> Self {
        Value::Object(fields)
    }
}

impl<'l, V: Into<Value<'l>>> From<Option<V>> for Value<'l> {
    fn from(value: Option<V>) -> Self {
        value.map_or(Value::Cell(recording::Value::Null), Into::into)
    }
}

/// A column of lines of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Column<L: 'static> {
    pub(crate) head: Head,
    /// What a line has in it.
    pub(crate) value: for<'l> fn(&'l L, &How) -> Value<'l>,
}

impl<L> Column<L> {
    /// The cell of a line in text.
    pub(crate) fn text(&self, line: &L, how: &How) -> String {
        (self.value)(line, how).text(self.head.unit, how)
    }

    /// The same with thousands apart, for pages.
    pub(crate) fn grouped(&self, line: &L, how: &How) -> String {
        match ((self.value)(line, how), self.head.unit) {
            (Value::Cell(recording::Value::Unsigned(n)), Unit::Count | Unit::Bytes) => count(n),
            (Value::Cell(recording::Value::Real(v)), Unit::Measure) => number(v),
            (value, unit) => value.text(unit, how),
        }
    }
}

/// A line of a view: its columns, in the order of text and in that of JSON.
pub(crate) trait Line: Sized + 'static {
    /// The `type` of its object in JSON.
    const KIND: &'static str;
    /// What text shows.
    const TEXT: &'static [Column<Self>];
    /// What JSON has.
    const JSON: &'static [Column<Self>];
}

/// Declares columns. Each: what it says, a name for code, its [`Head`], and what a line has in it.
///
/// With a type and a kind before them these are the columns of that [`Line`]; without, they are constants
/// for the `impl` around them, which lines of several kinds share.
macro_rules! columns {
    (
        $line:ty = $kind:literal { text $($text:ident)+; json $($json:ident)+; }
        $($columns:tt)*
    ) => {
        impl $line { $crate::columns::columns! { $($columns)* } }
        impl $crate::columns::Line for $line {
            const KIND: &'static str = $kind;
            const TEXT: &'static [$crate::columns::Column<Self>] = &[ $(Self::$text),+ ];
            const JSON: &'static [$crate::columns::Column<Self>] = &[ $(Self::$json),+ ];
        }
    };
    ( $( $(#[doc = $doc:literal])* $name:ident: $head:expr => $value:expr; )* ) => { $(
        $(#[doc = $doc])*
        pub(crate) const $name: $crate::columns::Column<Self> = $crate::columns::Column {
            head: $head.saying(concat!($($doc),*)),
            value: $value,
        };
    )* };
}
pub(crate) use columns;

/// A line as JSON has it.
pub(crate) struct Object<'l, L>(pub(crate) &'l L, pub(crate) &'l How);

impl<L: Line> Serialize for Object<'_, L> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Object(line, how) = self;
        // What a row of a table brings is not said twice.
        let table = L::JSON.iter().find_map(|c| c.head.table);
        let in_row = |key: &str| table.is_some_and(|t| t.columns.iter().any(|c| c.name == key));
        let mut object = to.serialize_map(None)?;
        object.serialize_entry("type", L::KIND)?;
        for column in L::JSON {
            match (column.value)(line, how) {
                Value::Absent => {}
                Value::Row(cells) => {
                    for (name, cell) in cells {
                        object.serialize_entry(name, &cell)?;
                    }
                }
                value => {
                    for key in column.head.keys.iter().filter(|key| !in_row(key)) {
                        object.serialize_entry(key, &Part(&value, key, how))?;
                    }
                }
            }
        }
        object.end()
    }
}

/// What a value has under one of its column's keys.
struct Part<'p, 'l>(&'p Value<'l>, &'p str, &'p How);

impl Serialize for Part<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Part(value, key, how) = self;
        match value {
            Value::Cell(recording::Value::Real(value)) => to.serialize_f64(rounded(*value)),
            Value::Cell(cell) | Value::Told(cell, _) => cell.serialize(to),
            Value::Words(text) => to.serialize_str(text),
            Value::Time(time_ns) if *key == "unix_ns" => to.serialize_i64(how.unix_ns(*time_ns)),
            Value::Time(time_ns) => to.serialize_u64(*time_ns),
            Value::Netns(inode) if key.ends_with("_name") => how.names.get(inode).serialize(to),
            Value::Netns(inode) => to.serialize_u32(*inode),
            Value::Endpoint(_, port) if key.ends_with("_port") => to.serialize_u16(*port),
            Value::Endpoint(addr, _) => addr.serialize(to),
            Value::List(texts) => texts.serialize(to),
            Value::Object(fields) | Value::Row(fields) => object(fields).serialize(to),
            Value::Objects(all) => to.collect_seq(all.iter().map(object)),
            Value::Absent => to.serialize_none(),
        }
    }
}

/// An object of these fields, in their order.
fn object<'f>(fields: &'f Fields) -> impl Serialize + use<'f> {
    struct Map<'f>(&'f Fields<'f>);
    impl Serialize for Map<'_> {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
        }
    }
    Map(fields)
}
