//! Columns of addresses, each distinct one kept once.

use std::sync::Arc;

use ahash::AHashMap;
use arrow_array::cast::AsArray;
use arrow_array::types as adt;
use arrow_array::{Array, ArrayRef, BinaryArray, PrimitiveArray};
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

impl AddrBuilder {
    fn push(&mut self, addr: Addr) {
        let slot = usize::from(addr.0[15] ^ addr.0[14]) & (RECENT - 1);
        let key = match self.recent[slot] {
            Some((recent, key)) if recent == addr => key,
            _ => *self.known.entry(addr).or_insert_with(|| {
                self.values.push(addr);
                self.values.len() as i32 - 1
            }),
        };
        self.recent[slot] = Some((addr, key));
        self.keys.value(key);
    }

    fn finish(&mut self) -> ArrayRef {
        let values = BinaryArray::from_iter_values(self.values.iter().map(|a| a.0));
        self.known.clear();
        self.values.clear();
        self.recent = [None; RECENT];
        dictionary(self.keys.finish(), Arc::new(values))
    }
}

impl AddrReader {
    fn new(array: &ArrayRef, nullable: bool) -> Option<AddrReader> {
        let dict = array.as_dictionary_opt::<adt::Int32Type>()?;
        let binary = dict.values().as_binary_opt::<i32>()?;
        let values: Option<Vec<Addr>> = binary
            .iter()
            .map(|bytes| Some(Addr(bytes?.try_into().ok()?)))
            .collect();
        let values = values?;
        let keys = checked_keys(dict, values.len(), nullable)?;
        Some(AddrReader { values, keys })
    }

    fn addr(&self, row: usize) -> Addr {
        self.values[self.keys.value(row) as usize]
    }
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
        builder.push(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        AddrReader::new(array, false)
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.addr(row)
    }
    fn value(&self) -> Value<'_> {
        (*self).into()
    }
}

impl Cell for Option<Addr> {
    const NULLABLE: bool = true;
    const TYPE: &'static str = "address";
    type Builder = AddrBuilder;
    type Reader = AddrReader;
    fn data_type() -> DataType {
        Addr::data_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        match self {
            Some(addr) => builder.push(addr),
            None => builder.keys.null(),
        }
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        AddrReader::new(array, true)
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        let valid = reader.keys.is_valid(row);
        valid.then(|| reader.addr(row))
    }
    fn value(&self) -> Value<'_> {
        (*self).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::absent;

    #[test]
    fn an_address_may_be_missing() {
        let cells = [
            Some(Addr([7; 16])),
            None,
            Some(Addr([9; 16])),
            Some(Addr([7; 16])),
        ];
        let mut builder = AddrBuilder::default();
        for cell in cells {
            cell.append(&mut builder);
        }
        let array = <Option<Addr> as Cell>::finish(&mut builder);
        let reader = <Option<Addr> as Cell>::reader(&array).expect("reads");
        let read: Vec<Option<Addr>> = (0..4).map(|row| Cell::get(&reader, row)).collect();
        assert_eq!(read, cells);
        assert!(
            <Addr as Cell>::reader(&array).is_none(),
            "where none may be missing"
        );
        let reader = absent::<Option<Addr>>(2).expect("an older recording");
        assert_eq!(<Option<Addr> as Cell>::get(&reader, 1), None);
    }
}
