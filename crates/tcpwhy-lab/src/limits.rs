//! `tcpwhy-lab limits`: the numbers that decide, and which findings of the corpus hang on each.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;
use explain::limits::{self, Limit};
use explain::{Explanation, Level, Options, Reading};
use recording::{PACKED, Recording, Scratch};

/// Arguments of `tcpwhy-lab limits`.
#[derive(Args, Debug)]
#[command(
    after_help = "A sweep over all limits takes minutes with a release build; only recordings that read a limit \
                  are explained again."
)]
pub struct LimitsArgs {
    /// Only these limits, by name
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Explain the corpus with each limit at other values, and print what changes
    #[arg(long)]
    sweep: bool,
    /// How many times its value each limit is tried at
    #[arg(long = "times", value_name = "N", default_values_t = [0.5, 2.0], requires = "sweep")]
    factors: Vec<f64>,
    /// The corpus to sweep: a directory of packed recordings
    #[arg(
        long,
        value_name = "DIR",
        default_value = "fixtures/corpus",
        requires = "sweep"
    )]
    corpus: PathBuf,
}

/// Runs the verb.
pub fn run(args: &LimitsArgs, out: &mut dyn Write) -> Result<ExitCode> {
    let chosen = chosen(&args.names)?;
    if !args.sweep {
        for limit in chosen {
            let Limit { name, basis, .. } = limit;
            writeln!(
                out,
                "{name:<24} {:>16}  {basis:<9}  {}",
                limit.told(),
                limit.why()
            )?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let recordings = recordings(&args.corpus)?;
    let next = AtomicUsize::new(0);
    let sweep_some = || {
        let fresh = |limit| Swept::new(limit, &args.factors);
        let mut swept: Vec<Swept> = chosen.iter().copied().map(fresh).collect();
        while let Some(path) = recordings.get(next.fetch_add(1, Ordering::Relaxed)) {
            sweep(path, &mut swept).with_context(|| path.display().to_string())?;
            cli::say(&path.display().to_string());
        }
        Ok(swept)
    };
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let parts: Result<Vec<Vec<Swept>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(sweep_some)).collect();
        let joined = threads.into_iter().map(|t| match t.join() {
            Ok(swept) => swept,
            Err(panicked) => std::panic::resume_unwind(panicked),
        });
        joined.collect()
    });
    let mut parts = parts?.into_iter();
    let mut swept = parts.next().unwrap_or_default();
    for part in parts {
        for (all, some) in swept.iter_mut().zip(part) {
            all.merge(some);
        }
    }
    writeln!(
        out,
        "{:<24} {:>16}  {:<9} {:>5}  what changes",
        "limit", "value", "basis", "read"
    )?;
    for swept in &swept {
        let Limit { name, basis, .. } = swept.limit;
        let (value, read) = (swept.limit.told(), swept.read);
        writeln!(
            out,
            "{name:<24} {value:>16}  {basis:<9} {read:>5}  {}",
            swept.says()
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The limits that are asked for; all without names.
fn chosen(names: &[String]) -> Result<Vec<&'static Limit>> {
    if names.is_empty() {
        return Ok(limits::all().collect());
    }
    let find = |name: &String| {
        let found = limits::all().find(|limit| limit.name.eq_ignore_ascii_case(name));
        found.with_context(|| format!("no limit is called {name}: tcpwhy-lab limits lists them"))
    };
    names.iter().map(find).collect()
}

/// The packed recordings of a directory, in the order of their names.
fn recordings(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == PACKED));
    paths.sort();
    if paths.is_empty() {
        bail!("{}: no recording ends in .{PACKED}", dir.display());
    }
    Ok(paths)
}

/// What is found in a recording: by cause and place how surely, once for each that is alike.
type Found = BTreeMap<(String, String), Vec<Level>>;

fn found(explanation: &Explanation) -> Found {
    let mut found = Found::new();
    for finding in &explanation.findings {
        let scope = &finding.scope;
        let netns = scope.netns.name.as_deref().unwrap_or_default();
        let comm = scope.comm.as_deref().unwrap_or_default();
        let place = format!("{netns} {} {comm}", scope.place());
        let levels = found.entry((finding.cause.to_string(), place)).or_default();
        levels.push(finding.confidence.level);
    }
    found
}

