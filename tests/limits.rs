//! Only the numbers in `explain::limits` decide an answer.
//!
//! This lint reads explain without `compare` (which judges nothing), and the part of view that reports on requests. It
//! sees every numeric constant, and on lines that compare, numbers with a fraction and multiples such as "half". It
//! cannot see a comparison with a whole number, a number that a line above computes, or comparisons in a file of
//! advice.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Prefixes of the names of numbers that are not limits: bounds of memory, of what is shown, of what is advised, and
/// facts of a kernel.
const OTHERS: &[&str] = &["MAX_", "SHOWN_", "ADVISED_", "LINUX_", "ILLUMOS_"];
/// The version of a format decides no answer.
const VERSION: &str = "SCHEMA";
/// Numbers with a fraction that only convert: units of time, per cent, bits per byte, none and all.
const CONVERTS: &[&str] = &[
    "0.0", "1.0", "8.0", "100.0", "1_000.0", "1000.0", "1e3", "1e6", "1e9", "1e-3", "1e-9",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Collects the paths of the sources in a directory, or the path of the one file.
fn sources(at: &Path, found: &mut Vec<PathBuf>) {
    if at.is_dir() {
        for entry in fs::read_dir(at).expect("sources").flatten() {
            sources(&entry.path(), found);
        }
    } else if at.extension().is_some_and(|e| e == "rs") {
        found.push(at.to_path_buf());
    }
}

/// The sources that the lint checks: path and text.
fn held() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    sources(&crates().join("explain/src"), &mut paths);
    sources(&crates().join("view/src/requests.rs"), &mut paths);
    let held = paths.into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a source");
        let path = path.strip_prefix(crates()).expect("below it");
        (path.to_string_lossy().into_owned(), text)
    });
    let other = |path: &str| {
        let of = |part: &str| path.contains(part);
        of("/limits/") || of("/compare/") || of("/tests/") || path.ends_with("tests.rs")
    };
    held.filter(|(path, _)| !other(path)).collect()
}

/// The lines of a text that are code, without tests, comments and quoted text.
fn code(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().zip(text.lines().skip(1).chain([""]));
    let lines = lines.take_while(|(line, next)| {
        let is_module = next.contains("mod ") && next.ends_with('{');
        !(line.starts_with("#[cfg(test)]") && is_module)
    });
    let mut quoted = false;
    let bare = lines.map(|(line, _)| {
        let (mut bare, mut before) = (String::new(), ' ');
        for c in line.chars() {
            if c == '"' && before != '\\' && before != '\'' {
                quoted = !quoted;
            } else if !quoted {
                bare.push(c);
            }
            before = if before == '\\' { ' ' } else { c };
        }
        bare.split("//").next().unwrap_or("").trim().to_string()
    });
    bare.enumerate().map(|(i, line)| (i + 1, line)).collect()
}

/// The name of the constant that a line declares, if it is a number, several numbers, or a range.
fn declares(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("pub(crate) ")
        .or(line.strip_prefix("pub(super) "));
    let rest = rest.or(line.strip_prefix("pub ")).unwrap_or(line);
    let declared = rest.strip_prefix("const ")?;
    let (name, kind) = declared
        .split_once(": ")
        .filter(|(name, _)| !name.contains(' '))?;
    let numbers = [
        "u8", "u16", "u32", "u64", "usize", "i32", "i64", "f32", "f64",
    ];
    let kind = kind.trim_start_matches(['[', '(']);
    let range = kind.contains("Range");
    (range || numbers.iter().any(|n| kind.starts_with(n))).then_some(name)
}

/// Whether a name belongs to a number that decides no answer.
fn is_other(name: &str) -> bool {
    name == VERSION || OTHERS.iter().any(|other| name.starts_with(other))
}

