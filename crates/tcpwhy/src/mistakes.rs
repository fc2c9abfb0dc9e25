//! What people type that cannot be meant as it stands: a command without `--` before it.

use std::env;
use std::path::Path;

/// Verbs that record, and so take a command.
const RECORD: &[&str] = &["explain", "record"];

/// What to type instead, if these arguments are such a mistake.
pub fn meant(args: &[String]) -> Option<String> {
    let [_, verb, word, rest @ ..] = args else {
        return None;
    };
    if !RECORD.contains(&verb.as_str()) || word.starts_with('-') || Path::new(word).exists() {
        return None;
    }
    // A name that is neither a path nor ends as recordings do, or a program with arguments.
    let bare = !word.contains('/') && !word.contains(".tcpw");
    let with_arguments = !rest.is_empty() && is_program(word);
    if !bare && !with_arguments {
        return None;
    }
    let what = match verb.as_str() {
        "explain" => format!("{word}: no such recording"),
        _ => format!("unexpected argument {word}"),
    };
    let command = [std::slice::from_ref(word), rest].concat().join(" ");
    Some(format!(
        "{what}; to record a command: tcpwhy {verb} -- {command}"
    ))
}

/// Whether a shell would find a program of this name.
fn is_program(name: &str) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    name.contains('/') && Path::new(name).is_file()
        || env::split_paths(&paths).any(|dir| dir.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::meant;

    fn said(line: &str) -> Option<String> {
        let words: Vec<_> = line.split(' ').map(String::from).collect();
        meant(&words)
    }

    #[test]
    fn a_command_without_its_dashes() {
        assert_eq!(
            said("tcpwhy explain sh -c true").as_deref(),
            Some("sh: no such recording; to record a command: tcpwhy explain -- sh -c true")
        );
        assert_eq!(
            said("tcpwhy record sh").as_deref(),
            Some("unexpected argument sh; to record a command: tcpwhy record -- sh")
        );
        assert!(said("tcpwhy explain nosuchprogram").is_some());
        for fine in [
            "tcpwhy",
            "tcpwhy explain",
            "tcpwhy explain --for 3s",
            "tcpwhy explain -- sh -c true",
            "tcpwhy explain nosuch.tcpwhy",
            "tcpwhy explain ./nosuch/recording",
            "tcpwhy explain /",
            "tcpwhy trace sh",
        ] {
            assert_eq!(said(fine), None, "{fine}");
        }
    }
}
