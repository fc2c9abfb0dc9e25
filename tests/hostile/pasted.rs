//! Whatever the texts of a recording are: in every command that is told they stay within one word.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use proptest::prelude::*;
use recording::tables;
use serde_json::Value;
use synth::{HOST, SERVER, cases};

use crate::common::{arg, json_lines, run, stderr, stdout};

/// Recordings of the corpus in which most kinds of commands are told, and one made here.
const RECORDINGS: &[&str] = &[
    "qdisc-drop.above",
    "ports-exhausted.above",
    "path-drops-syn.client.above",
    "cpu-contention.above",
    "descriptors-exhausted.server.above",
    "syn-cookies.server.above",
    "reverse-path.server.above",
    "growing-table.above",
    "softirq-starvation.server.above",
    "pmtu-black-hole.server.above",
    INTERFACE,
];
/// An interface that loses packets: the corpus has none.
const INTERFACE: &str = "interface-drop";

/// On either side of what is planted, so that it is found.
const MARK: &str = "zqz";
/// What hurts in a shell, in a sentence, in a terminal, and behind a program.
const PIECES: &[&str] = &[
    "$(reboot)",
    "`reboot`",
    ";reboot",
    "|reboot",
    "&",
    "&&reboot",
    "'",
    "\"",
    "\\",
    "\n",
    "\r",
    "\t",
    " ",
    "\u{1b}[2J",
    "\u{9b}31m",
    "\u{202e}",
    "-",
    "--help",
    "*",
    "?",
    "[a]",
    "~",
    "#",
    "!",
    ">/etc/passwd",
    "<x",
    "(",
    ")",
    "{a,b}",
    "${IFS}",
    "$x",
    "=",
    "%",
    "é",
];
/// Texts of tables that the code knows word by word: with others nothing would be found. They are changed one at a
/// time.
const KNOWN: &[(&str, &str)] = &[
    ("call", "error"),
    ("counter", "group"),
    ("counter", "name"),
    ("event", "error"),
    ("event", "location"),
    ("event", "reason"),
    ("event", "send_error"),
    ("frame", "function"),
    ("interrupt", "kind"),
    ("process", "state"),
    ("resource", "aspect"),
    ("resource", "metric"),
    ("resource", "resource"),
    ("resource", "unit"),
    ("setting", "name"),
    ("socket", "ca_state"),
    ("socket", "congestion"),
    ("table_size", "structure"),
    ("wait", "state"),
    ("thread_sleep", "syscall"),
    ("wait", "syscall"),
];
/// Programs that commands begin with: a text between backquotes that begins so is one.
const PROGRAMS: &[&str] = &[
    "bpftool ",
    "cat ",
    "chrt ",
    "conntrack ",
    "echo ",
    "ethtool ",
    "for p in ",
    "grep ",
    "ip ",
    "iptables-save ",
    "kill ",
    "ls ",
    "mpstat ",
    "mtr ",
    "nft ",
    "nginx ",
    "nsenter ",
    "nstat ",
    "ping ",
    "prlimit ",
    "renice ",
    "ss ",
    "sysctl ",
    "taskset ",
    "tc ",
    "tcpdump ",
    "tcpwhy ",
    "tracepath ",
    "traceroute ",
    "vmstat ",
];
/// What the page has of a recording as it is: no sentences.
const ROWS: &[&str] = &[
    "rows",
    "tables",
    "causes",
    "facts",
    "sockets",
    "flames",
    "timelines",
    "settings",
    "symbols",
];

/// A recording as it was made, unpacked once.
fn original(name: &'static str) -> PathBuf {
    static ALL: OnceLock<tempfile::TempDir> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let all = tempfile::tempdir().unwrap();
        for name in RECORDINGS {
            let dir = all.path().join(name);
            fs::create_dir(&dir).unwrap();
            let path = dir.join("recording.tcpwhy");
            if *name == INTERFACE {
                interface_drop().write_to(&path).unwrap();
                continue;
            }
            let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/corpus");
            let packed = packed.join(format!("{name}.tcpw"));
            let tar = Command::new("tar")
                .arg("-xzf")
                .arg(packed)
                .arg("-C")
                .arg(&dir)
                .status();
            assert!(tar.unwrap().success(), "unpacking {name}");
        }
        all
    });
    all.path().join(name).join("recording.tcpwhy")
}

