//! The types that a column may have, and how each becomes Arrow and comes back.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, BooleanBufferBuilder,
    BooleanBuilder, DictionaryArray, PrimitiveArray, StringArray,
};
use arrow::buffer::NullBuffer;
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
}

macro_rules! primitive {
    ($($rust:ty, $arrow:ty, $data:expr);+ $(;)?) => {$(
        impl Cell for $rust {
            const NULLABLE: bool = false;
            const TYPE: &'static str = stringify!($rust);
            type Builder = Numbers<$arrow>;
            type Reader = PrimitiveArray<$arrow>;
            fn data_type() -> DataType { $data }
            #[inline]
            fn append(self, builder: &mut Self::Builder) { builder.value(self) }
            fn finish(builder: &mut Self::Builder) -> ArrayRef { Arc::new(builder.finish()) }
            fn reader(array: &ArrayRef) -> Option<Self::Reader> {
                array.as_primitive_opt::<$arrow>().filter(|a| a.null_count() == 0).cloned()
            }
            fn get(reader: &Self::Reader, row: usize) -> Self { reader.value(row) }
        }
        impl Cell for Option<$rust> {
            const NULLABLE: bool = true;
            const TYPE: &'static str = stringify!($rust);
            type Builder = Numbers<$arrow>;
            type Reader = PrimitiveArray<$arrow>;
            fn data_type() -> DataType { $data }
            #[inline]
            fn append(self, builder: &mut Self::Builder) {
                match self {
                    Some(value) => builder.value(value),
                    None => builder.null(),
                }
            }
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

/// A column of numbers being written. In most batches a column is all null or has no null at all:
/// both cost next to nothing per row, which the recorded host pays for. Only a mixed column keeps
/// a bitmap.
pub struct Numbers<A: ArrowPrimitiveType> {
    leading_nulls: usize,
    values: Vec<A::Native>,
    valid: Option<BooleanBufferBuilder>,
}

impl<A: ArrowPrimitiveType> Default for Numbers<A> {
    fn default() -> Self {
        Numbers {
            leading_nulls: 0,
            values: Vec::new(),
            valid: None,
        }
    }
}

impl<A: ArrowPrimitiveType> Numbers<A> {
    #[inline]
    fn value(&mut self, value: A::Native) {
        if self.leading_nulls > 0 {
            self.write_leading_nulls();
        }
        self.values.push(value);
        if let Some(valid) = &mut self.valid {
            valid.append(true);
        }
    }

    #[inline]
    fn null(&mut self) {
        if self.values.is_empty() {
            self.leading_nulls += 1;
            return;
        }
        let valid = self.valid.get_or_insert_with(|| {
            let mut valid = BooleanBufferBuilder::new(self.values.capacity());
            valid.append_n(self.values.len(), true);
            valid
        });
        self.values.push(A::Native::default());
        valid.append(false);
    }

    #[cold]
    fn write_leading_nulls(&mut self) {
        let n = std::mem::take(&mut self.leading_nulls);
        self.values.resize(n, A::Native::default());
        let mut valid = BooleanBufferBuilder::new(n);
        valid.append_n(n, false);
        self.valid = Some(valid);
    }

    fn finish(&mut self) -> PrimitiveArray<A> {
        let mut all = std::mem::take(self);
        if all.leading_nulls > 0 {
            return PrimitiveArray::new_null(all.leading_nulls);
        }
        let valid = all.valid.as_mut().map(|v| NullBuffer::new(v.finish()));
        PrimitiveArray::new(all.values.into(), valid)
    }
}

primitive! {
    u8, adt::UInt8Type, DataType::UInt8;
    u16, adt::UInt16Type, DataType::UInt16;
    u32, adt::UInt32Type, DataType::UInt32;
    u64, adt::UInt64Type, DataType::UInt64;
    i32, adt::Int32Type, DataType::Int32;
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
impl std::borrow::Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
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
impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
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
    if strings.null_count() > 0 {
        return None;
    }
    Some(TextReader {
        values: strings.iter().flatten().map(Text::from).collect(),
        keys: checked_keys(dict, strings.len(), nullable)?,
    })
}

/// A power of two, several times the number of texts in common use.
const RECENT: usize = 128;

/// A text column being written: each distinct value once, and per row which one it is.
pub struct TextBuilder {
    keys: Numbers<adt::Int32Type>,
    known: AHashMap<Text, i32>,
    values: Vec<Text>,
    /// The texts used last, by the address of their bytes: producers use the same few again and
    /// again, and comparing an address is cheaper than hashing a text.
    recent: [Option<(usize, i32)>; RECENT],
}

impl Default for TextBuilder {
    fn default() -> Self {
        TextBuilder {
            keys: Numbers::default(),
            known: AHashMap::new(),
            values: Vec::new(),
            recent: [None; RECENT],
        }
    }
}

impl TextBuilder {
    /// Adds a text.
    #[inline]
    pub fn push(&mut self, text: &Text) {
        let address = text.0.as_ptr() as usize;
        let slot = (address >> 4).wrapping_mul(0x9e37_79b9) >> 8 & (RECENT - 1);
        let key = match self.recent[slot] {
            Some((known, key)) if known == address => key,
            _ => self.look_up(text, address, slot),
        };
        self.keys.value(key);
    }

    #[cold]
    fn look_up(&mut self, text: &Text, address: usize, slot: usize) -> i32 {
        if let Some(&key) = self.known.get(&**text) {
            return key;
        }
        let key = self.values.len() as i32;
        // Kept in `values`, the text stays alive, so its address stays its own.
        self.recent[slot] = Some((address, key));
        self.values.push(text.clone());
        self.known.insert(text.clone(), key);
        key
    }

    /// Adds a null, which the column must allow.
    #[inline]
    pub fn push_null(&mut self) {
        self.keys.null();
    }

    fn finish(&mut self) -> ArrayRef {
        let keys = self.keys.finish();
        let values = StringArray::from_iter_values(self.values.iter().map(|t| &**t));
        *self = TextBuilder::default();
        dictionary(keys, Arc::new(values))
    }
}

impl Cell for Text {
    const NULLABLE: bool = false;
    const TYPE: &'static str = "text";
    type Builder = TextBuilder;
    type Reader = TextReader;
    fn data_type() -> DataType {
        text_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.push(&self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
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
    type Builder = TextBuilder;
    type Reader = TextReader;
    fn data_type() -> DataType {
        text_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        match self {
            Some(text) => builder.push(&text),
            None => builder.push_null(),
        }
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
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

impl serde::Serialize for Addr {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// An address column being written: each distinct address once. (Parquet writes fixed-size binary
/// with an allocation per value; of all columns of `event` these two cost the most that way.)
#[derive(Default)]
pub struct AddrBuilder {
    keys: Numbers<adt::Int32Type>,
    known: AHashMap<Addr, i32>,
    values: Vec<Addr>,
    recent: Option<(Addr, i32)>,
}

/// An address column being read.
pub struct AddrReader {
    values: Vec<Addr>,
    keys: PrimitiveArray<adt::Int32Type>,
}

impl Cell for Addr {
    const NULLABLE: bool = false;
    const TYPE: &'static str = "address";
    type Builder = AddrBuilder;
    type Reader = AddrReader;
    fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Binary))
    }
    fn append(self, builder: &mut Self::Builder) {
        let key = match builder.recent {
            Some((recent, key)) if recent == self => key,
            _ => *builder.known.entry(self).or_insert_with(|| {
                builder.values.push(self);
                builder.values.len() as i32 - 1
            }),
        };
        builder.recent = Some((self, key));
        builder.keys.value(key);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        let values = BinaryArray::from_iter_values(builder.values.iter().map(|a| a.0));
        dictionary(std::mem::take(builder).keys.finish(), Arc::new(values))
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        let dict = array.as_dictionary_opt::<adt::Int32Type>()?;
        let binary = dict.values().as_binary_opt::<i32>()?;
        let values: Option<Vec<Addr>> = binary
            .iter()
            .map(|bytes| Some(Addr(bytes?.try_into().ok()?)))
            .collect();
        let values = values?;
        let keys = checked_keys(dict, values.len(), false)?;
        Some(AddrReader { values, keys })
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.values[reader.keys.value(row) as usize]
    }
}

/// A dictionary of our own making: every key was made from the number of values.
fn dictionary(keys: PrimitiveArray<adt::Int32Type>, values: ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::try_new(keys, values).expect("keys lie within the values"))
}

/// The keys of a dictionary that may be hostile: all within `values`, null only where allowed.
fn checked_keys(
    dict: &DictionaryArray<adt::Int32Type>,
    values: usize,
    nullable: bool,
) -> Option<PrimitiveArray<adt::Int32Type>> {
    let keys = dict.keys();
    let in_range = |k: i32| usize::try_from(k).is_ok_and(|k| k < values);
    let fine = (nullable || keys.null_count() == 0) && keys.iter().flatten().all(in_range);
    fine.then(|| keys.clone())
}
