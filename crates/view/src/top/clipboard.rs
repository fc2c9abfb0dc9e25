//! What a key puts on the clipboard of the reader's terminal: a command, by OSC 52.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::findings::Findings;
use super::state::{Open, Pane, Seen, State, Target};
use crate::escape::escape;

/// Terminals take no more, and no command is that long.
const LONGEST: usize = 4_096;

impl Findings {
    /// The command of the finding that is open, or else selected: the first of its advice that has one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn command(&self, state: &State, seen: &Seen) -> Result<&str, &'static str> {
        let selected = || seen.targets[Pane::Findings as usize].get(state.selected(Pane::Findings));
        let target = match &state.open {
            Some((Open::Detail(target @ Target::Finding(_)), _)) => Some(target),
            _ => selected(),
        };
        let Some(Target::Finding(key)) = target else {
            return Err("nothing to copy: there is no finding");
        };
        let case = self.cases.iter().find(|case| case.key() == *key);
        let command = case.and_then(|case| Some(case.command()?.2));
        command.ok_or("nothing to copy: no command does it")
    }
}

/// The sequence that makes a terminal take a command to its clipboard; `None` for one that cannot be shown as it is:
/// it should not be run unread.
pub fn to_clipboard(command: &str) -> Option<String> {
    let plain = escape(command) == command && command.len() <= LONGEST;
    plain.then(|| format!("\x1b]52;c;{}\x07", STANDARD.encode(command)))
}

#[cfg(test)]
mod tests {
    use super::to_clipboard;

    #[test]
    fn only_what_can_be_read_is_copied() {
        let copied = to_clipboard("kill -CONT 15748");
        assert_eq!(
            copied.as_deref(),
            Some("\x1b]52;c;a2lsbCAtQ09OVCAxNTc0OA==\x07")
        );
        for hidden in ["ls\nrm x", "ls \x1b[8m; rm x", "ls \u{202e}x", "\x07"] {
            assert_eq!(to_clipboard(hidden), None, "{hidden:?}");
        }
        assert_eq!(to_clipboard(&"x".repeat(5_000)), None);
    }
}
