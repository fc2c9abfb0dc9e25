//! The book's page of the corpus: what is in it, by kind and by cause, and what is not.

use std::collections::BTreeMap;

use super::{missing, said_before, truths};

/// How many recordings there are of something.
#[derive(Default)]
struct Counted {
    told: usize,
    silent: usize,
    beside: usize,
}

/// The book's page of the corpus.
pub fn page() -> String {
    let (truths, said) = (truths(), said_before());
    let mut kinds: BTreeMap<&str, Counted> = BTreeMap::new();
    let mut causes: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for truth in truths.values() {
        let none = Vec::new();
        let lines = said.get(&truth.recording).unwrap_or(&none);
        let says = |word: &str, of: &str| {
            let line = format!("truth\t{word}\t{of}");
            lines.iter().any(|l| l.starts_with(&line))
        };
        let kind = kinds.entry(&truth.kind).or_default();
        if says("beside", "") {
            kind.beside += 1;
        } else if says("told", "") {
            kind.told += 1;
        } else {
            kind.silent += 1;
        }
        for right in &truth.right {
            let word = if says("told", right) {
                "told"
            } else {
                "not told"
            };
            for id in right.split('|') {
                let of_cause = causes.entry(id).or_default();
                let names = of_cause.entry(word.to_string()).or_default();
                names.push(&truth.recording);
            }
        }
    }
    let mut page = String::from(
        "# The corpus\n\n\
         Made from `fixtures/corpus/`; `make docs` writes it.\n\n\
         Recordings with their truth. Every change of the answers of `explain` is reviewed against them. \
         `expected.tsv` holds, for each recording, the findings (cause, place, confidence, seconds lost), the \
         notes, the answer of every cause with its reason, and the first lines of the account; `make test` \
         compares. A change of judgement shows as changed lines, by recording: read them, then `make bless` \
         writes the file. `make corpus` records all of it again, in some two hours on an otherwise idle machine, \
         and `sudo tcpwhy lab corpus fixtures/corpus --only NAME` records one subject. Each recording is one \
         file: `tcpwhy explain fixtures/corpus/NAME.tcpw`.\n\n\
         - **planted**: the scenarios of [the lab](lab.md), from every side from which they are visible. \
         `NAME.above` has a severity just above detection (within a factor of 1.8 on [the exam's](exam.md) \
         ladder), `NAME.below` one just below it; `.client` and `.server` are recorded on that side alone. From a \
         side where nothing is visible, silence is right. If a cause has several scenarios, one is kept from \
         every side. A scenario without a ladder is recorded as its file has it. The tree holds 30 MB of them: a \
         file above 195 kB (270 kB for a healthy one, 300 kB for a situation of the exam) is kept only if it is \
         the one kept for its cause.\n\
         - **healthy**: the healthy scenarios, and `NAME.without`: scenarios without their fault that still have \
         a note. These are the closest to a false alarm.\n\
         - **exam**: the situations of the exam with a wrong or missing answer, recorded again.\n\
         - **model**: [the models](models.md), each with its presets, computed when the test runs (except those of case C at its peak, which take minutes).\n\
         - **program**: real programs, recorded by tcpwhy 0.5.0 and kept, as older recordings must stay readable.\n\n\
         | kind | recordings | reported, and nothing else | silent | something else reported |\n|---|---|---|---|---|\n",
    );
    for (kind, counted) in &kinds {
        let Counted {
            told,
            silent,
            beside,
        } = counted;
        let all = told + silent + beside;
        page.push_str(&format!(
            "| {kind} | {all} | {told} | {silent} | {beside} |\n"
        ));
    }
    page.push_str("\n## By cause\n\n| cause | recordings in which it is reported | in which it is planted, and is not |\n|---|---|---|\n");
    for (cause, names) in &causes {
        let names = |word: &str| {
            let names = names.get(word).map_or(&[][..], Vec::as_slice);
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(" ")
        };
        page.push_str(&format!(
            "| `{cause}` | {} | {} |\n",
            names("told"),
            names("not told")
        ));
    }
    page.push_str("\n## What is not in it\n\n| cause | why |\n|---|---|\n");
    for (cause, why) in missing() {
        page.push_str(&format!("| `{cause}` | {why} |\n"));
    }
    page
}
