//! A column of made-up rows, of any type that tables have.

use std::sync::Arc;

use anyhow::{Result, bail};
use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types as adt;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray,
};
use arrow_schema::DataType;

/// What a column of made-up rows holds.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A number, in whatever type.
    Number(u64),
    /// A text.
    Text(String),
    /// An address.
    Addr(Vec<u8>),
}

/// A column of a type.
pub(crate) fn column(of: &DataType, rows: usize, value: impl Fn(u64) -> Value) -> Result<ArrayRef> {
    let number = |row: u64| match value(row) {
        Value::Number(n) => n,
        Value::Text(_) | Value::Addr(_) => row,
    };
    let all = 0..rows as u64;
    macro_rules! numbers {
        ($type:ty) => {
            Arc::new(PrimitiveArray::<$type>::from_iter_values(
                all.map(|row| number(row) as _),
            ))
        };
    }
    Ok(match of {
        DataType::UInt8 => numbers!(adt::UInt8Type),
        DataType::UInt16 => numbers!(adt::UInt16Type),
        DataType::UInt32 => numbers!(adt::UInt32Type),
        DataType::UInt64 => numbers!(adt::UInt64Type),
        DataType::Int32 => numbers!(adt::Int32Type),
        DataType::Int64 => numbers!(adt::Int64Type),
        DataType::Float64 => numbers!(adt::Float64Type),
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            all.map(|row| Some(number(row) % 2 == 1)),
        )),
        of if is_dictionary_of(of, &DataType::Utf8) => {
            let mut texts = StringDictionaryBuilder::<adt::Int32Type>::new();
            for row in all {
                texts.append(as_text(&value(row)))?;
            }
            Arc::new(texts.finish())
        }
        of if is_dictionary_of(of, &DataType::Binary) => {
            let addr = |row| match value(row) {
                Value::Addr(bytes) => bytes,
                Value::Number(_) | Value::Text(_) => vec![0; 16],
            };
            let values = BinaryArray::from_iter_values(all.map(addr));
            let keys = Int32Array::from_iter_values(0..rows as i32);
            Arc::new(DictionaryArray::try_new(keys, Arc::new(values))?)
        }
        other => bail!("no column of {other}"),
    })
}

/// The value as a text, for columns of texts that have no own above.
fn as_text(value: &Value) -> String {
    match value {
        Value::Number(n) => format!("x{}", n % 6),
        Value::Text(text) => text.clone(),
        Value::Addr(_) => "address".into(),
    }
}

/// Whether a type is a dictionary of these.
pub(crate) fn is_dictionary_of(of: &DataType, value: &DataType) -> bool {
    matches!(of, DataType::Dictionary(_, v) if **v == *value)
}
