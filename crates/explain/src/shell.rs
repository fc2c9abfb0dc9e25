//! A command that a person may paste into a shell: words of our own, and words of a recording that cannot leave theirs.
//!
//! The person who pastes is root, and a recording may come from anyone. So a command is filled in as a query of a
//! database is: its template is program text, which knows pipes and quotes; what is put into it stays one word, or is
//! refused.

use std::fmt::Display;
use std::ops::Deref;

use analysis::Netns;
use serde::{Deserialize, Deserializer, Serialize};

/// More than any name or value that a command is about.
const MAX_WORD: usize = 256;
/// What a shell takes as it is, wherever in a word it stands. Not `=` and `~`: zsh and all shells look at a word that
/// begins with them.
const PLAIN: &str = "._-/:@%+,";

/// What the commands of advice change something with.
const CHANGING: &[&str] = &[
    "sysctl -w ",
    "kill -",
    "ss -K ",
    " flush ",
    "conntrack -F",
    "conntrack -D",
    "renice ",
    "taskset ",
    "chrt ",
    "prlimit ",
    "nft 'add ",
    "nft delete ",
    "qdisc add ",
    "qdisc replace ",
    "qdisc del ",
    "> /sys/",
];

/// A command that a person may paste into a shell. It can only be made by [`shell!`](crate::shell): a text cannot
/// become one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ShellCommand(String);

/// A command from its template and what goes into it by name: `shell!("ip route get {to}", to)`. `None` where one of
/// the words cannot be pasted: then the advice says in words what to do.
#[macro_export]
macro_rules! shell {
    ($text:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {{
        $($(let $name = $value;)?)*
        // The compiler checks that each name has its place, and each place its name.
        let _ = format_args!($text $(, $name = $name)*);
        const { assert!($crate::all_given($text, &[$(stringify!($name)),*])) };
        $crate::ShellCommand::fill($text, &[$((stringify!($name), &$name as &dyn ::std::fmt::Display)),*])
    }};
}

impl ShellCommand {
    /// What `shell!` calls: the template is program text, the words may come from anyone.
    #[doc(hidden)]
    pub fn fill(template: &'static str, words: &[(&str, &dyn Display)]) -> Option<ShellCommand> {
        fill(template, words, None).map(ShellCommand)
    }

    /// The command for each of some processes, which is `$p` in it.
    pub(crate) fn for_each(self, pids: &[u32]) -> ShellCommand {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let (pids, command) = (pids.join(" "), self.0);
        ShellCommand(format!("for p in {pids}; do {command}; done"))
    }

    /// As a sentence tells it: between backquotes, which no word of it has.
    pub fn in_sentence(&self) -> String {
        ["`", self, "`"].concat()
    }

    /// The same of a recording, where it is a view of tcpwhy's that otherwise looks at the host as it is now; `None`
    /// where it is not, or the recording's name cannot be pasted. `time` is what of it is read, as `--at` and `--last` take it.
    pub fn from_recording(
        &self,
        recording: &str,
        time: Option<(&str, &str)>,
    ) -> Option<ShellCommand> {
        let views = ["tcpwhy trace ", "tcpwhy stat "];
        let is_view = views.iter().any(|view| self.0.starts_with(view));
        if !is_view || !is_one_program(&self.0) || self.0.contains(" --from ") {
            return None;
        }
        let mut from = match time {
            Some((at, last)) => shell!(
                " --from {recording} --at {at} --last {last}",
                recording,
                at,
                last
            )?,
            None => shell!(" --from {recording}", recording)?,
        };
        from.0.insert_str(0, &self.0);
        Some(from)
    }

    /// Whether it changes something, by what the commands of advice change things with.
    pub(crate) fn changes(&self) -> bool {
        CHANGING.iter().any(|by| self.0.contains(by))
    }

    /// As it must be typed to act in a namespace; `None` where the namespace's name cannot be pasted.
    pub(crate) fn in_netns(self, netns: &Netns) -> Option<ShellCommand> {
        let name = match netns.name.as_deref() {
            None | Some("host") => return Some(self),
            Some(name) => name,
        };
        // What the shell does itself, pipes and globs, it must do there.
        let typed = if is_one_program(&self.0) {
            self.0
        } else {
            format!("sh -c {}", quoted(&self.0))
        };
        let pid = name.strip_prefix("pid ").map(str::parse::<u32>);
        let mut there = match pid {
            Some(Ok(pid)) => shell!("nsenter -t {pid} -n ", pid),
            _ => shell!("ip netns exec {name} ", name),
        }?;
        there.0.push_str(&typed);
        Some(there)
    }
}

impl Deref for ShellCommand {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// A command that explain once wrote: it is as trustworthy as where it was kept.
impl<'de> Deserialize<'de> for ShellCommand {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ShellCommand, D::Error> {
        String::deserialize(from).map(ShellCommand)
    }
}

/// Where in a command a character of the template stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Quotes(char),
}

impl Within {
    fn after(self, c: char) -> Within {
        match (self, c) {
            (Within::Nothing, '\'' | '"') => Within::Quotes(c),
            (Within::Quotes(quote), _) if quote == c => Within::Nothing,
            _ => self,
        }
    }
}

/// The template with its words; a word that is refused becomes `instead`, and without that all of it is refused.
pub(crate) fn fill(
    template: &str,
    words: &[(&str, &dyn Display)],
    instead: Option<&'static str>,
) -> Option<String> {
    let mut out = String::with_capacity(template.len() + 16);
    let mut within = Within::Nothing;
    for piece in pieces(template) {
        let name = match piece {
            Piece::Text(text) => {
                within = text.chars().fold(within, Within::after);
                out.push_str(text);
                continue;
            }
            Piece::Name(name) => name,
        };
        let (_, word) = words.iter().find(|(known, _)| *known == name)?;
        let word = word.to_string();
        let word = if is_one_word(&word, &out) {
            word
        } else {
            instead?.to_string()
        };
        let plain = !word.is_empty() && word.chars().all(is_plain);
        match within {
            _ if plain || Some(&*word) == instead => out.push_str(&word),
            Within::Nothing => out.push_str(&quoted(&word)),
            // The template's quotes end before the word, and begin again after it.
            Within::Quotes(quote) => {
                out.push(quote);
                out.push_str(&quoted(&word));
                out.push(quote);
            }
        }
    }
    Some(out)
}

/// A part of a template.
pub(crate) enum Piece<'a> {
    /// To be told as it is.
    Text(&'a str),
    /// To be filled in.
    Name(&'a str),
}

/// The parts of a template, as `format!` would see them.
pub(crate) fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find(['{', '}']) else {
            return Some(Piece::Text(std::mem::take(&mut rest)));
        };
        let brace = &rest[at..];
        if brace.starts_with("{{") || brace.starts_with("}}") {
            let text = &rest[..at + 1];
            rest = &rest[at + 2..];
            return Some(Piece::Text(text));
        }
        if at > 0 {
            let text = &rest[..at];
            rest = brace;
            return Some(Piece::Text(text));
        }
        let end = rest.find('}')?;
        let name = &rest[1..end];
        rest = &rest[end + 1..];
        Some(Piece::Name(name))
    })
}