fn interface_drop() -> synth::Fixture {
    let mut f = cases::bulk();
    f.resources.retain(|r| r.netns == SERVER);
    let counted = [
        ("rx_packets", 100_000.0),
        ("tx_packets", 50_000.0),
        ("rx_fifo", 300.0),
    ];
    for (metric, rise) in counted {
        f.resource("network", "eth0", metric, [7.0, 7.0 + rise]);
    }
    let own = f.resources.iter_mut().filter(|r| &*r.instance == "eth0");
    own.for_each(|r| r.netns = HOST);
    f.raise(SERVER, recording::counter::TCP_OFO_QUEUE, 250);
    f
}

/// A copy whose texts hold what is planted; of the known ones one.
fn planted(name: &'static str, dir: &Path, plant: &Plant) -> PathBuf {
    let path = dir.join("planted.tcpwhy");
    hostile::copy(&original(name), &path).unwrap();
    hostile::change_texts(&path, |table, column, text| {
        let known = KNOWN.iter().position(|known| *known == (table, column));
        if is_word(table, column) || known.is_some_and(|at| Some(at) != plant.known) {
            return text.into();
        }
        plant.into(text)
    })
    .unwrap();
    hostile::change_manifest(&path, |at, text| {
        let free = [
            "host.name",
            "host.machine",
            "command_line.",
            "labels.",
            "producer",
        ];
        let named = plant.namespaces && at.starts_with("namespaces.") && text != "host";
        let told = ["gives", "because", "shed"]
            .iter()
            .any(|end| at.ends_with(end));
        if named || told || free.iter().any(|way| at.starts_with(way)) {
            plant.into(text)
        } else {
            text.into()
        }
    })
    .unwrap();
    path
}

/// Whether the column holds words of a vocabulary, and no texts.
fn is_word(table: &str, column: &str) -> bool {
    let table = tables::ALL.iter().find(|t| t.name == table);
    let column = table.and_then(|t| t.columns.iter().find(|c| c.name == column));
    column.is_none_or(|c| c.type_name != "text")
}

/// What is planted.
#[derive(Clone, Debug)]
struct Plant {
    text: String,
    /// Before what was there, not behind it.
    leads: bool,
    /// In the names of namespaces, too: what is refused there hides what stands behind it.
    namespaces: bool,
    /// Which of the known texts is changed as well.
    known: Option<usize>,
}

impl Plant {
    fn marked(&self) -> String {
        format!("{MARK}{}{MARK}", self.text)
    }

    /// A number at the beginning of a setting stays one.
    fn into(&self, text: &str) -> String {
        if self.leads {
            return format!("{}{text}", self.text) + &self.marked();
        }
        let gap = if text.ends_with(|c: char| c.is_ascii_digit()) {
            " "
        } else {
            ""
        };
        format!("{text}{gap}{}", self.marked())
    }
}

/// A word of a command: what the program gets, and which of its characters the shell acts on.
#[derive(Debug, Default)]
struct Word {
    text: String,
    acts: Vec<usize>,
}

