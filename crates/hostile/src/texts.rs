//! Texts of a recording changed where they stand, so that what was recorded still shows.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use serde_json::Value;

use crate::copy;
use crate::semantic::{Shape, read, write};

/// Changes the texts of all tables, told table, column and text; the same text of a column becomes the same.
pub fn change_texts(recording: &Path, change: impl Fn(&str, &str, &str) -> String) -> Result<()> {
    for table in copy::tables(recording)? {
        let name = table.file_name().unwrap_or_default().to_string_lossy();
        for segment in copy::segments(&table)? {
            let changed = changed(&read(&segment)?, |column, text| change(&name, column, text));
            let changed = changed.with_context(|| segment.display().to_string())?;
            write(&segment, &[changed], Shape::default())?;
        }
    }
    Ok(())
}

fn changed(batch: &RecordBatch, change: impl Fn(&str, &str) -> String) -> Result<RecordBatch> {
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| -> ArrayRef {
        let texts = column.as_dictionary_opt::<Int32Type>();
        let texts = texts.and_then(|d| Some((d, d.values().as_string_opt::<i32>()?)));
        let Some((dictionary, texts)) = texts else {
            return column.clone();
        };
        let new = texts.iter().map(|text| Some(change(field.name(), text?)));
        Arc::new(dictionary.with_values(Arc::new(new.collect::<StringArray>())))
    });
    Ok(RecordBatch::try_new(schema.clone(), columns.collect())?)
}

/// Changes texts of the manifest: told the way to each (`host.name`, `namespaces.0.name`), and the text.
pub fn change_manifest(recording: &Path, change: impl Fn(&str, &str) -> String) -> Result<()> {
    let path = recording.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path)?)?;
    walk(&mut manifest, "", &change);
    Ok(fs::write(&path, serde_json::to_vec(&manifest)?)?)
}

fn walk(value: &mut Value, at: &str, change: &impl Fn(&str, &str) -> String) {
    let below = |name: &str| match at {
        "" => name.to_string(),
        at => format!("{at}.{name}"),
    };
    match value {
        Value::String(text) => *text = change(at, text),
        Value::Array(all) => {
            let all = all.iter_mut().enumerate();
            all.for_each(|(i, value)| walk(value, &below(&i.to_string()), change));
        }
        Value::Object(all) => {
            let all = all.iter_mut();
            all.for_each(|(name, value)| walk(value, &below(name), change));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
