//! The report: a recording, explained, as one HTML file that opens anywhere, offline.

pub mod page;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use ts_rs::{Config, TS};

    use super::page::Page;

    /// The page's types in TypeScript are these; `make docs` writes them anew.
    #[test]
    fn the_pages_types_are_current() {
        let made = tempfile::tempdir().unwrap();
        let config = Config::new().with_out_dir(made.path());
        Page::export_all(&config).unwrap();
        let made = fs::read_to_string(made.path().join("page.ts")).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/page.ts");
        if std::env::var_os("BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &made).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == made,
            "web/src/page.ts is not current: run make docs"
        );
    }
}
