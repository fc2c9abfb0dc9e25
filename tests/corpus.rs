//! What explain says of every recording of the corpus is what `fixtures/corpus/expected.tsv` holds, line by line.
//! `BLESS=1` writes the file anew, and prints the lines that changed.

mod page;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use explain::{Explanation, Finding, Holds, Level, Number, Refuted, Scope};
use lab::RecordedTruth;
use recording::{PACKED, Recording, Scratch};
use serde_json::Value;

pub use page::page;

/// What the names of models' recordings begin with: `model-NAME.PRESET`. They are computed, not kept.
const MODEL: &str = "model-";
/// Presets that take minutes to compute and explain in a debug build: `tcpwhy model check` holds them.
const TOO_LONG: &[&str] = &["unicorn", "unicorn-off-peak", "unicorn-tuned"];
/// Of causes that are ruled out as nothing was seen of them.
const UNSEEN: &str = "nothing was seen of it";
/// Of each account so many lines.
const ACCOUNT_LINES: usize = 3;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/corpus")
}

/// The truths, by recording.
fn truths() -> BTreeMap<String, RecordedTruth> {
    let text = fs::read_to_string(corpus().join("truth.tsv")).expect("truth.tsv (make corpus)");
    let truths = text.lines().skip(1).map(|line| {
        let truth = RecordedTruth::from_line(line);
        truth.unwrap_or_else(|| panic!("truth.tsv: `{line}` is no truth (make corpus)"))
    });
    truths.map(|t| (t.recording.clone(), t)).collect()
}

/// Opens one, or says in a line what is wrong with it and what to do.
fn open(path: &Path) -> Result<Recording, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let wrong = |why: String| format!("{name}: {why}: record it anew (make corpus)");
    let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
    let scratch = Scratch::make(&std::env::temp_dir(), "corpus").map_err(|e| e.to_string())?;
    let recording = Recording::unpack(file, Path::new(name.as_ref()), scratch);
    let recording = recording.map_err(|e| wrong(e.to_string()))?;
    if recording.is_cut_short() || recording.torn() > 0 {
        return Err(wrong("cut short".into()));
    }
    Ok(recording)
}

fn packed(name: &str) -> PathBuf {
    corpus().join(format!("{name}.{PACKED}"))
}

/// One as a directory there.
pub fn unpacked(name: &str, into: &Path) -> PathBuf {
    let tar = Command::new("tar")
        .arg("-xzf")
        .arg(packed(name))
        .arg("-C")
        .arg(into)
        .status();
    assert!(tar.expect("tar").success(), "unpacking {name}");
    into.join("recording.tcpwhy")
}

/// A model's recording, computed: the same parameters and seed give the same to the byte.
fn computed(name: &str) -> Result<(tempfile::TempDir, Recording), String> {
    let wrong = |why: String| format!("{name}: {why}");
    let (model, preset) = name.split_once('.').unwrap_or((name, ""));
    let model = model.strip_prefix(MODEL).unwrap_or(model);
    let model = models::find(model).map_err(|e| wrong(e.to_string()))?;
    let values = model.parameters().and_then(|p| p.preset(preset));
    let values = values.map_err(|e| wrong(e.to_string()))?;
    let place = tempfile::tempdir().map_err(|e| wrong(e.to_string()))?;
    let dir = place.path().join("model.tcpwhy");
    model
        .record(&values, 1, &dir)
        .map_err(|e| wrong(e.to_string()))?;
    let recording = Recording::open(&dir).map_err(|e| wrong(e.to_string()))?;
    Ok((place, recording))
}

