//! The tables as the book tells them, and as programs of other languages read them.

use std::fmt::Write;

use serde::Serialize;

use crate::tables::ALL;
use crate::vocabulary;

/// A table for programs that read Parquet themselves.
#[derive(Serialize)]
struct Declared {
    name: &'static str,
    says: &'static str,
    columns: Vec<DeclaredColumn>,
}

#[derive(Serialize)]
struct DeclaredColumn {
    name: &'static str,
    r#type: &'static str,
    unit: &'static str,
    says: &'static str,
    null: Option<&'static str>,
}

/// The declarations as JSON, for who reads recordings without this crate.
pub fn tables_json() -> String {
    let declared = ALL.iter().map(|table| Declared {
        name: table.name,
        says: table.doc.trim(),
        columns: table
            .columns
            .iter()
            .map(|column| DeclaredColumn {
                name: column.name,
                r#type: column.type_name,
                unit: column.unit.label(),
                says: column.doc.trim(),
                null: column.null,
            })
            .collect(),
    });
    let declared: Vec<Declared> = declared.collect();
    serde_json::to_string_pretty(&declared).unwrap_or_default() + "\n"
}

/// The page as Markdown.
pub fn tables_page() -> String {
    let mut page = String::from(
        "# The tables of a recording\n\n\
         Made from the declarations in `crates/recording/src/tables/`; `make docs` writes it.\n\n\
         Times are nanoseconds of CLOCK_MONOTONIC; `clock_offset_ns` in the manifest turns them \
         into wall time.\n",
    );
    for table in ALL {
        let _ = write!(page, "\n## {}\n\n{}\n\n", table.name, table.doc.trim());
        page.push_str(
            "| column | type | unit | what it says | null means |\n|---|---|---|---|---|\n",
        );
        for c in table.columns {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} |",
                c.name,
                c.type_name,
                c.unit.label(),
                c.doc.trim(),
                c.null.unwrap_or("never"),
            );
        }
    }
    page.push_str(
        "\n# The words of their columns\n\n\
         Made from the declarations in `crates/recording/src/vocabulary.rs`. A word that is not here, \
         of another kernel or a later version, is kept as it is.\n",
    );
    for vocabulary in vocabulary::ALL {
        let (name, doc) = (vocabulary.name, vocabulary.doc.trim());
        let _ = write!(
            page,
            "\n## {name}\n\n{doc}\n\n| word | what it says |\n|---|---|\n"
        );
        for (word, says) in vocabulary.words {
            let _ = writeln!(page, "| `{word}` | {} |", says.trim());
        }
    }
    page
}
