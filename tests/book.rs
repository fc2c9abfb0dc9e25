//! The generated pages of the book are what the code says. `make docs` writes them anew.

use std::fs;
use std::path::Path;

fn check(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/{name} is not current: run make docs");
}

#[test]
fn tables() {
    check("tables.md", &recording::tables_page());
}

#[test]
fn causes() {
    check("causes.md", &explain::causes_page());
}

#[test]
fn every_scenario_is_in_the_book() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab.md");
    let page = fs::read_to_string(path).unwrap();
    for scenario in lab::list().unwrap() {
        assert!(
            page.contains(&format!("| `{}` |", scenario.name)),
            "{}",
            scenario.name
        );
    }
}
