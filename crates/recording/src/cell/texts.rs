//! Columns of texts, each distinct one kept once; and the dictionaries that they are kept in.

use std::cell::OnceCell;
use std::sync::Arc;

use ahash::AHashMap;
use arrow_array::cast::AsArray;
use arrow_array::types as adt;
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, StringArray};
use arrow_schema::DataType;

use super::numbers::Numbers;
use super::{Cell, Value};
use crate::limits;
use crate::text::Text;
use crate::word::Word;

/// A text column being read: each distinct value once, and per row which one it is.
pub struct TextReader<W> {
    /// Of the whole group of rows; a batch has use for a few.
    dictionary: StringArray,
    values: Vec<OnceCell<W>>,
    keys: PrimitiveArray<adt::Int32Type>,
}

impl<W: Word> TextReader<W> {
    /// The text of a row that is not null.
    fn text(&self, row: usize) -> W {
        let key = self.keys.value(row) as usize;
        let make = || Text::from(&*limits::text(self.dictionary.value(key))).into();
        self.values[key].get_or_init(make).clone()
    }
}

fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn text_reader<W: Word>(array: &ArrayRef, nullable: bool) -> Option<TextReader<W>> {
    let dict = array.as_dictionary_opt::<adt::Int32Type>()?;
    let strings = dict.values().as_string_opt::<i32>()?;
    // A null hides either in the keys or in the dictionary's values; ours are only in the keys.
    if strings.null_count() > 0 {
        return None;
    }
    Some(TextReader {
        dictionary: strings.clone(),
        values: vec![OnceCell::new(); strings.len()],
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
        let address = text.as_ptr() as usize;
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
        let values = StringArray::from_iter_values(self.values.iter().map(|t| limits::text(t)));
        self.known.clear();
        self.values.clear();
        self.recent = [None; RECENT];
        dictionary(keys, Arc::new(values))
    }
}

impl<W: Word> Cell for W {
    const NULLABLE: bool = false;
    const TYPE: &'static str = W::TYPE;
    type Builder = TextBuilder;
    type Reader = TextReader<W>;
    fn data_type() -> DataType {
        text_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.push(self.text());
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        text_reader(array, false)
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.text(row)
    }
    fn value(&self) -> Value<'_> {
        Value::Text(self.text())
    }
}

impl<W: Word> Cell for Option<W> {
    const NULLABLE: bool = true;
    const TYPE: &'static str = W::TYPE;
    type Builder = TextBuilder;
    type Reader = TextReader<W>;
    fn data_type() -> DataType {
        text_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        match self {
            Some(word) => builder.push(word.text()),
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
        valid.then(|| reader.text(row))
    }
    fn value(&self) -> Value<'_> {
        self.as_ref().map(|word| &**word.text()).into()
    }
}

/// A dictionary of our own making: every key was made from the number of values.
pub(super) fn dictionary(keys: PrimitiveArray<adt::Int32Type>, values: ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::try_new(keys, values).expect("keys lie within the values"))
}

/// The keys of a dictionary that may be hostile: all within `values`, null only where allowed.
pub(super) fn checked_keys(
    dict: &DictionaryArray<adt::Int32Type>,
    values: usize,
    nullable: bool,
) -> Option<PrimitiveArray<adt::Int32Type>> {
    let keys = dict.keys();
    let in_range = |k: i32| usize::try_from(k).is_ok_and(|k| k < values);
    let fine = (nullable || keys.null_count() == 0) && keys.iter().flatten().all(in_range);
    fine.then(|| keys.clone())
}
