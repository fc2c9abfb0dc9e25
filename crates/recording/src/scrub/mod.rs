//! Takes the secrets out of command lines: passwords, tokens, keys, credentials in URLs and headers
//! become `***`. What betrays a secret is in [`words`]; the book's page says what is not caught.
//!
//! It is done when a recording is written and again when it is read, as it may be older than this.

mod words;

use words::{Gives, SCHEMES, TOKENS};

/// What stands for a secret.
pub const SCRUBBED: &str = "***";

/// The arguments of a command without their secrets. As it is known where each ends, a secret may
/// hold blanks.
pub fn arguments<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut scan = Scan::default();
    let arguments = arguments.into_iter();
    arguments.map(|a| scan.argument(a.as_ref())).collect()
}

/// The same of a command line whose arguments are joined by blanks.
pub fn line(line: &str) -> String {
    Scan::default().text(line)
}

/// Goes through arguments or words, and knows what came before.
#[derive(Default)]
struct Scan {
    /// Short options of the program that was named last.
    options: &'static [(&'static str, Gives)],
    /// The option before takes the next word.
    awaits: Option<Gives>,
}

/// Where a secret ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With the argument.
    Argument,
    /// With the word, or its quotes.
    Word,
}

impl Scan {
    fn argument(&mut self, argument: &str) -> String {
        match self.awaits.take() {
            Some(gives) if !argument.starts_with('-') => scrubbed(argument, gives),
            _ => self.scan(argument, End::Argument),
        }
    }

    fn text(&mut self, text: &str) -> String {
        self.scan(text, End::Word)
    }

    /// Goes through a text; what begins it ends with it, if it is one argument.
    fn scan(&mut self, text: &str, whole: End) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let name = name(rest);
            if name.is_empty() {
                let c = rest.chars().next().map_or(1, char::len_utf8);
                out.push_str(&rest[..c]);
                at += c;
                continue;
            }
            let end = if at == 0 { whole } else { End::Word };
            let begins = at == 0 || text[..at].ends_with(is_gap);
            at += match self.secret(rest, name, begins, end) {
                Some((keep, secret)) => {
                    out.push_str(&rest[..keep]);
                    if secret > keep {
                        out.push_str(SCRUBBED);
                    }
                    secret
                }
                None => {
                    out.push_str(name);
                    name.len()
                }
            };
        }
        out
    }

    /// What a text that begins with a name holds: bytes to keep, and where the secret after them
    /// ends; `None` when the name says nothing.
    fn secret(&mut self, rest: &str, name: &str, begins: bool, end: End) -> Option<(usize, usize)> {
        let after = &rest[name.len()..];
        if TOKENS
            .iter()
            .any(|(start, least)| name.starts_with(start) && name.len() >= *least)
        {
            return Some((0, name.len()));
        }
        if let Some(authority) = after.strip_prefix("://") {
            let from = rest.len() - authority.len();
            let found = credentials(name, authority);
            return found.map(|(keep, to)| (from + keep, from + to));
        }
        if let Some(value) = after.strip_prefix(':')
            && let Some(at) = data_source(value)
        {
            let from = rest.len() - value.len();
            return Some((from, from + at));
        }
        if words::is_secret(name) {
            let found = named(rest, name, end);
            if found.is_none() && is_option(name) && begins && after.trim_start().is_empty() {
                // Its value is the next argument, if there is one.
                self.awaits = Some(Gives::Value);
            }
            if found.is_some() {
                return found;
            }
        }
        let gap = after.len() - after.trim_start().len();
        if name.eq_ignore_ascii_case("bearer") && (gap > 0 || after.is_empty()) {
            let from = name.len() + gap;
            self.awaits = after.is_empty().then_some(Gives::Value);
            return Some((from, from + word(&rest[from..])));
        }
        if let Some(options) = words::options(name)
            && (gap > 0 || after.is_empty())
        {
            self.options = options;
            return None;
        }
        if begins {
            return self.short(rest, name, end);
        }
        None
    }

    /// A short option of the program that was named last.
    fn short(&mut self, rest: &str, name: &str, end: End) -> Option<(usize, usize)> {
        // A long one is a name of its own; of `-pSECRET` the name is the beginning.
        let (option, gives) = self.options.iter().find(|(option, _)| {
            if option.starts_with("--") {
                name == *option
            } else {
                name.starts_with(option)
            }
        })?;
        let attached = match end {
            End::Argument => rest.len(),
            End::Word => word(rest),
        };
        if attached > option.len() {
            let from = option.len() + usize::from(rest[option.len()..].starts_with('='));
            return given(rest, from, *gives, attached);
        }
        if *gives == Gives::Attached {
            return None;
        }
        let gap = rest[option.len()..].len() - rest[option.len()..].trim_start().len();
        let from = option.len() + gap;
        if from == rest.len() {
            self.awaits = Some(*gives);
            return None;
        }
        let value = word(&rest[from..]);
        if rest[from..].starts_with('-') {
            return None;
        }
        given(rest, from, *gives, from + value)
    }
}

/// A secret from `from` to `to`, or what of it comes after a name.
fn given(rest: &str, from: usize, gives: Gives, to: usize) -> Option<(usize, usize)> {
    match gives {
        Gives::Attached | Gives::Value => Some((from, to)),
        Gives::After(c) => {
            let colon = rest[from..to].find(c)? + c.len_utf8();
            Some((from + colon, to))
        }
    }
}

