//! The book's page of tables, made from the declarations.

use std::fmt::Write;

use crate::tables::ALL;

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
    page
}
