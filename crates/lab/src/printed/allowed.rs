//! Which printed commands the lab runs: the one place of what it refuses, of what is not to be had here, and of
//! what is an answer though it fails.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Programs that change a network namespace when they run in one, and nothing else.
const OF_A_NAMESPACE: &[&str] = &["sysctl", "tc", "nft", "ip", "conntrack", "ss"];
/// Programs that change a process.
const OF_A_PROCESS: &[&str] = &["kill", "taskset", "chrt", "renice", "prlimit"];
/// Programs that only read, whatever their options.
const READERS: &[&str] = &[
    "ls",
    "grep",
    "tr",
    "awk",
    "sed",
    "sort",
    "uniq",
    "cat",
    "head",
    "vmstat",
    "nstat",
    "ping",
    "mtr",
    "tracepath",
    "traceroute",
    "tcpdump",
    "iptables-save",
];
/// Programs that only read with one of these words, and without any of those.
const READ_WITH: &[(&str, &[&str], &[&str])] = &[
    (
        "tcpwhy",
        &["trace", "stat", "explain", "record", "flame"],
        &[],
    ),
    ("tc", &["show"], &["add", "del", "change", "replace"]),
    ("ip", &["show", "get"], &["add", "del", "flush", "set"]),
    ("nft", &["list", "-c"], &["add", "delete", "flush"]),
    ("conntrack", &["-L", "-C", "-S"], &["-F", "-D"]),
    (
        "bpftool",
        &["show", "tree", "list"],
        &["attach", "detach", "load", "pin"],
    ),
    ("ethtool", &["-S", "-g", "-l", "-k", "-c"], &[]),
];
/// What fails because that is what it has to show: its first words, how it ends, and why.
const ANSWERS: &[(&[&str], i32, &str)] = &[
    (&["ping"], 1, "nothing answers, which is what it is to show"),
    (
        &["ip", "route", "get"],
        2,
        "there is no route, which is what it is to show",
    ),
    (&["grep"], 1, "nothing is found, which is an answer"),
];
/// What goes on until it is stopped, unless it reads a recording.
const UNTIL_STOPPED: &[&[&str]] = &[
    &["tcpwhy", "trace"],
    &["tcpwhy", "stat"],
    &["mtr"],
    &["tcpdump"],
];

/// What of the host the lab has planted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planted {
    /// Names of its network namespaces.
    pub(crate) netns: BTreeSet<String>,
    /// Its processes that run.
    pub(crate) pids: BTreeSet<u32>,
    /// Directories of its cgroups.
    pub(crate) cgroups: Vec<PathBuf>,
}

/// A command of a shell, taken apart as far as the lab has to understand it.
#[derive(Debug)]
pub(crate) struct Shell(Vec<Simple>);

/// One program with its words, in the namespace that they name.
#[derive(Debug, Default)]
struct Simple {
    words: Vec<String>,
    /// What `>` writes to.
    writes: Option<String>,
}

impl Shell {
    /// Fails for what the lab does not understand: it runs nothing of that.
    pub(crate) fn of(text: &str) -> Result<Shell, String> {
        let mut all = vec![Simple::default()];
        let (mut word, mut quote, mut writes) = (None::<String>, None, false);
        for c in text.chars().chain([' ']) {
            match (quote, c) {
                (Some(q), _) if q == c => quote = None,
                (Some('"'), '`' | '$' | '\\') => {
                    return Err(format!("the lab does not understand `{c}` between quotes"));
                }
                (Some(_), _) => word.get_or_insert_default().push(c),
                (None, '\'' | '"') => {
                    word.get_or_insert_default();
                    quote = Some(c);
                }
                (None, '`' | '\\') => return Err(format!("the lab does not understand `{c}`")),
                (None, ' ' | '|' | ';' | '&' | '>' | '<' | '\n') => {
                    let last = all.last_mut().expect("there is one");
                    match word.take() {
                        Some(word) if writes => last.writes = Some(word),
                        Some(word) => last.words.push(word),
                        None => {}
                    }
                    writes = c == '>' || (writes && c == ' ' && last.writes.is_none());
                    if matches!(c, '|' | ';' | '&' | '\n') {
                        all.push(Simple::default());
                    }
                }
                (None, '(' | ')') => {
                    return Err("the lab does not run a command in a command".into());
                }
                (None, _) => word.get_or_insert_default().push(c),
            }
        }
        if quote.is_some() {
            return Err("a quote of it does not end".into());
        }
        all.retain(|simple| !simple.words.is_empty());
        Ok(Shell(all))
    }

    /// Whether all that it changes is the lab's; `looks`: it has to change nothing.
    pub(crate) fn may_run(&self, looks: bool, planted: &Planted) -> Result<(), String> {
        self.check(looks, false, planted)
    }

    fn check(&self, looks: bool, inside: bool, planted: &Planted) -> Result<(), String> {
        // Those that a loop goes over.
        let mut each: Vec<&str> = Vec::new();
        for simple in &self.0 {
            let words: Vec<&str> = simple.words.iter().map(String::as_str).collect();
            match &words[..] {
                ["for", _, "in", pids @ ..] => each.extend(pids),
                ["done"] => {}
                ["do", words @ ..] | words => {
                    let writes = simple.writes.as_deref();
                    program(words, writes, &each, looks, inside, planted)?;
                }
            }
        }
        Ok(())
    }

