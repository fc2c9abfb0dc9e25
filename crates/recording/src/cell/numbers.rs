//! Columns of numbers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types as adt;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::BooleanBufferBuilder;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::{Cell, Value};

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
            #[inline]
            fn extend(builder: &mut Self::Builder, values: impl Iterator<Item = Self>) {
                // A column without nulls never has a bitmap.
                builder.values.extend(values);
            }
            fn finish(builder: &mut Self::Builder) -> ArrayRef { Arc::new(builder.finish()) }
            fn reader(array: &ArrayRef) -> Option<Self::Reader> {
                array.as_primitive_opt::<$arrow>().filter(|a| a.null_count() == 0).cloned()
            }
            fn get(reader: &Self::Reader, row: usize) -> Self { reader.value(row) }
            fn value(&self) -> Value<'_> { (*self).into() }
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
            #[inline]
            fn extend(builder: &mut Self::Builder, values: impl Iterator<Item = Self>) {
                builder.extend(values);
            }
            fn finish(builder: &mut Self::Builder) -> ArrayRef { Arc::new(builder.finish()) }
            fn reader(array: &ArrayRef) -> Option<Self::Reader> {
                array.as_primitive_opt::<$arrow>().cloned()
            }
            fn get(reader: &Self::Reader, row: usize) -> Self {
                reader.is_valid(row).then(|| reader.value(row))
            }
            fn value(&self) -> Value<'_> { (*self).into() }
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

/// Rows for which a column that was as long keeps room: a batch of a writer is no longer, and what a
/// snapshot of a million sockets took is given back.
const MOST_ROOM: usize = 10_240;

impl<A: ArrowPrimitiveType> Numbers<A> {
    #[inline]
    pub(super) fn value(&mut self, value: A::Native) {
        if self.leading_nulls > 0 {
            self.write_leading_nulls();
        }
        self.values.push(value);
        if let Some(valid) = &mut self.valid {
            valid.append(true);
        }
    }

    #[inline]
    pub(super) fn null(&mut self) {
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

    /// Adds values, a machine word of the bitmap at a time.
    #[inline]
    fn extend(&mut self, mut values: impl Iterator<Item = Option<A::Native>>) {
        loop {
            let mut word = [A::Native::default(); 64];
            let (mut valid, mut n) = (0_u64, 0);
            for (place, value) in word.iter_mut().zip(&mut values) {
                valid |= u64::from(value.is_some()) << n;
                *place = value.unwrap_or_default();
                n += 1;
            }
            self.push_word(&word[..n], valid);
            if n < 64 {
                return;
            }
        }
    }

    /// Adds up to 64 values, of which those with a bit in `valid` are not null.
    fn push_word(&mut self, word: &[A::Native], valid: u64) {
        let all = u64::MAX.checked_shr(64 - word.len() as u32).unwrap_or(0);
        if valid == 0 && self.values.is_empty() {
            self.leading_nulls += word.len();
            return;
        }
        if self.leading_nulls > 0 {
            self.write_leading_nulls();
        }
        if valid != all || self.valid.is_some() {
            let written = self.values.len();
            let bits = self.valid.get_or_insert_with(|| {
                let mut bits = BooleanBufferBuilder::new(written + word.len());
                bits.append_n(written, true);
                bits
            });
            bits.append_packed_range(0..word.len(), &valid.to_le_bytes());
        }
        self.values.extend_from_slice(word);
    }

    #[cold]
    fn write_leading_nulls(&mut self) {
        let n = std::mem::take(&mut self.leading_nulls);
        self.values.resize(n, A::Native::default());
        let mut valid = BooleanBufferBuilder::new(n);
        valid.append_n(n, false);
        self.valid = Some(valid);
    }

    pub(super) fn finish(&mut self) -> PrimitiveArray<A> {
        let mut all = std::mem::take(self);
        // The next batch is likely as long.
        self.values.reserve(all.values.len().min(MOST_ROOM));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Builder = Numbers<adt::UInt32Type>;

    proptest! {
        /// Sixty-four at a time or one by one: the same column.
        #[test]
        fn extending_is_appending(
            parts in prop::collection::vec(
                (prop::collection::vec(prop::option::weighted(0.7, 0..9u32), 0..200), 0..3u8),
                0..5,
            )
        ) {
            let (mut whole, mut single) = (Builder::default(), Builder::default());
            for (part, kind) in parts {
                // All null, none null, or both.
                let part = part.into_iter().map(|v| match kind {
                    0 => None,
                    1 => Some(v.unwrap_or(7)),
                    _ => v,
                });
                let part: Vec<Option<u32>> = part.collect();
                <Option<u32> as Cell>::extend(&mut whole, part.iter().copied());
                part.into_iter().for_each(|v| v.append(&mut single));
            }
            prop_assert_eq!(whole.finish(), single.finish());
        }
    }
}
