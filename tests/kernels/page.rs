//! docs/kernels.md: kernels × sources, scenarios and situations, as they were found.

use std::fmt::Write;
use std::path::PathBuf;

use recording::{Source, SourceName, Verdict};

use super::guest::Guest;
use super::spec::{Matrix, Scenario};

/// Where the page is.
pub fn path() -> PathBuf {
    super::workspace().join("docs/kernels.md")
}

const HEAD: &str = "\
<!-- Written by `make test-kernels` from what the kernels said; do not edit. -->
# Kernels

Every kernel below was booted, with the same binary in each, and asked: `tcpwhy doctor`, scenarios
of [the lab](lab.md), `tcpwhy explain` of their recordings. They are Debian's cloud images, which
are configured as servers are. What a kernel lacks is a verdict of the source, in `doctor` and in
each recording, and lowers the confidence of the findings that rest on it.

    make test-kernels                  # all; some minutes each, no root, no KVM needed
    SUITE=bullseye make test-kernels   # one

The guests run under software emulation, without network or disk, from a file system in memory.
`tests/kernels.toml` says what is expected of each; anything else fails.
";

const TAIL: &str = "
## What a missing source costs

- `drop` (before Linux 5.17): a full accept queue, SYN queue or SYN cookies are found all the same,
  from counters, listeners and stacks. Packets that netfilter drops are not seen, so a firewall is
  neither found nor ruled out: SYNs without an answer are `path-drops-syn` of low confidence,
  \"on the path or on this host\".
- `reset-unmatched` (before Linux 6.10): the kernel does not tell that it answered a SYN with a reset
  because nothing listens. Where `drop` works, the drop of that SYN tells it, and nothing is lost.
  Where both are missing, `connection-refused` is of medium confidence: only a counter (`OutRsts`)
  hints that this host refused.
- `accept-waits` (before Linux 5.13): who waited for accept() is known from samples alone. A queue that stood for less than
  their distance (a second) may be told as `slow-application`, and one that stood for a moment as `slow-accept`.
- `calls` and `port-search` (before Linux 5.12): slow and failing system calls are not listed. `waits`
  and `threads` work there.
- `requests` (before Linux 5.12): the account is that of states, from samples. A server that thinks, one that reads
  late and a peer that thinks are told right where clients rest between requests (tried with 20 ms). One that asks
  again in the tick (4 ms) in which the answer came may be told as `idle`.
- `heartbeats` (before Linux 6.3): late heartbeats are not told (`trace gaps`), nor are they evidence of
  `softirq-starvation`.
- `symbols`, `wait-waker`, `profile-symbols`: `sysctl kernel.kptr_restrict=1` brings them back for
  root.
- Secure boot (lockdown: integrity) disables no source. In confidentiality mode no BPF program may read
  kernel memory, and nothing can be recorded.
- Since Linux 7 the kernel may preempt a program while it records, and passes over events on that CPU
  meanwhile. They are counted as lost, and lower the confidence; on an emulated processor there are
  many, on a real one few or none.
";

const SCENARIOS: &str = "
## Scenarios

What the lab planted, and what was found, by the lab's own judge. An emulated processor is slow enough to be a fault of
its own, so other findings may stand beside it.

";