    /// Its programs, behind what only says where they run.
    fn programs(&self) -> impl Iterator<Item = &[String]> {
        self.0.iter().filter_map(|simple| {
            let words = &simple.words[..];
            let at = match words.first()?.as_str() {
                "ip" if words.get(1).is_some_and(|w| w == "netns") => 4,
                "nsenter" => 4,
                "do" => 1,
                "for" | "done" => return None,
                _ => 0,
            };
            words.get(at..).filter(|words| !words.is_empty())
        })
    }

    fn begins(&self, with: &[&str]) -> bool {
        let begins = |words: &[String]| {
            words.len() >= with.len() && with.iter().zip(words).all(|(a, b)| a == b)
        };
        self.programs().any(begins)
    }
}

/// Whether one program with its words may run.
fn program(
    words: &[&str],
    writes: Option<&str>,
    each: &[&str],
    looks: bool,
    inside: bool,
    planted: &Planted,
) -> Result<(), String> {
    let check = |text: &str| Shell::of(text)?.check(looks, true, planted);
    let deeper = |words| program(words, writes, each, looks, true, planted);
    match words {
        ["ip", "netns", "exec", name, rest @ ..] | ["ip", "-n", name, rest @ ..] => {
            if !planted.netns.contains(*name) {
                return Err(format!("{name} is no namespace of the lab"));
            }
            return deeper(rest);
        }
        ["nsenter", "-t", pid, "-n", rest @ ..] => {
            ours(pid, planted)?;
            return deeper(rest);
        }
        ["sh", "-c", text] if inside => return check(text),
        _ => {}
    }
    let Some(name) = words.first() else {
        return Ok(());
    };
    if let Some(file) = writes {
        let path = std::path::Path::new(file);
        let of_ours = planted.cgroups.iter().any(|dir| path.parent() == Some(dir));
        return if *name == "echo" && of_ours && !looks {
            Ok(())
        } else {
            Err(format!("{file} is not the lab's to write"))
        };
    }
    if reads(words) {
        return Ok(());
    }
    if looks {
        return Err(format!(
            "the lab does not know that `{}` only reads",
            words.join(" ")
        ));
    }
    if OF_A_PROCESS.contains(name) {
        let named = words
            .iter()
            .position(|w| *w == "--pid" && *name == "prlimit");
        let pid = named.map_or(words.last(), |at| words.get(at + 1));
        return match pid.copied() {
            Some("$p") if !each.is_empty() => each.iter().try_for_each(|pid| ours(pid, planted)),
            Some(pid) => ours(pid, planted),
            None => Err("it names no process".into()),
        };
    }
    if inside && OF_A_NAMESPACE.contains(name) {
        return Ok(());
    }
    Err("it changes the host, which is not the lab's to change".to_string())
}

fn ours(pid: &str, planted: &Planted) -> Result<(), String> {
    let pid = pid.parse().map_err(|_| format!("{pid} is no process"))?;
    if planted.pids.contains(&pid) {
        Ok(())
    } else {
        Err(format!(
            "pid {pid} is no process of the lab that still runs"
        ))
    }
}

fn reads(words: &[&str]) -> bool {
    let has = |any: &[&str]| words.iter().any(|word| any.contains(word));
    match words[0] {
        "sysctl" => !words.iter().any(|w| w.starts_with("-w") || w.contains('=')),
        "ss" => !has(&["-K", "--kill"]),
        name if READERS.contains(&name) => true,
        name => READ_WITH
            .iter()
            .any(|(of, with, without)| *of == name && has(with) && !has(without)),
    }
}

/// Whether what takes something back is a command: then it begins as what it takes back.
pub(super) fn is_command_like(undo: &str, command: &str) -> bool {
    let first = |text: &str| text.split(' ').next().map(str::to_string);
    first(undo) == first(command) && !undo.contains('`')
}

/// A program that it needs and this host does not have.
pub(super) fn missing(shell: &Shell) -> Option<String> {
    let dirs: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let is_there = |name: &str| {
        ["echo", "sh", "tcpwhy", "kill"].contains(&name)
            || dirs.iter().any(|dir| dir.join(name).is_file())
    };
    let mut names = shell.programs().map(|words| words[0].as_str());
    names.find(|name| !is_there(name)).map(str::to_string)
}

/// Whether it goes on until it is stopped.
pub(super) fn until_stopped(shell: &Shell) -> bool {
    let reads = shell
        .programs()
        .flatten()
        .any(|word| word == "--from" || word == "--for");
    !reads && UNTIL_STOPPED.iter().any(|begins| shell.begins(begins))
}

/// Why what it ended with is no failure, if it is none.
pub(super) fn is_answer(shell: &Shell, rc: i32) -> Option<&'static str> {
    let of = |(begins, with, _): &&(&[&str], i32, &str)| *with == rc && shell.begins(begins);
    ANSWERS.iter().find(of).map(|(.., why)| *why)
}

#[cfg(test)]
mod tests;