/// An argument that is a secret, or holds one.
fn scrubbed(argument: &str, gives: Gives) -> String {
    match given(argument, 0, gives, argument.len()) {
        Some((keep, to)) if to > keep => format!("{}{SCRUBBED}", &argument[..keep]),
        _ => argument.to_string(),
    }
}

/// What a secret's name holds: after `=` or `:`, or the next word after an option.
fn named(rest: &str, name: &str, end: End) -> Option<(usize, usize)> {
    let after = &rest[name.len()..];
    // `"password": "…"`, `set[password]=…`, with a backslash before each quote or not.
    let closed = after.trim_start_matches(['"', '\'', '\\', ']', ')']);
    let is_closed = closed.len() < after.len();
    let sign = closed.trim_start();
    let is_spaced = sign.len() < closed.len();
    if let Some(value) = sign.strip_prefix(['=', ':']) {
        let colon = sign.starts_with(':');
        let value = if colon || is_closed || is_spaced {
            value.trim_start()
        } else {
            value
        };
        let from = rest.len() - value.len();
        if value.starts_with(SCRUBBED) {
            return Some((from + SCRUBBED.len(), from + SCRUBBED.len()));
        }
        let length = match end {
            End::Argument if !is_closed => value.len(),
            _ if colon && words::is_header(name) => header(value),
            _ => value_of(value),
        };
        if is_harmless(name, &value[..length]) {
            return Some((from + length, from + length));
        }
        return Some((from, from + length));
    }
    let value = after.trim_start();
    if !is_option(name) || value.len() == after.len() || value.is_empty() || value.starts_with('-')
    {
        return None;
    }
    let from = rest.len() - value.len();
    Some((from, from + value_of(value)))
}

/// Values that are no secrets whatever their name: the shell's own PWD, switches, nothing.
fn is_harmless(name: &str, value: &str) -> bool {
    let shells = matches!(name, "PWD" | "OLDPWD") && value.starts_with('/');
    let switch = [
        "", "true", "false", "yes", "no", "on", "off", "none", "null", "0", "1",
    ];
    shells || switch.iter().any(|s| value.eq_ignore_ascii_case(s))
}

/// A value ends with its quotes, or with the word; one with a scheme before it, with the word after.
fn value_of(value: &str) -> usize {
    let scheme = word(value);
    if SCHEMES
        .iter()
        .any(|s| value[..scheme].eq_ignore_ascii_case(s))
    {
        let rest = value[scheme..].trim_start();
        let from = value.len() - rest.len();
        return from + word(rest);
    }
    let unescaped = value.trim_start_matches('\\');
    let Some(quote) = unescaped.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return scheme;
    };
    let from = value.len() - unescaped.len() + 1;
    let Some(closing) = value[from..].find(quote) else {
        return value.len();
    };
    let after = from + closing + 1;
    // A word may be quoted in part only.
    if value[after..].starts_with(is_name) {
        after + word(&value[after..])
    } else {
        after
    }
}

/// A header's value ends with its quotes, or before what looks like another argument.
fn header(value: &str) -> usize {
    let ends = ["\"", "'", "\n", " -", " http://", " https://"];
    let ends = ends.iter().filter_map(|end| value.find(end));
    ends.min().unwrap_or(value.len())
}

/// The secret in what follows `://`: after the user's name, up to the last `@` before the host. What
/// is a user's name only is kept, unless it is as long as a token.
fn credentials(scheme: &str, authority: &str) -> Option<(usize, usize)> {
    const TOKEN: usize = 16;
    // Only in their paths is an `@` usual.
    let pages = matches!(scheme, "http" | "https" | "ws" | "wss");
    let word = &authority[..word(authority)];
    let strict = &word[..word.find(['/', '?', '#']).unwrap_or(word.len())];
    let is_port = |p: &str| p.chars().all(|c| c.is_ascii_digit());
    let at = match strict.rfind('@') {
        Some(at) => at,
        // A password with a `/` in it: what follows the colon is no port.
        None => {
            let (_, port) = strict.split_once(':')?;
            let port = port.trim_end_matches(['"', '\'', ',']);
            if pages && is_port(port) || port.starts_with('[') || strict.starts_with('[') {
                return None;
            }
            word.rfind('@')?
        }
    };
    match word[..at].find(':') {
        Some(colon) => Some((colon + 1, at)),
        None if at >= TOKEN => Some((0, at)),
        None => None,
    }
}

/// How long the secret is that a data source as Go's drivers take it begins with, behind its user's name:
/// `SECRET@tcp(db:3306)/shop`, `SECRET@/shop`.
fn data_source(value: &str) -> Option<usize> {
    let word = &value[..word(value)];
    let is_place = |at: &usize| {
        let place = &word[at + 1..];
        let proto = place.find(|c: char| !c.is_ascii_alphanumeric());
        let proto = proto.unwrap_or(place.len());
        place.starts_with('/') || (proto > 0 && place[proto..].starts_with('('))
    };
    let mut ats = word.rmatch_indices('@').map(|(at, _)| at);
    ats.find(is_place).filter(|at| *at > 0)
}

/// The name that a text begins with: of an option, a variable, a header, a program.
fn name(text: &str) -> &str {
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_option(name: &str) -> bool {
    name.starts_with('-')
}

fn is_gap(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ';' | '|' | '&' | '/')
}

/// Bytes up to the next blank.
fn word(text: &str) -> usize {
    text.find(char::is_whitespace).unwrap_or(text.len())
}

#[cfg(test)]
mod tests;