/// The page.
pub fn page(matrix: &Matrix, guests: &[Guest]) -> String {
    let mut page = String::from(HEAD);
    let mut notes = Vec::new();
    page += "\n## Sources\n\n";
    let columns: Vec<String> = guests
        .iter()
        .map(|g| format!("{} ({})", g.release, g.kernel.suite))
        .collect();
    head(&mut page, "source", &columns);
    let doctors: Vec<Vec<Source>> = guests.iter().map(Guest::sources).collect();
    for name in names(&doctors) {
        let cells = doctors
            .iter()
            .map(|sources| verdict(sources, &name, &mut notes));
        row(&mut page, &format!("`{name}`"), cells);
    }
    for (i, note) in notes.iter().enumerate() {
        let _ = write!(page, "\n{}. {note}", i + 1);
    }
    if !notes.is_empty() {
        page.push('\n');
    }

    page += SCENARIOS;
    head(&mut page, "scenario", &columns);
    let mut against: Vec<String> = Vec::new();
    for (i, scenario) in matrix.scenario.iter().enumerate() {
        let cells: Vec<String> = guests
            .iter()
            .map(|guest| told(guest, i, scenario, &mut against))
            .collect();
        row(
            &mut page,
            &format!("`{}`", scenario.name),
            cells.into_iter(),
        );
    }
    let right = guests.iter().map(|guest| {
        let all = 0..matrix.scenario.len();
        let right = all.filter(|i| {
            let outcome = guest.outcome(*i);
            outcome
                .found
                .iter()
                .any(|f| *f == matrix.scenario[*i].finding)
        });
        format!("{} of {}", right.count(), matrix.scenario.len())
    });
    row(&mut page, "named", right);
    let parts = super::spec::optional_parts().join(",");
    let recorded = guests.iter().map(|g| match g.lost() {
        None => "failed".into(),
        Some(0) => "recorded, nothing lost".into(),
        Some(lost) => format!("recorded, {lost} records lost"),
    });
    row(&mut page, &format!("`record --with {parts}`"), recorded);
    if !against.is_empty() {
        page += "\nWhat the judge has against those with a letter:\n\n";
    }
    for (letter, why) in letters().zip(&against) {
        let _ = writeln!(page, "- {letter}. {why}");
    }

    page += "\n## Restricted hosts\n\nMade in the same guests: what `tcpwhy doctor` then says.\n\n";
    for (i, situation) in matrix.situation.iter().enumerate() {
        let _ = writeln!(page, "- **{}**", situation.name);
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for guest in guests {
            let line = escape(&guest.answer(i));
            match said.iter_mut().find(|(known, _)| *known == line) {
                Some((_, suites)) => suites.push(&guest.kernel.suite),
                None => said.push((line, vec![&guest.kernel.suite])),
            }
        }
        for (line, suites) in &said {
            let of = match said.len() {
                1 => String::new(),
                _ => format!("{}: ", suites.join(", ")),
            };
            let _ = writeln!(page, "  - {of}{line}");
        }
    }

    page += "\n## Time\n\nOn a host with 2 CPUs: the whole guest, and `tcpwhy doctor` in it.\n\n";
    head(&mut page, "", &columns);
    let guest_seconds = guests.iter().map(|g| format!("{} s", g.took.as_secs()));
    row(&mut page, "guest", guest_seconds);
    let doctor_seconds = guests.iter().map(|g| format!("{} s", g.doctor_seconds()));
    row(&mut page, "`tcpwhy doctor`", doctor_seconds);
    page + TAIL
}

/// What a guest told of a scenario, with the letter of what the judge has against it.
fn told(guest: &Guest, i: usize, scenario: &Scenario, against: &mut Vec<String>) -> String {
    let outcome = guest.outcome(i);
    let finding = guest.kernel.finding(scenario);
    let what = match outcome.found.iter().any(|f| f == finding) {
        true if finding == scenario.finding => "found".into(),
        true => format!("`{finding}`"),
        false => "not found".into(),
    };
    let mut letter = None;
    if !outcome.why.is_empty() {
        let why = escape(&outcome.why.join("; "));
        let of = format!("`{}` on {}: {why}", scenario.name, guest.kernel.suite);
        against.push(of);
        letter = letters().nth(against.len() - 1);
    }
    let letter = letter.map(|l| format!(" ({l})")).unwrap_or_default();
    format!("{what}{letter} ({} s)", outcome.seconds)
}

/// a, b … z, aa, ab …
fn letters() -> impl Iterator<Item = String> {
    let one = || ('a'..='z').map(String::from);
    let two = one().flat_map(move |first| one().map(move |last| format!("{first}{last}")));
    one().chain(two)
}

/// The names of all sources, in the order of their first appearance.
fn names(lists: &[Vec<Source>]) -> Vec<SourceName> {
    let mut names: Vec<SourceName> = Vec::new();
    for source in lists.iter().flatten() {
        if !names.contains(&source.name) {
            names.push(source.name.clone());
        }
    }
    names
}

/// `yes`, or `no` with the number of a note that says why.
fn verdict(sources: &[Source], name: &SourceName, notes: &mut Vec<String>) -> String {
    let Some(source) = sources.iter().find(|s| s.name == *name) else {
        return "—".into();
    };
    let (word, why) = match &source.verdict {
        Verdict::Attached => return "yes".into(),
        Verdict::Unsupported(why) => ("no", why),
        Verdict::Failed(why) => ("**failed**", why),
    };
    let note = format!("`{name}`: {}", escape(why));
    let at = notes.iter().position(|n| *n == note).unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    format!("{word} ({})", at + 1)
}

fn head(page: &mut String, first: &str, columns: &[String]) {
    let _ = writeln!(page, "| {first} | {} |", columns.join(" | "));
    let _ = writeln!(page, "|---{}|", "|---".repeat(columns.len()));
}

fn row(page: &mut String, first: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(page, "| {first} | {} |", cells.join(" | "));
}

/// Text of a program inside Markdown.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('*', "\\*")
}