/// What explain says of one, a line each: what the file holds of it.
fn said(truth: &RecordedTruth) -> Result<Vec<String>, String> {
    let (_place, recording) = if truth.kind == "model" {
        computed(&truth.recording).map(|(place, recording)| (Some(place), recording))?
    } else {
        (None, open(&packed(&truth.recording))?)
    };
    let explanation = explain::explain(&recording).map_err(|e| e.to_string())?;
    contradicts(&explanation).map_err(|why| format!("{}: {why}", truth.recording))?;
    let mut lines = verdict(truth, &explanation.findings);
    for finding in &explanation.findings {
        let lost = finding.lost_s.seconds().map(|s| format!("{s:.2} s"));
        lines.push(format!(
            "finding\t{}\t{}\t{}\t{}",
            finding.cause,
            place(&finding.scope),
            level(finding.confidence.level),
            lost.unwrap_or_else(|| "seconds unknown".into())
        ));
    }
    for note in &explanation.notes {
        lines.push(format!(
            "note\t{}\t{}\t{}",
            note.cause,
            place(&note.scope),
            note.because
        ));
    }
    lines.extend(answers(&explanation));
    let accounts = explanation.account.iter().take(ACCOUNT_LINES);
    lines.extend(accounts.map(|service| format!("account\t{}", view::text::account(service))));
    Ok(lines)
}

/// Whether the findings are the truth: what is told of it, what is not, and what is told beside it.
fn verdict(truth: &RecordedTruth, findings: &[Finding]) -> Vec<String> {
    let is_found = |id: &str| findings.iter().any(|f| f.cause.as_str() == id);
    let mut lines = Vec::new();
    for right in &truth.right {
        let told = right.split('|').any(is_found);
        let word = if told { "told" } else { "silent" };
        lines.push(format!("truth\t{word}\t{right}"));
    }
    let known = |f: &&Finding| {
        let mut right = truth.right.iter().flat_map(|r| r.split('|'));
        let id = f.cause.as_str();
        right.any(|r| r == id) || truth.may.iter().any(|m| m == id)
    };
    let others = findings.iter().filter(|f| !known(f));
    lines.extend(others.map(|f| format!("truth\tbeside\t{}", f.cause)));
    if lines.is_empty() {
        lines.push("truth\tsilent\t-".into());
    }
    lines
}

/// Nothing is ruled out that a finding could not rule out, or by nothing, or by a number on the wrong side of its
/// limit; and what is noted is not.
fn contradicts(explanation: &Explanation) -> Result<(), String> {
    let causes = &explanation.summary.causes;
    for answer in causes.iter().filter(|a| a.answer == Holds::No) {
        let id = answer.cause;
        let Some(refuted) = &answer.refuted else {
            return Err(format!("{id} is ruled out by no number"));
        };
        let numbers = &refuted.numbers.0;
        let zero =
            |n: &Number| matches!(n, Number::Count(0)) || matches!(n, Number::Real(v) if *v == 0.0);
        let counted = |n: &Number| matches!(n, Number::Count(_) | Number::Real(_));
        let counted: Vec<_> = numbers
            .iter()
            .map(|(_, n)| n)
            .filter(|n| counted(n))
            .collect();
        if counted.is_empty() || refuted.rows.is_empty() && counted.iter().all(|n| zero(n)) {
            return Err(format!("{id} is ruled out by nothing: {numbers:?}"));
        }
        if !refuted.is_refuting() || answer.because.as_deref().is_none_or(str::is_empty) {
            return Err(format!(
                "{id} is ruled out by what does not refute it: {refuted:?}"
            ));
        }
        let unsure = format!("{id} could not be ruled out");
        let mut findings = explanation.findings.iter();
        if let Some(finding) = findings.find(|f| f.confidence.because.contains(&unsure)) {
            return Err(format!("{unsure} where {} holds, and is", finding.cause));
        }
        if explanation.notes.iter().any(|note| note.cause == id) {
            return Err(format!("{id} is noted and ruled out"));
        }
    }
    let noted = explanation.notes.iter().filter_map(|note| {
        let answer = causes.iter().find(|a| a.cause == note.cause)?;
        let told = explanation.findings.iter().any(|f| f.cause == note.cause);
        (!told && answer.because.is_none()).then_some(note.cause)
    });
    match noted.collect::<Vec<_>>().first() {
        Some(id) => Err(format!("{id} is noted, and its answer does not say so")),
        None => Ok(()),
    }
}

