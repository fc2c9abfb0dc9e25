//! The shape of `tcpwhy explain --json`, from its types: a JSON Schema, and the page of the book.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::line::Line;

/// The JSON Schema of one line.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Line>();
    schema.to_value()
}

/// The page of the book: what the lines are, field by field.
pub fn page() -> String {
    let schema = schema();
    let book = Book {
        definitions: schema["$defs"].as_object().cloned().unwrap_or_default(),
    };
    let mut page = format!(
        "# What explain says, as JSON\n\n\
         Made from the types in `crates/explain/src/`; `make docs` writes it, and \
         [explain.schema.json](explain.schema.json), its JSON Schema (version {}). \
         `tcpwhy explain --json` prints one object per line, by `type`:\n",
        crate::SCHEMA
    );
    for line in schema["oneOf"].as_array().into_iter().flatten() {
        let name = line["properties"]["type"]["const"].as_str().unwrap_or("");
        page.push_str(&format!("\n## `\"{name}\"`\n\n{}\n", says(line)));
        page.push_str("\n| field | what it is |\n|---|---|\n");
        page.push_str(&format!("| `type` | `\"{name}\"` |\n"));
        book.fields(&mut page, "", book.object(line));
    }
    page.push_str(
        "\nA row is `TABLE/SEGMENT#ROW`: row `ROW`, from 0, of `TABLE/SEGMENT.parquet` in the \
        recording.\n\n## `advice[].change`\n\n| `kind` | fields | meaning |\n|---|---|---|\n",
    );
    for kind in book.definitions["Change"]["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let fields = kind["properties"].as_object();
        let fields = fields
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "kind");
        let fields: Vec<_> = fields
            .map(|(name, field)| format!("`{name}`: {}", says(field)))
            .collect();
        let name = kind["properties"]["kind"]["const"].as_str().unwrap_or("");
        page.push_str(&format!(
            "| `{name}` | {} | {} |\n",
            fields.join("; "),
            says(kind)
        ));
    }
    page
}

struct Book {
    definitions: Map<String, Value>,
}

impl Book {
    /// What a reference stands for.
    fn object<'a>(&'a self, of: &'a Value) -> &'a Value {
        let name = of["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/"));
        name.and_then(|name| self.definitions.get(name))
            .unwrap_or(of)
    }

    /// A row for each field, and for those of the objects in it.
    fn fields(&self, page: &mut String, before: &str, object: &Value) {
        let properties = object["properties"].as_object();
        for (name, field) in properties.into_iter().flatten() {
            if name == "type" {
                continue;
            }
            let (path, inner) = self.inner(format!("{before}{name}"), field);
            let values = values(inner);
            let says = if values.is_empty() {
                says(field)
            } else {
                format!("{} {values}", says(field))
            };
            page.push_str(&format!("| `{path}` | {says} |\n"));
            // Numbers by name have names of their own, and changes a table.
            if inner["properties"].is_object() && inner["oneOf"].is_null() {
                self.fields(page, &format!("{path}."), inner);
            }
        }
    }

    /// What is in a field: the object of a list, or of what may be null.
    fn inner<'a>(&'a self, path: String, field: &'a Value) -> (String, &'a Value) {
        let field = self.object(field);
        if let Some(items) = field.get("items") {
            return self.inner(format!("{path}[]"), items);
        }
        let any = field["anyOf"].as_array().into_iter().flatten();
        let mut known = any.filter(|of| of["type"] != "null");
        match known.next() {
            Some(of) => self.inner(path, of),
            None => (path, field),
        }
    }
}

/// The words that a field may hold, with their meaning.
fn values(field: &Value) -> String {
    let all = field["oneOf"].as_array().into_iter().flatten();
    let words = all.filter_map(|v| Some((v["const"].as_str()?, says(v))));
    let words: BTreeMap<_, _> = words.collect();
    let words: Vec<_> = words
        .into_iter()
        .map(|(word, says)| format!("`{word}`: {}", says.trim_end_matches('.')))
        .collect();
    words.join("; ")
}

/// What the documentation says, on one line.
fn says(of: &Value) -> String {
    let text = of["description"].as_str().unwrap_or("");
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