/// Explains one recording with each limit that is read, at every factor.
fn sweep(path: &Path, swept: &mut [Swept]) -> Result<()> {
    let scratch = Scratch::make(&std::env::temp_dir(), "sweep")?;
    let recording = Recording::unpack(File::open(path)?, path, scratch)?;
    let reading = Reading::of(&recording)?;
    let explain = || reading.explain(&recording, &Options::default());
    let (before, read) = limits::watched(explain);
    let before = found(&before?);
    for swept in swept.iter_mut().filter(|s| read.contains(s.limit.name)) {
        swept.read += 1;
        for (factor, changes) in &mut swept.changes {
            let after = limits::scaled(swept.limit, *factor, explain)?;
            changes.add(&before, &found(&after));
        }
    }
    Ok(())
}

/// A limit, and what hangs on it.
struct Swept {
    limit: &'static Limit,
    /// Recordings that are explained by it.
    read: usize,
    /// What changes at each factor.
    changes: Vec<(f64, Changes)>,
}

impl Swept {
    fn new(limit: &'static Limit, factors: &[f64]) -> Swept {
        let changes = factors.iter().map(|f| (*f, Changes::default()));
        Swept {
            limit,
            read: 0,
            changes: changes.collect(),
        }
    }

    /// Adds what others showed of the same limit.
    fn merge(&mut self, other: Swept) {
        self.read += other.read;
        for ((_, all), (_, some)) in self.changes.iter_mut().zip(other.changes) {
            all.recordings += some.recordings;
            all.appear += some.appear;
            all.vanish += some.vanish;
            all.level += some.level;
        }
    }

    fn says(&self) -> String {
        if self.read == 0 {
            return "never read".into();
        }
        if self.changes.iter().all(|(_, c)| c.recordings == 0) {
            return "nothing".into();
        }
        let each = self.changes.iter();
        let each: Vec<String> = each
            .map(|(factor, c)| format!("× {factor}: {}", c.says()))
            .collect();
        each.join("; ")
    }
}

/// What changes over the corpus.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    recordings: usize,
    appear: usize,
    vanish: usize,
    /// Findings that are told more or less surely.
    level: usize,
}

impl Changes {
    fn add(&mut self, before: &Found, after: &Found) {
        let none = Vec::new();
        let mut all: Vec<_> = before.keys().chain(after.keys()).collect();
        all.sort();
        all.dedup();
        let (mut appear, mut vanish, mut level) = (0, 0, 0);
        for key in all {
            let was = before.get(key).unwrap_or(&none);
            let is = after.get(key).unwrap_or(&none);
            appear += is.len().saturating_sub(was.len());
            vanish += was.len().saturating_sub(is.len());
            level += was.iter().zip(is).filter(|(was, is)| was != is).count();
        }
        self.recordings += usize::from(appear + vanish + level > 0);
        self.appear += appear;
        self.vanish += vanish;
        self.level += level;
    }

    fn says(&self) -> String {
        let Changes {
            recordings,
            appear,
            vanish,
            level,
        } = self;
        if *recordings == 0 {
            return "nothing".into();
        }
        let noun = if *recordings == 1 {
            "recording"
        } else {
            "recordings"
        };
        format!("{recordings} {noun}: {appear} appear, {vanish} vanish, {level} more or less sure")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_appears_vanishes_and_changes_is_counted() {
        let key = |cause: &str| (cause.to_string(), "here".to_string());
        let before = Found::from([
            (key("path-loss"), vec![Level::High]),
            (key("tail-loss"), vec![Level::High, Level::Low]),
        ]);
        let after = Found::from([
            (key("bufferbloat"), vec![Level::Low]),
            (key("tail-loss"), vec![Level::Medium]),
        ]);
        let mut changes = Changes::default();
        changes.add(&before, &before);
        assert_eq!(changes.says(), "nothing");
        changes.add(&before, &after);
        let says = "1 recording: 1 appear, 2 vanish, 1 more or less sure";
        assert_eq!(changes.says(), says);
    }

    #[test]
    fn limits_are_chosen_by_name() {
        let chosen_of = |name: &str| chosen(&[name.to_string()]);
        assert_eq!(chosen_of("stall").unwrap()[0].name, "STALL");
        assert!(
            chosen_of("no-such")
                .unwrap_err()
                .to_string()
                .contains("lists them")
        );
        assert!(chosen(&[]).unwrap().len() > 100);
    }
}
