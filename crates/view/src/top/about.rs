//! What the picture of `top` is of, whatever is on it.

use crate::how::How;

/// What the picture is of.
#[derive(Clone, Debug)]
pub struct About {
    /// Host and kernel.
    pub host: String,
    /// It goes on.
    pub live: bool,
    /// Colours.
    pub colour: bool,
    /// The clock of the times that are shown.
    pub how: How,
    /// Sources that could not be had.
    pub failed: Vec<String>,
    /// What was lost or could not be had, in a line.
    pub health: Option<String>,
    /// What is sampled less often than asked for, in a line.
    pub slowed: Option<String>,
}