/// What every cause answers: by which number it is ruled out, why it cannot tell. Causes that say the same share
/// a line.
fn answers(explanation: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in &explanation.findings {
        for rival in &finding.ruled_out {
            lines.push(format!(
                "ruled out\t{}\tbeside {}\t{}",
                rival.cause, finding.cause, rival.because
            ));
        }
    }
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for answer in &explanation.summary.causes {
        let word = match answer.answer {
            Holds::Yes => "found",
            Holds::No => "ruled out",
            Holds::CannotTell => "cannot tell",
        };
        let unseen = answer.refuted.as_ref().is_some_and(Refuted::is_of_nothing);
        let because = if unseen {
            UNSEEN
        } else {
            answer.because.as_deref().unwrap_or("-")
        };
        let says = format!("answer\t{word}\t{because}");
        alike.entry(says).or_default().push(answer.cause.as_str());
    }
    let answers = alike.into_iter().map(|(says, causes)| {
        if says.ends_with(UNSEEN) {
            // What is not named in another line.
            format!("{says}\t{} causes", causes.len())
        } else {
            format!("{says}\t{}", causes.join(" "))
        }
    });
    lines.extend(answers);
    lines
}

/// Where: the node, and what in it.
fn place(scope: &Scope) -> String {
    let netns = scope.netns.name.as_deref().unwrap_or("-");
    let node = netns.rsplit_once('-').map_or(netns, |(_, node)| node);
    let resource = scope.resource.as_deref().unwrap_or_default();
    let comm = scope.comm.as_deref().unwrap_or_default();
    let parts = [node, scope.listener.as_str(), resource, comm].into_iter();
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Low => "low",
        Level::Medium => "medium",
        Level::High => "high",
    }
}

/// The file's text: lines of recordings under their names.
fn text(said: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = String::new();
    for (recording, lines) in said {
        text.push_str(recording);
        text.push('\n');
        for line in lines {
            text.push_str(&format!("\t{line}\n"));
        }
    }
    text
}

fn read(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut recording = String::new();
    for line in text.lines() {
        match line.strip_prefix('\t') {
            Some(line) => said.entry(recording.clone()).or_default().push(line.into()),
            None => {
                recording = line.to_string();
                said.entry(recording.clone()).or_default();
            }
        }
    }
    said
}

/// What changed, by recording: lines that are gone and lines that have come.
fn changed(
    before: &BTreeMap<String, Vec<String>>,
    now: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let mut names: Vec<&String> = before.keys().chain(now.keys()).collect();
    names.sort();
    names.dedup();
    let none = Vec::new();
    let mut lines = Vec::new();
    for name in names {
        let [old, new] = [before, now].map(|said| said.get(name).unwrap_or(&none));
        let gone = old.iter().filter(|line| !new.contains(line));
        let come = new.iter().filter(|line| !old.contains(line));
        let differ: Vec<String> = gone
            .map(|line| format!("  - {line}"))
            .chain(come.map(|line| format!("  + {line}")))
            .collect();
        if !differ.is_empty() {
            lines.push(name.clone());
            lines.extend(differ);
        } else if old != new {
            lines.push(format!("{name}\n  the same lines in another order"));
        }
    }
    lines
}

/// What explain says of all of them, by as many threads as there are CPUs.
fn all(truths: &BTreeMap<String, RecordedTruth>) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let todo = Mutex::new(truths.values().collect::<Vec<_>>());
    let (done, wrong) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(truth) = todo.lock().expect("todo").pop() else {
                        return;
                    };
                    match said(truth) {
                        Ok(lines) => {
                            let mut done = done.lock().expect("done");
                            done.insert(truth.recording.clone(), lines);
                        }
                        Err(why) => wrong.lock().expect("wrong").push(why),
                    }
                }
            });
        }
    });
    let done = done.into_inner().expect("done");
    (done, wrong.into_inner().expect("wrong"))
}

