//! No module of explain imports, at whatever distance, what imports it: a cause can be read alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path: `causes::path_loss`; of the crate itself none.
type Module = Vec<String>;

/// Every module with its text, without its tests.
fn modules() -> BTreeMap<Module, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut dirs = vec![root.clone()];
    let mut modules = BTreeMap::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && path.file_stem().unwrap() != "tests"
            {
                let text = fs::read_to_string(&path).expect("a source");
                let text = text
                    .split("#[cfg(test)]\nmod ")
                    .next()
                    .unwrap_or("")
                    .to_string();
                modules.insert(name(&root, &path), text);
            }
        }
    }
    modules
}

fn name(root: &Path, path: &Path) -> Module {
    let relative = path
        .strip_prefix(root)
        .expect("below it")
        .with_extension("");
    let mut parts: Module = relative
        .iter()
        .map(|p| p.to_string_lossy().into_owned())
        .collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib")) {
        parts.pop();
    }
    parts
}

/// The paths that a text names, from the crate's root on: `use` trees taken apart.
fn paths(module: &Module, text: &str) -> Vec<Module> {
    let lines = text.lines().map(|l| l.split("//").next().unwrap_or(""));
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for (at, start) in text
        .match_indices("crate::")
        .chain(text.match_indices("super::"))
    {
        let before = text[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
            let mut from = module.clone();
            let mut rest = &text[at..];
            if start == "crate::" {
                (from, rest) = (Vec::new(), &rest["crate::".len()..]);
            }
            while let Some(up) = rest.strip_prefix("super::") {
                from.pop();
                rest = up;
            }
            tree(from, rest, &mut found);
        }
    }
    found
}

/// One path, or the branches of one.
fn tree(mut at: Module, rest: &str, found: &mut Vec<Module>) {
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    let (segment, after) = rest.split_at(end);
    if !segment.is_empty() {
        at.push(segment.to_string());
        return match after.strip_prefix("::") {
            Some(after) => tree(at, after, found),
            None => found.push(at),
        };
    }
    let Some(inner) = rest.strip_prefix('{') else {
        return found.push(at);
    };
    let (mut depth, mut begins) = (0, 0);
    for (i, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return tree(at, inner[begins..i].trim(), found),
            '}' => depth -= 1,
            ',' if depth == 0 => {
                tree(at.clone(), inner[begins..i].trim(), found);
                begins = i + 1;
            }
            _ => {}
        }
    }
}

/// Which modules each imports, directly.
fn imports(modules: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |module: &Module, text: &str| {
        let known = paths(module, text).into_iter().filter_map(|mut path| {
            while !path.is_empty() && !modules.contains_key(&path) {
                path.pop();
            }
            // What is public is named from the root, which declares everything: no import of it.
            (!path.is_empty() && path != *module).then_some(path)
        });
        known.collect()
    };
    modules
        .iter()
        .map(|(m, text)| (m.clone(), of(m, text)))
        .collect()
}

#[test]
fn no_module_imports_what_imports_it() {
    let modules = modules();
    assert!(modules.len() > 60, "{}", modules.len());
    let mut left = imports(&modules);
    let arrows: usize = left.values().map(BTreeSet::len).sum();
    assert!(arrows > 200, "{arrows}");
    // What imports nothing that is left is in no cycle, time after time.
    loop {
        let free: Vec<Module> = left
            .iter()
            .filter(|(_, to)| to.iter().all(|m| !left.contains_key(m)))
            .map(|(m, _)| m.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|m| drop(left.remove(m)));
    }
    let cycle: Vec<String> = left.keys().map(|m| m.join("::")).collect();
    assert!(cycle.is_empty(), "in a cycle, or importing one: {cycle:?}");
}
