//! What is printed of this command's lines, in advice, on the pages of the causes and in the book, must parse.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::Cli;

/// A line of the command, and where it is told.
#[derive(Debug)]
struct Line {
    at: String,
    words: Vec<String>,
}

fn files(dir: &Path, ends: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, ends, found);
        } else if path.extension().is_some_and(|e| e == ends) {
            found.push(path);
        }
    }
}

/// What stands in for a value that is filled in, by the option before it.
fn filled(option: Option<&str>) -> &'static str {
    match option {
        Some("--addr") => "10.0.0.1",
        Some("--for") => "1s",
        Some("--cause") => "path-loss",
        _ => "1",
    }
}

/// The words of a line up to where the shell, the sentence or its comment goes on.
fn words(line: &str, verbs: &[String]) -> Option<Vec<String>> {
    let end = [
        "|", ";", "#", "&&", "`", "\"", "\\n", "   ", " > ", " 2>", " (", " /", "…", " [",
    ];
    let end = end.iter().filter_map(|stop| line.find(stop)).min();
    let mut words: Vec<String> = Vec::new();
    for word in line[..end.unwrap_or(line.len())].split_whitespace() {
        let word = word.trim_matches(['\'', ',', '.', ':', '[', ']']);
        let before = words.last().map(String::as_str);
        // Of `trace VIEW` the view is left open.
        if matches!(before, Some("trace" | "stat"))
            && words.len() == 2
            && word.chars().any(char::is_uppercase)
        {
            break;
        }
        // A name in capitals, or one in braces, is whatever the reader or the code puts there.
        let named = word.starts_with('{') || word.chars().all(|c| c.is_ascii_uppercase());
        match named && !word.is_empty() && before != Some("--") {
            true => words.push(filled(before).into()),
            false if word.is_empty() || word == "..." || word == "\\" => {}
            false => words.push(word.to_string()),
        }
    }
    verbs.contains(words.get(1)?).then_some(words)
}

/// Lines of the command in one file: in backticks, in a literal of their own, or on a line of a block.
fn lines(path: &Path, verbs: &[String], told: &mut Vec<Line>) {
    let text = fs::read_to_string(path).unwrap();
    // A literal that goes on behind a backslash is one line.
    let text = text.replace("\\\n", " ");
    for (number, line) in text.lines().enumerate() {
        let block = line.trim_start().trim_start_matches("$ ");
        let block = block.trim_start_matches("sudo ");
        let starts = [
            "`tcpwhy ",
            "\"tcpwhy ",
            "`sudo tcpwhy ",
            "\"sudo tcpwhy ",
            "&& tcpwhy ",
        ];
        let mut rests: Vec<&str> = Vec::new();
        for start in starts {
            rests.extend(line.match_indices(start).filter_map(|(at, _)| {
                let from = at + start.len() - "tcpwhy ".len();
                line.get(from..)
            }));
        }
        rests.extend(block.starts_with("tcpwhy ").then_some(block));
        told.extend(rests.into_iter().filter_map(|rest| {
            Some(Line {
                at: format!("{}:{}", path.display(), number + 1),
                words: words(rest, verbs)?,
            })
        }));
    }
}

/// `tcpwhy trace --json`, of whatever view.
fn is_view(line: &Line, kind: ErrorKind) -> bool {
    let views = matches!(
        line.words.get(1).map(String::as_str),
        Some("trace" | "stat")
    );
    let option = line.words.get(2).is_some_and(|word| word.starts_with("--"));
    views && option && kind == ErrorKind::UnknownArgument
}

#[test]
fn what_is_printed_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = vec![root.join("README.md")];
    files(&root.join("docs"), "md", &mut all);
    for (room, ends) in [
        ("explain", "md"),
        ("explain", "rs"),
        ("view", "rs"),
        ("tcpwhy", "rs"),
    ] {
        files(&root.join("crates").join(room).join("src"), ends, &mut all);
    }
    let verbs = Cli::command();
    let verbs: Vec<String> = verbs
        .get_subcommands()
        .map(|v| v.get_name().into())
        .collect();
    let mut told = Vec::new();
    // What is told here is wrong on purpose, or the title of a screen.
    let other = ["mistakes.rs", "told.rs", "top/draw.rs"];
    let meant = |path: &&PathBuf| !other.iter().any(|name| path.ends_with(name));
    all.iter()
        .filter(meant)
        .for_each(|path| lines(path, &verbs, &mut told));
    assert!(told.len() > 150, "{} lines", told.len());

    let wrong = told.iter().filter_map(|line| {
        let why = Cli::try_parse_from(&line.words).err()?;
        // One that is named only, not spelt out: an option without its value too.
        let last = line.words.last().is_some_and(|word| word.starts_with("--"));
        let named = [
            ErrorKind::DisplayHelp,
            ErrorKind::DisplayVersion,
            ErrorKind::MissingSubcommand,
            ErrorKind::MissingRequiredArgument,
            ErrorKind::TooFewValues,
            ErrorKind::WrongNumberOfValues,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ];
        let open = (why.kind() == ErrorKind::InvalidValue && last) || is_view(line, why.kind());
        let first = || why.to_string().lines().next().unwrap_or("").to_string();
        (!named.contains(&why.kind()) && !open)
            .then(|| format!("{}: {}: {}", line.at, line.words.join(" "), first()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(
        wrong.is_empty(),
        "these do not parse:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn an_option_that_is_none_is_found() {
    let verbs = ["trace".to_string()];
    let line = r#"Some(format!("tcpwhy trace wakeups 100ms --stacks --pid {pid}")),"#;
    let from = line.find("tcpwhy").unwrap();
    let words = words(&line[from..], &verbs).unwrap();
    assert_eq!(
        words,
        [
            "tcpwhy", "trace", "wakeups", "100ms", "--stacks", "--pid", "1"
        ]
    );
    let error = Cli::try_parse_from(words).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownArgument);
}