#[test]
fn explain_says_of_the_corpus_what_it_said() {
    let path = corpus().join("expected.tsv");
    let (now, wrong) = all(&truths());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = changed(&read(&written), &now);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text(&now)).expect("writing what is said");
        println!("{}", differs.join("\n"));
        return;
    }
    assert!(
        differs.is_empty(),
        "explain says something else of these (read it; BLESS=1, or make bless, writes it):\n{}",
        differs.join("\n")
    );
}

/// The states in which the ends of a service spent most, as the fault of each recording demands; that the parts of
/// each account sum to its whole.
#[test]
fn the_account_says_where_the_time_went() {
    let told = [
        (
            "slow-reader.client.above",
            "client",
            "198.18.1.2:7000",
            &["peer_window"][..],
        ),
        (
            "slow-reader.server.above",
            "server",
            "0.0.0.0:7000",
            &["unread"],
        ),
        (
            "program-nginx-backlog",
            "server",
            "0.0.0.0:80",
            &["unaccepted"],
        ),
        (
            "path-loss.client.above",
            "client",
            "198.18.1.2:7000",
            &["path", "repair"],
        ),
        ("program-redis-slow", "server", "0.0.0.0:6379", &["owing"]),
        (
            "program-haproxy-path-drops-syn",
            "client",
            "10.7.2.1:8000",
            &["connecting"],
        ),
        (
            "program-socat-slow-reader",
            "client",
            "10.7.2.1:9000",
            &["peer_window"],
        ),
    ];
    for (name, role, at, states) in told {
        let recording = open(&packed(name)).unwrap();
        let explanation = explain::explain(&recording).unwrap();
        let accounts = explanation.account.iter();
        let accounts: Vec<Value> = accounts.map(|a| serde_json::to_value(a).unwrap()).collect();
        let sum = |a: &Value, of: &[&str]| -> f64 {
            let spent = a["spent_s"].as_object().expect("states").iter();
            let asked = spent.filter(|(k, _)| of.is_empty() || of.contains(&k.as_str()));
            asked.filter_map(|(_, s)| s.as_f64()).sum()
        };
        for account in &accounts {
            let total = account["total_s"].as_f64().expect("a total");
            let parts = sum(account, &[]);
            // Each is told with four digits.
            assert!(
                (parts - total).abs() <= total * 2e-3,
                "{name}: {parts} of {total} s"
            );
        }
        let account = accounts.iter().find(|a| a["role"] == role && a["at"] == at);
        let account = account.unwrap_or_else(|| panic!("{name} has no account of {at}"));
        let share = sum(account, states) / sum(account, &[]);
        assert!(
            share > 0.7,
            "{name}: {at} {role}: {states:?} are {share} of {account}"
        );
    }
}

#[test]
fn every_recording_has_a_truth_and_every_truth_a_recording() {
    let files = fs::read_dir(corpus()).expect("the corpus").flatten();
    let files = files.filter_map(|e| {
        let name = e.file_name().into_string().ok()?;
        Some(name.strip_suffix(&format!(".{PACKED}"))?.to_string())
    });
    let mut files: Vec<String> = files.collect();
    files.sort();
    let (computed, kept): (Vec<_>, Vec<_>) =
        truths().into_values().partition(|t| t.kind == "model");
    let kept: Vec<String> = kept.into_iter().map(|t| t.recording).collect();
    assert_eq!(files, kept);
    let presets = models::MODELS.iter().flat_map(|model| {
        let presets = model.parameters().unwrap().presets.into_iter();
        let presets = presets.filter(|preset| !TOO_LONG.contains(&preset.name.as_str()));
        presets.map(|preset| format!("{MODEL}{}.{}", model.name, preset.name))
    });
    let mut presets: Vec<String> = presets.collect();
    presets.sort();
    let computed: Vec<String> = computed.into_iter().map(|t| t.recording).collect();
    assert_eq!(computed, presets);
}

#[test]
fn the_corpus_is_small_enough_to_be_in_the_tree() {
    let files = fs::read_dir(corpus()).expect("the corpus").flatten();
    let bytes: u64 = files.map(|e| e.metadata().map_or(0, |m| m.len())).sum();
    assert!(bytes <= 30_000_000, "{bytes} bytes");
}

