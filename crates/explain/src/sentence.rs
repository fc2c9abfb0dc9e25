//! Sentences with commands in them, between backquotes: what is filled into a command stays one word of it, and nothing
//! that is filled in beside them makes a command.

use std::fmt::{self, Display};

use analysis::Netns;
use recording::without_backquotes;

use crate::shell::{Piece, ShellCommand, fill, pieces};

/// Programs that look into the namespace in which they run.
const PER_NAMESPACE: &[&str] = &[
    "nstat ",
    "ss ",
    "ip ",
    "tc ",
    "sysctl ",
    "nft ",
    "conntrack ",
];
/// Sentences about another host, or about two.
const ELSEWHERE: &[&str] = &[
    "on the peer",
    "on the server",
    "on the receiver",
    "on the sender",
    "at both",
];
/// What stands in a command for a word that cannot be pasted.
const LEFT_OUT: &str = "…";

/// A sentence, and what goes into it by name.
#[derive(Clone, Debug)]
pub struct Sentence {
    template: &'static str,
    words: Vec<(&'static str, String)>,
}

/// A sentence from its template: `sentence!("`ss -ti dst {to}` shows more than {least}.", to, least)`.
#[macro_export]
macro_rules! sentence {
    ($text:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {{
        $($(let $name = $value;)?)*
        // The compiler checks that each name has its place, and each place its name.
        let _ = format_args!($text $(, $name = $name)*);
        const { assert!($crate::all_given($text, &[$(stringify!($name)),*])) };
        $crate::Sentence::new($text, vec![$((stringify!($name), $name.to_string())),*])
    }};
}

impl Sentence {
    /// What `sentence!` calls.
    #[doc(hidden)]
    pub fn new(template: &'static str, words: Vec<(&'static str, String)>) -> Sentence {
        Sentence { template, words }
    }

    /// Its commands as they must be typed to look into a namespace; those for another host stay.
    pub(crate) fn in_netns(&self, netns: &Netns) -> String {
        let elsewhere = ELSEWHERE.iter().any(|there| self.template.contains(there));
        self.told((!elsewhere).then_some(netns))
    }

    fn told(&self, netns: Option<&Netns>) -> String {
        let words: Vec<(&str, &dyn Display)> = self
            .words
            .iter()
            .map(|(name, word)| (*name, word as &dyn Display))
            .collect();
        let mut out = String::new();
        for (i, part) in self.template.split('`').enumerate() {
            if i % 2 == 0 {
                self.tell(part, &mut out);
                continue;
            }
            let looks = PER_NAMESPACE
                .iter()
                .any(|program| part.starts_with(program));
            let command = ShellCommand::fill(part, &words);
            let there = match netns.filter(|_| looks) {
                Some(netns) => command.clone().map(|command| command.in_netns(netns)),
                None => None,
            };
            let (typed, behind) = match (there, command) {
                (Some(Some(there)), _) => (there.to_string(), ""),
                // The namespace has a name that cannot be pasted.
                (Some(None), Some(command)) => (command.to_string(), " in that network namespace"),
                (_, Some(command)) => (command.to_string(), ""),
                (_, None) => (fill(part, &words, Some(LEFT_OUT)).unwrap_or_default(), ""),
            };
            out.push('`');
            out.push_str(&typed);
            out.push('`');
            out.push_str(behind);
        }
        out
    }

    /// What is no command.
    fn tell(&self, part: &str, out: &mut String) {
        for piece in pieces(part) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Name(name) => {
                    let word = self.words.iter().find(|(known, _)| *known == name);
                    let word = word.map_or("", |(_, word)| word);
                    out.push_str(&without_backquotes(word));
                }
            }
        }
    }
}

impl From<&'static str> for Sentence {
    fn from(template: &'static str) -> Sentence {
        debug_assert!(!template.contains(['{', '}']), "{template}");
        Sentence::new(template, Vec::new())
    }
}

impl From<Sentence> for String {
    fn from(sentence: Sentence) -> String {
        sentence.to_string()
    }
}

/// As it is typed on the host itself.
impl Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.told(None))
    }
}

#[cfg(test)]
mod tests;
