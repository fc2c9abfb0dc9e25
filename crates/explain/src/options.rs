//! What to look for.

use std::fmt;

use recording::Filter;

use crate::cause::Cause;
use crate::causes;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) causes: Vec<Cause>,
    pub(crate) filter: Filter,
}

impl Default for Options {
    /// Every cause.
    fn default() -> Options {
        Options {
            causes: causes::ALL.to_vec(),
            filter: Filter::default(),
        }
    }
}

impl Options {
    /// Only the named cause.
    ///
    /// # Errors
    ///
    /// No cause has this id.
    pub fn only(id: &str) -> Result<Options, UnknownCause> {
        let known = causes::ALL.iter().find(|c| c.id == id);
        let cause = known.ok_or_else(|| UnknownCause(id.to_string()))?;
        Ok(Options {
            causes: vec![*cause],
            filter: Filter::default(),
        })
    }
}

impl Options {
    /// Tests this cause, too.
    pub fn also(mut self, cause: Cause) -> Options {
        self.causes.push(cause);
        self
    }

    /// Reports only findings about what the filter asks for.
    pub fn about(self, filter: Filter) -> Options {
        Options { filter, ..self }
    }
}

/// No cause has this id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCause(pub String);

impl fmt::Display for UnknownCause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let known: Vec<_> = causes::ALL.iter().map(|c| c.id.as_str()).collect();
        let known = known.join(", ");
        write!(f, "unknown cause {:?}; known causes: {known}", self.0)
    }
}

impl std::error::Error for UnknownCause {}