#[test]
fn a_file_that_is_cut_foreign_or_newer_is_named_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let whole = fs::read(packed("refused.above")).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = place.path().join(name);
        fs::write(&path, bytes).unwrap();
        match open(&path) {
            Ok(_) => panic!("{name} opens"),
            Err(why) => why,
        }
    };
    for (name, bytes) in [
        ("cut.tcpw", &whole[..whole.len() / 2]),
        ("empty.tcpw", &[][..]),
        ("foreign.tcpw", &b"<html>not found</html>".repeat(50)[..]),
    ] {
        let why = file(name, bytes);
        assert!(
            why.starts_with(name) && why.ends_with("(make corpus)") && !why.contains('\n'),
            "{why}"
        );
    }
    // Of a format that is not known yet.
    let recording = open(&packed("refused.above")).unwrap();
    let dir = place.path().join("newer.tcpwhy");
    let copied = Command::new("cp")
        .args(["-r", &recording.dir().to_string_lossy()])
        .arg(&dir)
        .status();
    assert!(copied.unwrap().success());
    let manifest = dir.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let newer = text.replacen("\"format\": 1", "\"format\": 99", 1);
    assert_ne!(newer, text, "{text}");
    fs::write(&manifest, newer).unwrap();
    let tar = Command::new("tar")
        .args([
            "-C",
            &place.path().to_string_lossy(),
            "-cf",
            "-",
            "newer.tcpwhy",
        ])
        .output()
        .unwrap();
    let why = file("newer.tcpw", &tar.stdout);
    assert!(
        why.contains("format 99") && why.ends_with("(make corpus)"),
        "{why}"
    );
}

#[test]
fn changes_are_told_by_recording() {
    let said = |lines: &[(&str, &[&str])]| {
        let lines = lines.iter().map(|(name, lines)| {
            (
                name.to_string(),
                lines.iter().map(|l| l.to_string()).collect(),
            )
        });
        lines.collect::<BTreeMap<String, Vec<String>>>()
    };
    let before = said(&[("a", &["x", "y"]), ("b", &["z"]), ("c", &["1", "2"])]);
    assert_eq!(read(&text(&before)), before);
    let now = said(&[
        ("a", &["x", "w"]),
        ("b", &["z"]),
        ("c", &["2", "1"]),
        ("d", &["new"]),
    ]);
    assert_eq!(
        changed(&before, &now),
        [
            "a",
            "  - y",
            "  + w",
            "c\n  the same lines in another order",
            "d",
            "  + new"
        ]
    );
}

/// Causes without a recording, with why.
fn missing() -> BTreeMap<String, String> {
    let text = fs::read_to_string(corpus().join("missing.toml")).expect("missing.toml");
    toml::from_str(&text).expect("causes with reasons")
}

#[test]
fn every_cause_has_a_recording_or_a_reason_why_not() {
    let (truths, said) = (truths(), said_before());
    let missing = missing();
    for cause in explain::causes() {
        let id = cause.id.as_str();
        // What harms nobody is planted to be a note.
        let noted = |t: &RecordedTruth| {
            let note = format!("note\t{id}\t");
            let mut lines = said.get(&t.recording).into_iter().flatten();
            t.may.iter().any(|m| m == id) && lines.any(|line| line.starts_with(&note))
        };
        let right = |t: &RecordedTruth| t.right.iter().any(|r| r.split('|').any(|one| one == id));
        let of = |t: &RecordedTruth| right(t) || noted(t);
        let recorded = truths.values().any(of);
        let reason = missing.get(id).map_or("", String::as_str);
        assert_ne!(
            recorded,
            reason.len() >= 20,
            "{id}: a recording, or a reason in missing.toml, and not both"
        );
    }
}

fn said_before() -> BTreeMap<String, Vec<String>> {
    read(&fs::read_to_string(corpus().join("expected.tsv")).unwrap_or_default())
}