/// The words of a command as a POSIX shell takes them apart, and what stands between them.
fn words(command: &str) -> Result<(Vec<Word>, String), String> {
    let (mut words, mut between) = (Vec::new(), String::new());
    let mut word: Option<Word> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        if c.is_control() {
            return Err(format!("a control character: {command:?}"));
        }
        if c == ' ' || "|&;<>()".contains(c) {
            words.extend(word.take());
            between.push(c);
            continue;
        }
        let word = word.get_or_insert_default();
        match c {
            '\'' => loop {
                match chars.next() {
                    Some('\'') => break,
                    Some(c) => word.text.push(c),
                    None => return Err(format!("a quote is not closed: {command}")),
                }
            },
            '"' => loop {
                match chars.next() {
                    Some('"') => break,
                    Some('\\') => word.text.extend(chars.next()),
                    Some(c) => {
                        if "$`".contains(c) {
                            word.acts.push(word.text.len());
                        }
                        word.text.push(c);
                    }
                    None => return Err(format!("a quote is not closed: {command}")),
                }
            },
            '\\' => word.text.extend(chars.next()),
            c => {
                if "$`*?[]{}~#!=%".contains(c) {
                    word.acts.push(word.text.len());
                }
                word.text.push(c);
            }
        }
    }
    words.extend(word);
    Ok((words, between))
}

/// What is planted is a part of one word of the command, and nothing that a shell acts on.
fn holds(command: &str, plant: &Plant) -> Result<(), String> {
    let (words, _) = words(command)?;
    let planted = plant.marked();
    let mut whole = 0;
    for word in &words {
        for (at, text) in word.text.match_indices(&planted) {
            let within = at..at + text.len();
            if word
                .acts
                .iter()
                .any(|at| within.contains(at) && !"=%".contains(&word.text[*at..=*at]))
            {
                return Err(format!("a shell acts on what is planted: {command}"));
            }
            whole += 1;
        }
        if word.text.starts_with('-') && word.text.contains(MARK) {
            return Err(format!("an option is planted: {command}"));
        }
    }
    // `sh -c 'ip …'`: a command within a word.
    let last = words.last().filter(|w| w.text.contains(' '));
    if let Some(last) = last
        && words.iter().any(|w| w.text == "sh")
    {
        return holds(&last.text, plant);
    }
    if command.contains(MARK) && whole == 0 {
        return Err(format!("what is planted is not within a word: {command}"));
    }
    Ok(())
}

/// Commands that a recording's outputs tell.
#[derive(Default)]
struct Told {
    commands: Vec<String>,
    /// Between backquotes.
    spans: Vec<String>,
    /// Beginnings of commands and of what takes them back.
    begun: Vec<String>,
    /// What takes back, in words.
    words: Vec<String>,
}

impl Told {
    /// A text: whatever is between backquotes.
    fn text(&mut self, text: &str) {
        self.spans
            .extend(text.split('`').skip(1).step_by(2).map(String::from));
    }

    fn undo(&mut self, text: &str) {
        let words = ["note first", "nothing", "delete the line", "`"];
        if words.iter().any(|begins| text.starts_with(begins)) {
            self.text(text);
            self.words.push(text.into());
        } else {
            self.commands.push(text.into());
        }
    }

