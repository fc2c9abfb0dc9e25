//! The generated pages of the book are what the code says. `make docs` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{lab_binary, stderr, stdout, tcpwhy};

fn docs(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../../docs").join(name)
}

fn check(name: &str, page: &str) {
    check_at(&docs(name), page);
}

fn check_at(path: &Path, page: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, page).unwrap();
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().display();
    assert!(written == page, "{name} is not current: run make docs");
}

/// What `journalctl -x` says of a finding.
#[test]
fn the_catalogue_of_the_journal() {
    let packaged = docs("../packaging/systemd/tcpwhy.catalog");
    check_at(&packaged, &alerts::render::journal::catalogue());
}

#[test]
fn tables() {
    check("tables.md", &recording::tables_page());
}

/// What the fleet's package reads recordings by.
#[test]
fn tables_for_other_programs() {
    check(
        "../fleet/src/tcpwhy_fleet/tables.json",
        &recording::tables_json(),
    );
}

#[test]
fn symptoms() {
    check("symptoms.md", &explain::symptoms_page());
}

#[test]
fn causes() {
    let scenarios = lab::list().unwrap();
    let planted = |id: explain::Id| {
        let plants =
            |s: &&lab::Summary| s.cause == id.as_str() || s.beside.iter().any(|b| b == id.as_str());
        let names = scenarios.iter().filter(plants).map(|s| s.name.to_string());
        names.collect()
    };
    let sittings = lab::Sittings::open(&docs("exam")).unwrap();
    let grade = lab::Grade::of(&sittings.all);
    let examined = |id: explain::Id| {
        let row = grade.confusion.get(id.as_str())?;
        Some((row.named, row.planted))
    };
    check("causes.md", &explain::causes_page(planted, examined));
}

#[test]
fn limits() {
    check("limits.md", &explain::limits::page());
}

#[test]
fn who_wins() {
    check("who-wins.md", &explain::who_wins_page());
}

#[test]
fn corpus() {
    check("corpus.md", &crate::corpus::page());
}

/// The page with what stands between `<!-- NAME: made from the code -->` and `<!-- end -->` made anew.
fn with_parts(page: &str, parts: &[(String, String)]) -> String {
    let mut page = page.to_string();
    for (name, part) in parts {
        let begins = format!("<!-- {name}: made from the code -->\n");
        let at = page.find(&begins);
        let at = at.unwrap_or_else(|| panic!("no place for {name}")) + begins.len();
        let to = page[at..].find("<!-- end -->").unwrap();
        page.replace_range(at..at + to, &format!("\n{part}\n"));
    }
    page
}

#[test]
fn columns_of_views() {
    let views = view::book::documented();
    for name in ["stat", "trace"] {
        let of_page = || views.iter().filter(|v| v.page == name);
        let columns = of_page().map(|v| (format!("columns of {}", v.kind), v.columns.clone()));
        let written = fs::read_to_string(docs(&format!("{name}.md"))).unwrap();
        let page = with_parts(&written, &columns.collect::<Vec<_>>());
        check(&format!("{name}.md"), &page);

        let mut fields = String::from("| type | fields |\n|---|---|\n");
        for view in of_page() {
            fields += &format!("| [`{}`]({name}.md) | {} |\n", view.kind, view.fields);
        }
        let written = fs::read_to_string(docs("json.md")).unwrap();
        let fields = [(format!("fields of {name}"), fields)];
        check("json.md", &with_parts(&written, &fields));
    }
}

#[test]
fn every_scenario_is_in_the_book() {
    let page = fs::read_to_string(docs("lab.md")).unwrap();
    for scenario in lab::list().unwrap() {
        assert!(
            page.contains(&format!("| `{}` |", scenario.name)),
            "{}",
            scenario.name
        );
    }
}

#[test]
fn every_cause_is_in_the_readme() {
    let readme = fs::read_to_string(docs("../README.md")).unwrap();
    for cause in explain::causes() {
        let row = format!("| `{}` |", cause.id);
        assert!(readme.contains(&row), "{row}");
    }
}

#[test]
fn the_readmes_answer_is_what_explain_says() {
    let recording = "fixtures/corpus/program-nginx-backlog.tcpw";
    let output = tcpwhy(&["explain", recording])
        .current_dir(docs("../."))
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let readme = fs::read_to_string(docs("../README.md")).unwrap();
    let indented = |line: &str| match line {
        "" => String::new(),
        line => format!("    {line}"),
    };
    let said: Vec<String> = stdout(&output).lines().map(indented).collect();
    let said = said.join("\n");
    assert!(said.contains("causes judged"), "{said}");
    assert!(
        readme.contains(&said),
        "README.md shows another answer than\n{said}"
    );
}

/// Files that people read as words: code, the book, the page of the report.
fn prose(dir: &Path, found: &mut Vec<PathBuf>) {
    let kinds = ["rs", "md", "ts", "tsx", "toml", "c", "h"];
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "node_modules" && name != "target" && name != "snapshots" {
                prose(&path, found);
            }
        } else if path
            .extension()
            .is_some_and(|e| kinds.iter().any(|k| e == *k))
        {
            found.push(path);
        }
    }
}

#[test]
fn words_are_those_of_the_glossary() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let glossary = fs::read_to_string(root.join("docs/glossary.md")).unwrap();
    let cells = glossary.lines().filter(|l| l.starts_with("| "));
    let not = cells.filter_map(|l| l.split('|').nth(3)?.trim().strip_prefix('"'));
    let not: Vec<&str> = not.map(|w| w.trim_end_matches('"')).collect();
    assert!(not.len() >= 8, "{not:?}");
    let mut files = Vec::new();
    for dir in ["crates", "docs", "web", "tests"] {
        prose(&root.join(dir), &mut files);
    }
    files.push(root.join("README.md"));
    files.push(root.join("ARCHITECTURE.md"));
    assert!(files.len() > 300);
    let mut wrong = Vec::new();
    for file in files.iter().filter(|f| !f.ends_with("glossary.md")) {
        let text = fs::read_to_string(file).unwrap();
        // "in the meantime" is English.
        let worse = |line: &str| {
            let line = line.to_lowercase().replace("in the meantime", "");
            let worse = not.iter().filter(|w| line.contains(**w));
            worse.copied().collect::<Vec<&str>>()
        };
        for (number, line) in text.lines().enumerate() {
            let worse = worse(line).into_iter();
            wrong.extend(worse.map(|word| format!("{}:{}: {word}", file.display(), number + 1)));
        }
        // A line may end between two words.
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let worse = worse(&joined).into_iter();
        wrong.extend(worse.map(|word| format!("{}: {word}", file.display())));
    }
    assert!(
        wrong.is_empty(),
        "docs/glossary.md has better words:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_cases_are_walked() {
    for letter in ["A", "B", "C", "D", "E"] {
        let walk = Command::new(lab_binary())
            .args(["case", letter, "--markdown"])
            .output()
            .unwrap();
        assert!(walk.status.success(), "{}", stderr(&walk));
        check(
            &format!("case-{}.md", letter.to_lowercase()),
            &stdout(&walk),
        );
    }
}
