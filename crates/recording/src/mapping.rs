//! What becomes of a table's texts and addresses between rows and files, either way: secrets in
//! command lines are scrubbed, and, if asked for, addresses and names become pseudonyms, and texts lose what would make
//! a command of them in a sentence. Whoever reads or writes through the waist cannot forget it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BinaryArray, DictionaryArray, RecordBatch, StringArray};

use crate::Addr;
use crate::table::{Column, TableInfo, Unit};
use crate::{Redactor, scrub, without_backquotes};

/// The columns of a table that are changed. Most tables have none of which anything is asked.
pub(crate) struct Mapping {
    columns: Vec<Mapped>,
    redactor: Option<Arc<Redactor>>,
    for_sentences: bool,
}

struct Mapped {
    column: &'static Column,
    /// The dictionary mapped last, and what became of it: all batches of a group share one.
    last: Option<(ArrayRef, Option<ArrayRef>)>,
}

impl Mapping {
    /// For a table; with pseudonyms if there is a redactor.
    pub(crate) fn of(
        table: &TableInfo,
        redactor: Option<&Arc<Redactor>>,
        for_sentences: bool,
    ) -> Mapping {
        let is_mapped =
            |column: &&Column| for_sentences || is_changed(column.unit, redactor.is_some());
        let columns = table.columns.iter().filter(is_mapped);
        Mapping {
            columns: columns
                .map(|column| Mapped { column, last: None })
                .collect(),
            redactor: redactor.cloned(),
            for_sentences,
        }
    }

    /// The batch with its columns changed.
    pub(crate) fn apply(&mut self, batch: RecordBatch) -> RecordBatch {
        if self.columns.is_empty() {
            return batch;
        }
        let (schema, mut arrays, rows) = batch.into_parts();
        for mapped in &mut self.columns {
            let Ok(at) = schema.index_of(mapped.column.name) else {
                continue;
            };
            // One of another type is refused by who reads it.
            let Some(dictionary) = arrays[at].as_dictionary_opt::<Int32Type>() else {
                continue;
            };
            if let Some(array) =
                mapped.map(dictionary, self.redactor.as_deref(), self.for_sentences)
            {
                arrays[at] = array;
            }
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options)
            .expect("columns keep their types and lengths")
    }
}

impl Mapped {
    fn map(
        &mut self,
        dictionary: &DictionaryArray<Int32Type>,
        redactor: Option<&Redactor>,
        for_sentences: bool,
    ) -> Option<ArrayRef> {
        let values = dictionary.values();
        let known = self.last.as_ref().filter(|(of, _)| same(of, values));
        let new = match known {
            Some((_, new)) => new.clone(),
            None => {
                let changed = is_changed(self.column.unit, redactor.is_some());
                let changed = changed.then(|| self.values(values, redactor)).flatten();
                let told = for_sentences.then(|| unquoted(changed.as_ref().unwrap_or(values)));
                let new = told.flatten().or(changed);
                // The old one is kept, so that another cannot come to lie where it is.
                self.last = Some((values.clone(), new.clone()));
                new
            }
        };
        Some(Arc::new(dictionary.with_values(new?)))
    }

    fn values(&self, values: &ArrayRef, redactor: Option<&Redactor>) -> Option<ArrayRef> {
        if self.column.unit == Unit::Address {
            let (redactor, values) = (redactor?, values.as_binary_opt::<i32>()?);
            let new = values.iter().map(|bytes| {
                let addr = bytes?.try_into().ok();
                // What is no address is refused by who reads it.
                Some(addr.map_or(Vec::new(), |a| redactor.addr(Addr(a)).0.to_vec()))
            });
            return Some(Arc::new(new.collect::<BinaryArray>()));
        }
        let values = values.as_string_opt::<i32>()?;
        let unit = self.column.unit;
        let new = values.iter().map(|text| {
            let text = text?;
            Some(match redactor {
                Some(redactor) => redactor.text(unit, text),
                None => scrub::line(text),
            })
        });
        Some(Arc::new(new.collect::<StringArray>()))
    }
}

/// Whether texts or addresses with this unit are changed, with pseudonyms or without.
fn is_changed(unit: Unit, redacted: bool) -> bool {
    match unit {
        Unit::CommandLine => true,
        Unit::Program
        | Unit::Cgroup
        | Unit::Host
        | Unit::File
        | Unit::Instance
        | Unit::Note
        | Unit::Address => redacted,
        _ => false,
    }
}

/// The texts without backquotes; `None` where none has any, which is nearly always so.
fn unquoted(values: &ArrayRef) -> Option<ArrayRef> {
    let texts = values.as_string_opt::<i32>()?;
    if !texts.values().contains(&b'`') {
        return None;
    }
    let new = texts.iter().map(|text| text.map(without_backquotes));
    Some(Arc::new(new.collect::<StringArray>()))
}

/// Whether both are the same memory.
fn same(one: &ArrayRef, other: &ArrayRef) -> bool {
    one.to_data().ptr_eq(&other.to_data())
}
