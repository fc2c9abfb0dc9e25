//! No file of a crate imports, at whatever distance, what imports it: each can be read alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The crates: all are free of cycles.
const HELD: &[&str] = &[
    "alerts",
    "analysis",
    "cli",
    "explain",
    "hostile",
    "lab",
    "models",
    "observe",
    "recording",
    "store",
    "synth",
    "tcpwhy",
    "tcpwhy-lab",
    "view",
];

/// A module's path: `causes::path_loss`; of the crate itself none.
type Module = Vec<String>;
type Sources = BTreeMap<Module, String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Every module of a crate with its text, without its tests.
fn sources(root: &Path) -> Sources {
    let mut dirs = vec![root.to_path_buf()];
    let mut sources = Sources::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                sources.insert(module(root, &path), code(&text));
            }
        }
    }
    sources.retain(|module, _| !module.iter().any(|part| part == "tests"));
    sources
}

fn module(root: &Path, path: &Path) -> Module {
    let relative = path.strip_prefix(root).expect("below it");
    let parts = relative.with_extension("");
    let mut parts: Module = parts
        .iter()
        .map(|p| p.to_string_lossy().into_owned())
        .collect();
    let last = parts.last().map(String::as_str);
    if matches!(last, Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// A text without comments, and without its tests, which end it.
fn code(text: &str) -> String {
    let lines = text.lines().zip(text.lines().skip(1).chain([""]));
    let code = lines.take_while(|(line, next)| {
        let is_module = next.contains("mod ") && next.ends_with('{');
        !(line.starts_with("#[cfg(test)]") && is_module)
    });
    let code = code.map(|(line, _)| line.split("//").next().unwrap_or(""));
    code.collect::<Vec<_>>().join("\n")
}

/// A path that a text names, from the crate's root on, and what it is called there.
struct Named {
    path: Module,
    name: String,
}

/// The paths that begin at the crate's root or above a module.
fn paths(module: &Module, text: &str) -> Vec<Named> {
    let starts = text.match_indices("crate::");
    let starts = starts.chain(text.match_indices("super::"));
    let mut found = Vec::new();
    for (at, _) in starts {
        let before = text[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
            path(module, &text[at..], &mut found);
        }
    }
    found
}

/// What a module's `use` lines give a name in it: `account::Ledger` is `account::ledger::Ledger`.
fn aliases(sources: &Sources) -> BTreeMap<Module, Module> {
    let mut aliases = BTreeMap::new();
    for (module, text) in sources {
        let mut found = Vec::new();
        for (at, used) in text.match_indices("use ") {
            let line = text[..at].rsplit('\n').next().unwrap_or("").trim();
            if line.is_empty() || line.starts_with("pub") {
                path(module, &text[at + used.len()..], &mut found);
            }
        }
        for Named { path, name } in found {
            let mut alias = module.clone();
            alias.push(name);
            if alias != path && !sources.contains_key(&alias) {
                aliases.insert(alias, path);
            }
        }
    }
    aliases
}

/// The path with which a text begins, or the branches of a tree of them.
fn path(module: &Module, text: &str, found: &mut Vec<Named>) {
    let (mut from, mut rest) = (module.clone(), text);
    if let Some(after) = rest.strip_prefix("crate::") {
        (from, rest) = (Module::new(), after);
    }
    rest = rest.strip_prefix("self::").unwrap_or(rest);
    while let Some(after) = rest.strip_prefix("super::") {
        from.pop();
        rest = after;
    }
    branches(from, rest, found);
}

fn branches(mut at: Module, text: &str, found: &mut Vec<Named>) {
    let (segment, after) = text.split_at(word(text));
    if !segment.is_empty() {
        if segment != "self" {
            at.push(segment.to_string());
        }
        if let Some(after) = after.strip_prefix("::") {
            return branches(at, after, found);
        }
    }
    let Some(inner) = after.strip_prefix('{') else {
        let alias = after.strip_prefix(" as ").map(|a| &a[..word(a)]);
        let name = alias.or(at.last().map(String::as_str));
        let name = name.unwrap_or("").to_string();
        return found.push(Named { path: at, name });
    };
    let (mut depth, mut begins) = (0, 0);
    for (i, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return branches(at, inner[begins..i].trim(), found),
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches(at.clone(), inner[begins..i].trim(), found);
                begins = i + 1;
            }
            _ => {}
        }
    }
}

/// How long the word is with which a text begins.
fn word(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    end.unwrap_or(text.len())
}

/// The module that declares what a path names, through those that only pass it on.
fn declares(sources: &Sources, aliases: &BTreeMap<Module, Module>, path: &Module) -> Module {
    let mut path = path.clone();
    // As many names as something may pass through.
    for _ in 0..8 {
        let known = |n: &usize| !sources.contains_key(&path[..*n]);
        let Some(unknown) = (1..=path.len()).find(known) else {
            break;
        };
        let rest = path.split_off(unknown);
        let Some(to) = aliases.get(&path) else {
            path.pop();
            break;
        };
        path = [to.clone(), rest].concat();
    }
    path
}

