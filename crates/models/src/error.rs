//! What can go wrong with a model, each in one line that says what would be right.

/// Why a model could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such model.
    #[error("no model `{0}`; `tcpwhy model list` prints those there are")]
    UnknownModel(String),
    /// There is no such parameter.
    #[error("{model} has no parameter `{name}`; it has {known}")]
    UnknownParameter {
        /// The model.
        model: &'static str,
        /// What was asked for.
        name: String,
        /// The parameters that it has.
        known: String,
    },
    /// There is no such preset.
    #[error("{model} has no preset `{name}`; it has {known}")]
    UnknownPreset {
        /// The model.
        model: &'static str,
        /// What was asked for.
        name: String,
        /// The presets that it has.
        known: String,
    },
    /// There is no such figure.
    #[error("no figure `{name}`; there are {known}")]
    UnknownFigure {
        /// What was asked for.
        name: String,
        /// The figures of the model.
        known: String,
    },
    /// Not of the form `name=value` or `name=a..b`.
    #[error("`{0}` is not {1}")]
    Malformed(String, &'static str),
    /// A value that the parameter cannot have.
    #[error("{name}={value}: allowed is {allowed}")]
    Value {
        /// The parameter.
        name: String,
        /// What was asked for.
        value: String,
        /// The allowed range, with its unit.
        allowed: String,
    },
    /// Values that are allowed, but not together.
    #[error("{0}")]
    Together(String),
    /// A model's `presets.toml` sets what its parameters do not allow: a mistake of ours.
    #[error("{model}: presets.toml: {why}")]
    Presets {
        /// The model.
        model: &'static str,
        /// What does not fit.
        why: String,
    },
    /// The recording could not be written.
    #[error(transparent)]
    Recording(#[from] recording::Error),
}

impl Error {
    /// Whether values go together; `why` names the one that is wrong and what is allowed.
    pub(crate) fn together(sound: bool, why: String) -> Result<(), Error> {
        if sound {
            Ok(())
        } else {
            Err(Error::Together(why))
        }
    }
}