/// The numbers with a fraction or an exponent in a line of code.
fn fractions(line: &str) -> Vec<&str> {
    let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '-';
    let words = line.split(|c: char| !inside(c));
    let numbers = words.filter(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    let numbers = numbers.map(|w| w.trim_end_matches(|c: char| !c.is_alphanumeric()));
    let fraction = |w: &&str| {
        let digits = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        let point = w.split_once('.').is_some_and(|(_, after)| digits(after));
        point || w.contains('e') && !w.starts_with("0x")
    };
    numbers.filter(fraction).collect()
}

/// Whether a line multiplies or divides by a whole number, as in `* 2`, `/ 10`, `saturating_mul(2)`. A power of a
/// thousand only converts.
fn multiplies(line: &str) -> bool {
    let by = |after: &str| {
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
        let number = after[..end.unwrap_or(after.len())].replace('_', "");
        let is_whole = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
        is_whole && !["1000", "1000000", "1000000000"].contains(&number.as_str())
    };
    let operators = ["* ", "/ ", "_mul(", "_div("];
    operators.iter().any(|operator| {
        let mut at = line.match_indices(operator);
        at.any(|(at, _)| by(&line[at + operator.len()..]))
    })
}

/// Whether a line contains a comparison.
fn compares(line: &str) -> bool {
    let line = format!(" {line} ");
    [" <= ", " >= ", " < ", " > "]
        .iter()
        .any(|op| line.contains(op))
}

/// Why a line decides by a number that is not a limit.
fn decides(path: &str, line: &str) -> Option<&'static str> {
    if declares(line).is_some_and(|name| !is_other(name)) {
        return Some("a constant");
    }
    // A multiple of a limit, or of a bound, may be intended.
    let of_known = line.contains("limits::") || OTHERS.iter().any(|other| line.contains(other));
    if path.ends_with("/advice.rs") || of_known || !compares(line) {
        return None;
    }
    let fraction = fractions(line).iter().any(|n| !CONVERTS.contains(n));
    if fraction {
        return Some("a number with a fraction");
    }
    multiplies(line).then_some("a multiple")
}

#[test]
fn no_other_number_decides() {
    let held = held();
    assert!(held.len() > 150, "{} files", held.len());
    let found = held.iter().flat_map(|(path, text)| {
        let lines = code(text).into_iter();
        lines.filter_map(move |(at, line)| {
            decides(path, &line).map(|why| format!("{path}:{at}: {why}: {line}"))
        })
    });
    let found: Vec<String> = found.collect();
    assert!(
        found.is_empty(),
        "a number that decides is one of explain::limits; what only bounds, is told, advised or a fact of a kernel has \
         a name of {OTHERS:?}:\n{}",
        found.join("\n")
    );
}

#[test]
fn every_limit_decides() {
    let mut used = String::new();
    for (_, text) in held() {
        used.push_str(&text);
    }
    let named: BTreeSet<&str> = used
        .split("limits::")
        .skip(1)
        .filter_map(|after| {
            after
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
        .collect();
    let unused = explain::limits::all().filter(|limit| !named.contains(limit.name));
    let unused: Vec<&str> = unused.map(|limit| limit.name).collect();
    assert!(unused.is_empty(), "limits that nothing reads: {unused:?}");
}

#[test]
fn the_lint_sees_what_it_says() {
    let a_cause = |line: &str| decides("explain/src/causes/a.rs", line);
    assert_eq!(a_cause("const MIN_LOST: u64 = 20;"), Some("a constant"));
    assert_eq!(
        a_cause("pub(crate) const WAITS: RangeInclusive<u64> = 3..=6;"),
        Some("a constant")
    );
    assert_eq!(a_cause("const MAX_PLACES: usize = 65_536;"), None);
    assert_eq!(a_cause("const CAUSE: Cause = Cause {"), None);
    assert_eq!(
        a_cause("if share >= 0.25 {"),
        Some("a number with a fraction")
    );
    assert_eq!(a_cause("<= most * 1.5"), Some("a number with a fraction"));
    assert_eq!(a_cause("let mbit = rate * 8.0 / 1e6;"), None);
    assert_eq!(a_cause("if seconds * 1e9 >= 1.0 {"), None);
    assert_eq!(a_cause("lost.saturating_mul(2) >= of"), Some("a multiple"));
    assert_eq!(a_cause("&& self.ns >= limits::STALL.ns() / 2"), None);
    assert_eq!(
        decides("explain/src/causes/a/advice.rs", "max * 3 / 4 <= now"),
        None
    );
    let lines =
        code("let a = \"1 < 0.5\"; // 0.5 < 1\n#[cfg(test)]\nmod tests {\nconst A: u8 = 1;\n}");
    assert_eq!(lines, [(1, "let a = ;".to_string())]);
}
