//! What takes an advice back: a command, or words where none does.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

use crate::sentence::Sentence;
use crate::shell::ShellCommand;

/// What takes something back: a command, or words where none does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Undo {
    /// By this command.
    Command(ShellCommand),
    /// In words.
    Words(String),
}

impl Deref for Undo {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Undo::Command(command) => command,
            Undo::Words(words) => words,
        }
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<ShellCommand> for Undo {
    fn from(command: ShellCommand) -> Undo {
        Undo::Command(command)
    }
}

impl From<&'static str> for Undo {
    fn from(words: &'static str) -> Undo {
        Undo::Words(words.into())
    }
}

impl From<Sentence> for Undo {
    fn from(words: Sentence) -> Undo {
        Undo::Words(words.to_string())
    }
}

/// Always as words: JSON does not say which it was.
impl<'de> Deserialize<'de> for Undo {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Undo, D::Error> {
        String::deserialize(from).map(Undo::Words)
    }
}
