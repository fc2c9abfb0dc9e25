//! Commands in a sentence are typed where they look, and names beside them make none.

use std::fs;
use std::path::{Path, PathBuf};

use analysis::Netns;

use crate::Sentence;
use crate::shell::{Piece, pieces};

fn named(name: &str) -> Netns {
    Netns {
        name: Some(name.into()),
        ..Netns::default()
    }
}

#[test]
fn commands_look_into_the_namespace_that_they_are_about() {
    let text = "`nstat -az TcpExtListenDrops` no longer rises, `ss -ltn` shows 0, `tcpwhy trace resets` none.";
    let how = Sentence::from(text);
    assert_eq!(how.in_netns(&named("host")), text);
    assert_eq!(
        how.in_netns(&named("web")),
        "`ip netns exec web nstat -az TcpExtListenDrops` no longer rises, `ip netns exec web ss -ltn` shows 0, \
         `tcpwhy trace resets` none."
    );
    let shows = Sentence::from("`ss -ltn` shows 0.");
    assert_eq!(
        shows.in_netns(&named("pid 7")),
        "`nsenter -t 7 -n ss -ltn` shows 0."
    );
    assert_eq!(
        shows.in_netns(&named("a\nb")),
        "`ss -ltn` in that network namespace shows 0."
    );
    let there = "`nstat -az TcpExtDelayedACKs` on the peer stands still.";
    assert_eq!(Sentence::from(there).in_netns(&named("web")), there);
}

#[test]
fn words_stay_words_within_a_command_and_without() {
    let how = |dev: &str, comm: &str| {
        sentence!(
            "`tc -s qdisc show dev {dev}` stands still for {comm}.",
            dev,
            comm
        )
        .to_string()
    };
    assert_eq!(
        how("eth0", "nginx"),
        "`tc -s qdisc show dev eth0` stands still for nginx."
    );
    assert_eq!(
        how("a;b", "x`reboot`"),
        "`tc -s qdisc show dev 'a;b'` stands still for xˋrebootˋ."
    );
    // A quotation mark that ends the command would begin another.
    assert_eq!(
        how("a`b", "nginx"),
        "`tc -s qdisc show dev …` stands still for nginx."
    );
}

/// The literals of a source, each with what stands before it.
fn literals(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            at += 3;
        } else if let Some(literal) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = literal.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or(literal.len());
            found.push((&text[..at], &literal[..end]));
            at += end + 2;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

fn sources(dir: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, to);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            to.push(path);
        }
    }
}

/// What is put between backquotes by `format!` is neither quoted nor refused.
#[test]
fn commands_in_sentences_are_filled_in_by_sentence() {
    // Pages of the book, out of declarations; and what was typed, told to who typed it.
    const OTHERS: &[&str] = &[
        "explain/src/lib.rs",
        "explain/src/limits/page.rs",
        "explain/src/schema.rs",
        "explain/src/who_wins/page.rs",
        "view/src/book.rs",
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    for room in ["analysis", "explain", "view"] {
        sources(&crates.join(room).join("src"), &mut all);
    }
    let mut looked = 0;
    for path in all {
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        for (before, literal) in literals(code) {
            let filled = before.trim_end().ends_with("sentence!(");
            let spans = literal.split('`').skip(1).step_by(2);
            let holes = spans
                .flat_map(pieces)
                .any(|piece| matches!(piece, Piece::Name(_)));
            looked += usize::from(filled && holes);
            let other = OTHERS.iter().any(|other| path.ends_with(other));
            assert!(filled || other || !holes, "{}: {literal}", path.display());
        }
    }
    assert!(looked > 30, "{looked} commands in sentences");
}
