//! The report: a recording, explained, as one HTML file that opens anywhere, offline.

mod compared;
mod courses;
mod events;
mod findings;
mod flames;
mod html;
mod latency;
mod limits;
mod overview;
mod pack;
pub mod page;
mod services;
mod sockets;
mod threads;
mod timelines;
mod verdict;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use analysis::timeline::Axis;
use explain::{Explanation, Options, Reading, compare};
use recording::{Error, Manifest, Recording};

use crate::{Style, escape, text};
use flames::Profiles;
use page::{Line, Page, Run};

/// Texts of the host longer than this many characters are cut.
const LONGEST_TEXT: usize = 300;

/// A report: what the page shows, and the same as plain text for readers without scripts.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the page shows.
    pub page: Page,
    /// The explanations, without colour.
    pub plain: String,
}

impl Report {
    /// The report of one recording, or of several with what differs.
    pub fn of(recordings: &[(String, Recording)]) -> Result<Report, Error> {
        let mut report = Report {
            page: Page {
                tcpwhy: env!("CARGO_PKG_VERSION").into(),
                causes: findings::causes(),
                ..Page::default()
            },
            plain: String::new(),
        };
        let several = recordings.len() > 1;
        let (mut compared, mut profiles) = (Vec::new(), Vec::new());
        // One after the other: what is read of a recording may be a few hundred MB.
        for (name, recording) in recordings {
            let name = short(name);
            let reading = Reading::of(recording)?;
            let explanation = reading.explain(recording, &Options::default())?;
            report.tell(&name, &explanation, several);
            let of_run = Profiles::read(recording)?;
            let run = run(&name, recording, &reading, &explanation, &of_run)?;
            report.page.runs.push(run);
            if several {
                compared.push(reading.run(name, recording, &explanation)?);
                profiles.push(of_run);
            }
        }
        if several {
            let comparison = compare::of(&compared);
            let flames = match &profiles[..] {
                [first, second] => second.differences(first),
                _ => Vec::new(),
            };
            let text = crate::compare::comparison(&comparison, &Style::default());
            report.plain = format!("{text}\n{}", report.plain);
            report.page.comparison = Some(compared::compared(&comparison, flames));
        }
        Ok(report)
    }

    /// Adds an explanation to the plain text.
    fn tell(&mut self, name: &str, explanation: &Explanation, named: bool) {
        if named {
            self.plain += &format!("==== {} ====\n\n", escape(name));
        }
        self.plain += &text::full(explanation, &Style::default());
        self.plain.push('\n');
    }

    /// Writes it as one HTML file.
    pub fn html(&self, out: &mut impl Write) -> io::Result<()> {
        html::write(&self.page, &self.plain, out)
    }
}

/// The name that a recording goes by: that of its directory, without the ending that all have.
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy());
    let name = name.unwrap_or_else(|| path.to_string_lossy());
    let ends = [".tcpwhy", ".tcpw", ".tgz", ".tar.gz"];
    let stem = ends.iter().find_map(|end| name.strip_suffix(end));
    short(stem.unwrap_or(&name))
}

fn run(
    name: &str,
    recording: &Recording,
    reading: &Reading,
    explanation: &Explanation,
    profiles: &Profiles,
) -> Result<Run, Error> {
    // The page shows what is between backquotes as commands.
    let told = recording.for_sentences();
    let (manifest, story) = (&told.manifest, reading.story());
    let axis = Axis::of(manifest);
    let names = Names::of(manifest);
    let mut thinned = Thinned::default();
    let evidence = findings::evidence(recording, explanation)?;
    let facts = overview::facts(manifest, &mut thinned);
    let mut findings = findings::findings(explanation, &evidence, &mut thinned);
    let mut timelines = timelines::timelines(recording, story, axis, &names, evidence.values())?;
    courses::add(
        &mut findings,
        explanation,
        &evidence,
        &mut timelines,
        &names,
        facts.length_s,
    );
    Ok(Run {
        name: name.into(),
        verdict: verdict::verdict(name, &facts, explanation),
        facts,
        services: services::services(recording, story, &explanation.account, &names, &mut thinned)?,
        findings,
        noted: findings::noted(explanation, &mut thinned),
        summary: overview::overview(explanation),
        health: overview::health(explanation),
        sources: overview::sources(manifest),
        settings: overview::settings(recording, axis, &names, &mut thinned)?,
        timelines,
        latency: latency::latency(reading, axis),
        sockets: sockets::sockets(recording, reading, axis, &names, &mut thinned)?,
        threads: threads::threads(recording, story, axis, &mut thinned)?,
        flames: profiles.flames(&mut thinned),
        limits: limits::limits(recording, story)?,
        rows: findings::rows(&evidence, axis),
        tables: findings::tables(&evidence),
        thinned: thinned.0,
    })
}

/// What the page leaves out, in sentences.
#[derive(Default)]
struct Thinned(Vec<String>);

impl Thinned {
    fn say(&mut self, left_out: bool, says: impl FnOnce() -> String) {
        if left_out {
            self.0.push(says());
        }
    }
}

/// Names of network namespaces.
struct Names(BTreeMap<u32, String>);

impl Names {
    fn of(manifest: &Manifest) -> Names {
        let named = manifest.namespaces.iter().filter(|n| !n.name.is_empty());
        Names(named.map(|n| (n.inode, short(&n.name))).collect())
    }

    fn netns(&self, inode: u32) -> String {
        match (self.0.get(&inode), inode) {
            (Some(name), _) => name.clone(),
            (None, 0) => "host".into(),
            (None, inode) => inode.to_string(),
        }
    }
}

/// A line of a chart, in units of `scale`.
fn line(
    name: impl Into<String>,
    values: impl IntoIterator<Item = Option<f64>>,
    scale: f64,
) -> Line {
    Line {
        name: name.into(),
        limit: false,
        values: pack::pack(values, scale),
    }
}

/// A text of the host: nothing in it hides or reorders other text, and it has an end.
fn short(text: &str) -> String {
    let text = escape(text);
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use ts_rs::{Config, TS};

    use super::page::Page;

    /// The page's types in TypeScript are generated from these by `make docs`.
    #[test]
    fn the_pages_types_are_current() {
        let made = tempfile::tempdir().unwrap();
        let config = Config::new().with_out_dir(made.path());
        Page::export_all(&config).unwrap();
        let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/page");
        let bless = std::env::var_os("BLESS").is_some();
        if bless {
            let _ = fs::remove_dir_all(&types);
            fs::create_dir_all(&types).unwrap();
        }
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.collect::<BTreeSet<_>>()
        };
        let stale = "web/src/page is not current: run make docs";
        for name in names(&made.path().join("page")) {
            let now = fs::read_to_string(made.path().join("page").join(&name)).unwrap();
            if bless {
                fs::write(types.join(&name), &now).unwrap();
            }
            let written = fs::read_to_string(types.join(&name)).unwrap_or_default();
            assert!(written == now, "{}: {stale}", name.display());
        }
        assert_eq!(names(&types), names(&made.path().join("page")), "{stale}");
    }
}