    fn value(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) if key == "undo" => self.undo(text),
            Value::String(text) if key == "command" => self.commands.push(text.into()),
            Value::String(text) if key == "risk" => {
                let (risk, undo) = text.split_once(" Undo: ").unwrap_or((text, "nothing"));
                self.text(risk);
                self.undo(undo);
            }
            Value::String(text) if key == "ticket" => self.ticket(text),
            Value::String(text) => self.text(text),
            Value::Array(all) => all.iter().for_each(|v| self.value("", v)),
            // What ran while it was recorded, not what to run.
            Value::Object(_) if key == "command" => {}
            Value::Object(all) => {
                let all = all.iter().filter(|(key, _)| !ROWS.contains(&key.as_str()));
                all.for_each(|(key, value)| self.value(key, value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Markdown: commands are fenced, the rest is text.
    fn ticket(&mut self, text: &str) {
        for (i, part) in text.split("\n  ```").enumerate() {
            match part.strip_prefix("sh\n") {
                Some(command) if i % 2 == 1 => self.commands.push(command.trim().into()),
                _ => self.text(part),
            }
        }
    }

    /// The text for people, whose lines end where the screen does: commands follow a label.
    fn lines(&mut self, text: &str) {
        for line in text.lines() {
            let label = ["fix: ", "look: ", "undo "].iter();
            let mut rests = label.filter_map(|label| line.trim_start().strip_prefix(label));
            let rest = rests
                .next()
                .map(|rest| rest.trim_start().trim_start_matches("$ "));
            self.begun
                .extend(rest.map(|rest| rest.trim_end().to_string()));
        }
    }

    /// The first that is not as it should be.
    fn wrong(&self, plant: &Plant) -> Option<String> {
        let programs = |span: &&String| PROGRAMS.iter().any(|program| span.starts_with(program));
        let all = self.commands.iter().chain(&self.spans);
        let known = |begun: &&String| {
            let mut known = self.commands.iter().chain(&self.words);
            known.any(|all| all.starts_with(begun.as_str()))
        };
        if let Some(other) = self.begun.iter().find(|begun| !known(begun)) {
            return Some(format!("another command than in JSON: {other}"));
        }
        let wrong = all
            .filter(|command| {
                self.commands.contains(command) || command.contains(MARK) || programs(command)
            })
            .find_map(|command| holds(command, plant).err());
        wrong.or_else(|| {
            let spans = self.spans.iter().filter(programs);
            let parsed: Vec<&String> = self.commands.iter().chain(spans).collect();
            let dir = tempfile::tempdir().unwrap();
            let script = dir.path().join("all.sh");
            fs::write(
                &script,
                parsed.iter().map(|c| format!("{c}\n")).collect::<String>(),
            )
            .unwrap();
            let sh = Command::new("sh").arg("-n").arg(&script).output().unwrap();
            (!sh.status.success()).then(|| format!("{}: {parsed:#?}", stderr(&sh)))
        })
    }
}

/// All that is told of a recording.
fn told(path: &Path) -> Told {
    let mut told = Told::default();
    let json = run(&["explain", arg(path), "--json"]);
    assert!(json.status.success(), "{}", stderr(&json));
    json_lines(&json)
        .iter()
        .for_each(|line| told.value("", line));
    told.lines(&stdout(&run(&["explain", arg(path), "--full"])));
    let page = run(&["report", arg(path), "--json"]);
    assert!(page.status.success(), "{}", stderr(&page));
    json_lines(&page)
        .iter()
        .for_each(|page| told.value("", page));
    told
}

/// How many commands were told that hold what was planted.
fn try_on(name: &'static str, plant: &Plant) -> Result<usize, String> {
    let dir = tempfile::tempdir().unwrap();
    let told = told(&planted(name, dir.path(), plant));
    let all = told.commands.iter().chain(&told.spans);
    match told.wrong(plant) {
        None => Ok(all.filter(|command| command.contains(MARK)).count()),
        Some(wrong) => Err(format!("{name}, {plant:?}:\n{wrong}")),
    }
}

#[test]
fn what_quotes_can_hold_stays_within_them() {
    for (table, column) in KNOWN {
        assert!(!is_word(table, column), "{table}.{column}: no text");
    }
    let tried = RECORDINGS.iter().map(|name| {
        let plant = Plant {
            text: " $(reboot);reboot|reboot&'\"\\*?[a]~#!>x<y(z){a,b}".into(),
            leads: false,
            namespaces: *name == "reverse-path.server.above",
            known: None,
        };
        try_on(name, &plant)
    });
    let (held, wrong): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
    let wrong: Vec<_> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let held: usize = held.into_iter().flatten().sum();
    assert!(held > 10, "{held} commands hold what was planted");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(10) })]

    #[test]
    fn no_text_leaves_its_word(
        name in prop::sample::select(RECORDINGS),
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..4),
        leads: bool,
        namespaces: bool,
        known in prop::option::of(0..KNOWN.len()),
    ) {
        let plant = Plant { text: pieces.concat(), leads, namespaces, known };
        let tried = try_on(name, &plant);
        prop_assert!(tried.is_ok(), "{}", tried.unwrap_err());
    }
}
