//! The types that a column may have, and how each becomes Arrow and comes back.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, FixedSizeBinaryArray,
    FixedSizeBinaryBuilder, PrimitiveArray, PrimitiveBuilder, StringDictionaryBuilder,
};
use arrow::datatypes as adt;
use arrow::datatypes::DataType;

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
    /// Ends the column being written and leaves the builder empty.
    fn finish(builder: &mut Self::Builder) -> ArrayRef;
    /// Opens a column for reading; `None` when its type is not this cell's.
    fn reader(array: &ArrayRef) -> Option<Self::Reader>;
    /// The value in `row`, which must be within the column.
    fn get(reader: &Self::Reader, row: usize) -> Self;
}

macro_rules! primitive {
    ($($rust:ty, $arrow:ty, $data:expr);+ $(;)?) => {$(
        impl Cell for $rust {
            const NULLABLE: bool = false;
            const TYPE: &'static str = stringify!($rust);
            type Builder = PrimitiveBuilder<$arrow>;
            type Reader = PrimitiveArray<$arrow>;
            fn data_type() -> DataType { $data }
            fn append(self, builder: &mut Self::Builder) { builder.append_value(self) }
            fn finish(builder: &mut Self::Builder) -> ArrayRef { Arc::new(builder.finish()) }
            fn reader(array: &ArrayRef) -> Option<Self::Reader> {
                array.as_primitive_opt::<$arrow>().filter(|a| a.null_count() == 0).cloned()
            }
            fn get(reader: &Self::Reader, row: usize) -> Self { reader.value(row) }
        }
        impl Cell for Option<$rust> {
            const NULLABLE: bool = true;
            const TYPE: &'static str = stringify!($rust);
            type Builder = PrimitiveBuilder<$arrow>;
            type Reader = PrimitiveArray<$arrow>;
            fn data_type() -> DataType { $data }
            fn append(self, builder: &mut Self::Builder) { builder.append_option(self) }
            fn finish(builder: &mut Self::Builder) -> ArrayRef { Arc::new(builder.finish()) }
            fn reader(array: &ArrayRef) -> Option<Self::Reader> {
                array.as_primitive_opt::<$arrow>().cloned()
            }
            fn get(reader: &Self::Reader, row: usize) -> Self {
                reader.is_valid(row).then(|| reader.value(row))
            }
        }
    )+};
}

primitive! {
    u8, adt::UInt8Type, DataType::UInt8;
    u16, adt::UInt16Type, DataType::UInt16;
    u32, adt::UInt32Type, DataType::UInt32;
    u64, adt::UInt64Type, DataType::UInt64;
    i64, adt::Int64Type, DataType::Int64;
    f64, adt::Float64Type, DataType::Float64;
}

impl Cell for bool {
    const NULLABLE: bool = false;
    const TYPE: &'static str = "bool";
    type Builder = BoolBuilder;
    type Reader = BooleanArray;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.0.append_value(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.0.finish())
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        array
            .as_boolean_opt()
            .filter(|a| a.null_count() == 0)
            .cloned()
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.value(row)
    }
}

impl Cell for Option<bool> {
    const NULLABLE: bool = true;
    const TYPE: &'static str = "bool";
    type Builder = BoolBuilder;
    type Reader = BooleanArray;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.0.append_option(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.0.finish())
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        array.as_boolean_opt().cloned()
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.is_valid(row).then(|| reader.value(row))
    }
}

/// A boolean column being written (Arrow's own builder has no `Default`).
pub struct BoolBuilder(BooleanBuilder);

impl Default for BoolBuilder {
    fn default() -> Self {
        BoolBuilder(BooleanBuilder::new())
    }
}

/// A short, often repeated text: a name, a command, a value. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Arc<str>);

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
impl From<&str> for Text {
    fn from(s: &str) -> Self {
        Text(s.into())
    }
}
impl Default for Text {
    fn default() -> Self {
        Text::from("")
    }
}
impl From<String> for Text {
    fn from(s: String) -> Self {
        Text(s.into())
    }
}
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self)
    }
}
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &**self == other
    }
}
impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &**self == *other
    }
}

/// A text column being read: each distinct value once, and per row which one it is.
pub struct TextReader {
    values: Vec<Text>,
    keys: PrimitiveArray<adt::Int32Type>,
}

fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn text_reader(array: &ArrayRef, nullable: bool) -> Option<TextReader> {
    let dict = array.as_dictionary_opt::<adt::Int32Type>()?;
    let strings = dict.values().as_string_opt::<i32>()?;
    // A null hides either in the keys or in the dictionary's values; ours are only in the keys.
    if strings.null_count() > 0 || (!nullable && dict.null_count() > 0) {
        return None;
    }
    let keys = dict.keys().clone();
    let in_range = |k: i32| usize::try_from(k).is_ok_and(|k| k < strings.len());
    if !keys.iter().flatten().all(in_range) {
        return None;
    }
    Some(TextReader {
        values: strings.iter().flatten().map(Text::from).collect(),
        keys,
    })
}

impl Cell for Text {
    const NULLABLE: bool = false;
    const TYPE: &'static str = "text";
    type Builder = StringDictionaryBuilder<adt::Int32Type>;
    type Reader = TextReader;
    fn data_type() -> DataType {
        text_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(&*self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.finish())
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        text_reader(array, false)
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.values[reader.keys.value(row) as usize].clone()
    }
}

impl Cell for Option<Text> {
    const NULLABLE: bool = true;
    const TYPE: &'static str = "text";
    type Builder = StringDictionaryBuilder<adt::Int32Type>;
    type Reader = TextReader;
    fn data_type() -> DataType {
        text_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_option(self.as_deref());
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.finish())
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        text_reader(array, true)
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        let valid = reader.keys.is_valid(row);
        valid.then(|| reader.values[reader.keys.value(row) as usize].clone())
    }
}

/// An IP address in 16 bytes; IPv4 is held as `::ffff:a.b.c.d`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Addr(pub [u8; 16]);

impl Addr {
    /// The address as people write it: IPv4 in dotted form.
    pub fn ip(self) -> IpAddr {
        IpAddr::from(Ipv6Addr::from(self.0)).to_canonical()
    }
    /// Whether this is `0.0.0.0` or `::`: a listener on every address.
    pub fn is_any(self) -> bool {
        self.ip().is_unspecified()
    }
}
impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => Addr(v6.octets()),
        }
    }
}
impl From<Ipv4Addr> for Addr {
    fn from(v4: Ipv4Addr) -> Self {
        Addr(v4.to_ipv6_mapped().octets())
    }
}
impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(&self.ip(), f)
    }
}
impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(&self.ip(), f)
    }
}

/// An address column being written.
pub struct AddrBuilder(FixedSizeBinaryBuilder);

impl Default for AddrBuilder {
    fn default() -> Self {
        AddrBuilder(FixedSizeBinaryBuilder::new(16))
    }
}

impl Cell for Addr {
    const NULLABLE: bool = false;
    const TYPE: &'static str = "address";
    type Builder = AddrBuilder;
    type Reader = FixedSizeBinaryArray;
    fn data_type() -> DataType {
        DataType::FixedSizeBinary(16)
    }
    fn append(self, builder: &mut Self::Builder) {
        let sixteen = builder.0.append_value(self.0);
        debug_assert!(sixteen.is_ok(), "the builder was made for 16 bytes");
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.0.finish())
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        array
            .as_fixed_size_binary_opt()
            .filter(|a| a.value_length() == 16 && a.null_count() == 0)
            .cloned()
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(reader.value(row));
        Addr(bytes)
    }
}