/// Which modules each imports, directly. That one has others below it is no import, and what the crate's root
/// declares belongs to all.
fn imports(sources: &Sources) -> Imports {
    let aliases = aliases(sources);
    let of = |module: &Module, text: &str| {
        let named = paths(module, text).into_iter();
        let to = named.map(|n| declares(sources, &aliases, &n.path));
        to.filter(|to| !to.is_empty() && to != module).collect()
    };
    let all = sources.iter();
    all.map(|(m, text)| (m.clone(), of(m, text))).collect()
}

/// What a module imports, at whatever distance: itself where it is in a cycle.
fn reached(imports: &Imports, from: &Module) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = imports[from].iter().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module.clone()) {
            next.extend(&imports[module]);
        }
    }
    reached
}

/// The arrows between modules that import each other, at whatever distance.
fn cycles(imports: &Imports) -> Vec<String> {
    let reached = |m: &Module| reached(imports, m);
    let reached: BTreeMap<&Module, _> = imports.keys().map(|m| (m, reached(m))).collect();
    let arrows = imports.iter().flat_map(|(from, to)| {
        let back = to.iter().filter(|to| reached[to].contains(from));
        back.map(|to| format!("{} → {}", from.join("::"), to.join("::")))
    });
    arrows.collect()
}

#[test]
fn no_file_imports_what_imports_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for held in HELD {
        let sources = sources(&crates.join(held).join("src"));
        assert!(sources.len() > 4, "{held} has {} files", sources.len());
        let cycles = cycles(&imports(&sources));
        assert!(
            cycles.is_empty(),
            "cycles in {held}:\n{}",
            cycles.join("\n")
        );
    }
}

#[test]
fn a_cause_imports_no_other_cause() {
    let explain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../explain/src");
    let imports = imports(&sources(&explain));
    let cause = |m: &Module| match &m[..] {
        [folder, cause, ..] if folder == "causes" => Some(cause.clone()),
        _ => None,
    };
    let arrows = imports.iter().flat_map(|(from, to)| {
        let from = cause(from);
        let others = to.iter().filter_map(cause).zip(from.into_iter().cycle());
        others.filter(|(to, from)| to != from).collect::<Vec<_>>()
    });
    let arrows: Vec<_> = arrows.collect();
    assert!(arrows.is_empty(), "a cause by a cause: {arrows:?}");
}

/// The arrows in cycles of a crate with these files.
fn cycles_in(files: &[(&str, &str)]) -> Vec<String> {
    let sources = files.iter().map(|(name, text)| {
        let path = Path::new("src").join(name);
        (module(Path::new("src"), &path), code(text))
    });
    cycles(&imports(&sources.collect()))
}

#[test]
fn a_cycle_is_found_at_any_distance_and_however_it_is_spelled() {
    let two = [
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "fn b(a: super::a::A) {}"),
    ];
    assert_eq!(cycles_in(&two), ["a → b", "b → a"]);
    let three = [
        ("a.rs", "use crate::{\n    c, b::{self, B as Other},\n};"),
        ("b/mod.rs", "mod deep;"),
        ("b/deep.rs", "use super::super::c::{d::D, C};"),
        ("c.rs", "pub(crate) use super::b::deep::{Deep};"),
    ];
    assert_eq!(cycles_in(&three), ["b::deep → c", "c → b::deep"]);
    // Through names that the root, or a module above, passes on.
    let passed = [
        (
            "lib.rs",
            "mod a;\nmod b;\npub use a::A;\npub use b::deep::B as Bee;",
        ),
        ("a.rs", "use crate::Bee;"),
        ("b/mod.rs", "mod deep;\npub(crate) use deep::B;"),
        ("b/deep.rs", "use crate::A;"),
    ];
    assert_eq!(cycles_in(&passed), ["a → b::deep", "b::deep → a"]);
}

#[test]
fn what_only_looks_like_a_cycle_is_none() {
    let none = [
        ("lib.rs", "mod a;\npub use a::A;\npub use b::B;"),
        ("a.rs", "use crate::b::{Leaf, B};\nuse crate::version;"),
        // Passes on what its children declare.
        (
            "b/mod.rs",
            "mod leaf;\nmod more;\npub use leaf::Leaf;\npub use more::B;",
        ),
        (
            "b/leaf.rs",
            "//! Of [`A`](crate::A).\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
        ),
        ("b/more.rs", "use super::Leaf; // and not crate::a"),
        ("b/tests.rs", "use crate::a::A;"),
    ];
    assert!(cycles_in(&none).is_empty(), "{:?}", cycles_in(&none));
}
