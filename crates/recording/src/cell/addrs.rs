//! Columns of addresses, each distinct one kept once.

use std::sync::Arc;

use ahash::AHashMap;
use arrow_array::cast::AsArray;
use arrow_array::types as adt;
use arrow_array::{ArrayRef, BinaryArray, PrimitiveArray};
use arrow_schema::DataType;

use super::numbers::Numbers;
use super::texts::{checked_keys, dictionary};
use super::{Cell, Value};
use crate::addr::Addr;

/// An address column being written: each distinct address once. (Parquet writes fixed-size binary
/// with an allocation per value; of all columns of `event` these two cost the most that way.)
#[derive(Default)]
pub struct AddrBuilder {
    keys: Numbers<adt::Int32Type>,
    known: AHashMap<Addr, i32>,
    values: Vec<Addr>,
    /// Those used last: a few hosts talk to each other again and again.
    recent: [Option<(Addr, i32)>; RECENT],
}

/// A power of two.
const RECENT: usize = 16;

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
        let slot = usize::from(self.0[15] ^ self.0[14]) & (RECENT - 1);
        let key = match builder.recent[slot] {
            Some((recent, key)) if recent == self => key,
            _ => *builder.known.entry(self).or_insert_with(|| {
                builder.values.push(self);
                builder.values.len() as i32 - 1
            }),
        };
        builder.recent[slot] = Some((self, key));
        builder.keys.value(key);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        let values = BinaryArray::from_iter_values(builder.values.iter().map(|a| a.0));
        builder.known.clear();
        builder.values.clear();
        builder.recent = [None; RECENT];
        dictionary(builder.keys.finish(), Arc::new(values))
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
    fn value(&self) -> Value<'_> {
        (*self).into()
    }
}
