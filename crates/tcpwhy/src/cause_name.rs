//! The name of a cause on the command line: one that there is, or an error that names those like it.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

/// Names that are shown beside one that is unknown.
const SHOWN_NEAR: usize = 3;

/// Takes the names of causes; completions list them.
#[derive(Clone, Copy, Debug)]
pub struct CauseName;

impl TypedValueParser for CauseName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        let name = value.to_string_lossy();
        if ids().any(|id| id == name) {
            return Ok(name.into_owned());
        }
        let says = format!("{}\n", unknown(&name));
        Err(Error::raw(ErrorKind::InvalidValue, says).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        Some(Box::new(ids().map(PossibleValue::new)))
    }
}

fn ids() -> impl Iterator<Item = &'static str> {
    explain::causes().iter().map(|cause| cause.id.as_str())
}

/// What is said of a name that no cause has.
fn unknown(name: &str) -> String {
    let asked = parts(name);
    let shared = |id: &str| {
        let of = parts(id);
        asked.iter().filter(|part| of.contains(part)).count()
    };
    let mut near: Vec<(usize, &str)> = ids().map(|id| (shared(id), id)).collect();
    near.retain(|(shared, _)| *shared > 0);
    // The first of equals is the first in the book.
    near.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
    let near: Vec<&str> = near.iter().take(SHOWN_NEAR).map(|(_, id)| *id).collect();
    let near = match &near[..] {
        [] => String::new(),
        near => format!(" (there is {})", near.join(", ")),
    };
    format!("unknown cause {name}{near}; tcpwhy explain --symptom lists them all")
}

/// What it is made of: three letters of each of its words tell it from others.
fn parts(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| word.len() >= 3);
    words
        .map(|word| word.chars().take(3).collect::<String>().to_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cause_is_told_with_those_like_it() {
        assert_eq!(
            unknown("foo"),
            "unknown cause foo; tcpwhy explain --symptom lists them all"
        );
        let near = unknown("queue-overflow");
        assert!(
            near.contains("(there is accept-queue-overflow, syn-queue-overflow"),
            "{near}"
        );
        assert!(unknown("Nagle").contains("nagle-delayed-ack"));
        assert!(near.len() < 200, "{near}");
    }

    #[test]
    fn what_there_is_is_taken() {
        let command = Command::new("explain");
        let parse = |name: &str| CauseName.parse_ref(&command, None, OsStr::new(name));
        assert_eq!(parse("path-loss").unwrap(), "path-loss");
        assert!(parse("foo").is_err());
    }
}