/// Whether each place of a template has a name that is given: unlike `format!`, nothing is taken from around it.
#[doc(hidden)]
pub const fn all_given(template: &str, names: &[&str]) -> bool {
    let text = template.as_bytes();
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'{' {
            if at + 1 < text.len() && text[at + 1] == b'{' {
                at += 1;
            } else {
                let mut known = false;
                let mut i = 0;
                while i < names.len() {
                    known = known || is_place(text, at + 1, names[i].as_bytes());
                    i += 1;
                }
                if !known {
                    return false;
                }
            }
        }
        at += 1;
    }
    true
}

/// Whether `NAME}` stands there.
const fn is_place(text: &[u8], at: usize, name: &[u8]) -> bool {
    if at + name.len() >= text.len() || text[at + name.len()] != b'}' {
        return false;
    }
    let mut i = 0;
    while i < name.len() {
        if text[at + i] != name[i] {
            return false;
        }
        i += 1;
    }
    true
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || PLAIN.contains(c)
}

/// Whether a text may be a word behind what was typed before: neither what a terminal acts on or what looks like
/// something else, nor the end of a command in a sentence, nor an option, nor the program that runs.
fn is_one_word(word: &str, before: &str) -> bool {
    let shown = word.chars().all(|c| matches!(c, ' '..='~') && c != '`');
    let begins = before.is_empty() || before.ends_with([' ', '\'', '"']);
    let number = word.strip_prefix('-').map(str::parse::<u64>);
    let option = begins && word.starts_with('-') && !matches!(number, Some(Ok(_)));
    let runs = before.is_empty() || before.trim_end().ends_with(['|', ';', '&']);
    shown && word.len() <= MAX_WORD && !option && !runs
}

/// One word of a shell, whatever its characters mean elsewhere.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether a command is one program and its words, with the shell only taking the quotes away.
fn is_one_program(command: &str) -> bool {
    let mut within = Within::Nothing;
    command.chars().all(|c| {
        within = within.after(c);
        within != Within::Nothing || !"|;&<>*?[$`#~\n".contains(c)
    })
}

#[cfg(test)]
mod tests;
