//! `hostile`: a campaign of spoiled recordings against a built tcpwhy, and a table of what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, Subcommand};
use hostile::{Ended, Large, Limits, Outcome, VERBS};

/// Rows that a table is given at most.
const MOST_ROWS: usize = 3_000_000;
/// Bytes of the stack on which mutants are made.
const STACK: usize = 256 << 20;

#[derive(Parser, Debug)]
#[command(about = "Spoiled recordings against a built tcpwhy")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Make mutants, read each with some verbs, print a table; 1 when something went wrong
    Run {
        /// The built tcpwhy
        #[arg(long, default_value = "target/release/tcpwhy")]
        tcpwhy: PathBuf,
        /// Mutants
        #[arg(short, default_value_t = 300)]
        n: u64,
        /// The first seed; mutant i has this and i
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Recordings to spoil, beside the made-up one
        #[arg(long)]
        base: Vec<PathBuf>,
        /// Largest resident memory that is no failure, MB
        #[arg(long, default_value_t = 300)]
        memory: u64,
        /// Address space, MB
        #[arg(long, default_value_t = 2048)]
        space: u64,
        /// Seconds before a run counts as a hang
        #[arg(long, default_value_t = 20)]
        time: u64,
        /// Where to keep the mutants that something went wrong with
        #[arg(long)]
        keep: Option<PathBuf>,
        /// Rows that a table is given at most
        #[arg(long, default_value_t = MOST_ROWS)]
        rows: usize,
    },
    /// Make one mutant and say what was done to it: a process of its own, as the kernel counts what
    /// the parent has to the child
    Mutate {
        base: PathBuf,
        to: PathBuf,
        seed: u64,
        /// Rows that a table is given at most
        #[arg(long, default_value_t = MOST_ROWS)]
        rows: usize,
    },
    /// Read a recording with a verb, and print how that ended, as JSON
    #[command(hide = true)]
    Read {
        #[arg(long)]
        tcpwhy: PathBuf,
        #[arg(long)]
        space: u64,
        #[arg(long)]
        time: u64,
        recording: PathBuf,
        whole: PathBuf,
        scratch: PathBuf,
        #[arg(last = true)]
        verb: Vec<String>,
    },
    /// Make the recording that has rows in every table
    Base { to: PathBuf },
    /// Make a recording that is large in one way: `n` of these
    Large {
        #[arg(value_enum)]
        what: Large,
        n: u32,
        to: PathBuf,
    },
}

fn main() -> Result<ExitCode> {
    match Cli::parse().verb {
        Verb::Base { to } => hostile::base(&to)?,
        Verb::Large { what, n, to } => what.make(n, &to)?,
        Verb::Read {
            tcpwhy,
            space,
            time,
            recording,
            whole,
            scratch,
            verb,
        } => {
            let verb: Vec<&str> = verb.iter().map(String::as_str).collect();
            let limits = limits(space, time);
            let outcome = hostile::run(&tcpwhy, &verb, (&recording, &whole), &scratch, limits)?;
            println!("{}", serde_json::to_string(&outcome)?);
        }
        Verb::Mutate {
            base,
            to,
            seed,
            rows,
        } => {
            // The library writes groups of rows by calling itself.
            let make = move || hostile::mutate(&base, &to, seed, rows);
            let thread = std::thread::Builder::new().stack_size(STACK).spawn(make)?;
            let made = thread.join();
            let mutant = made.map_err(|_| anyhow!("the mutation panicked"))??;
            let verbs: Vec<_> = mutant.verbs.iter().map(usize::to_string).collect();
            println!(
                "{:?}\t{}\t{}",
                mutant.class,
                verbs.join(","),
                mutant.what.join("; ")
            );
        }
        Verb::Run {
            tcpwhy,
            n,
            seed,
            base,
            memory,
            space,
            time,
            keep,
            rows,
        } => {
            let limits = limits(space, time);
            let scratch = tempfile::tempdir()?;
            let made_up = scratch.path().join("base.tcpwhy");
            own(&["base".as_ref(), made_up.as_ref()])?;
            let bases: Vec<PathBuf> = std::iter::once(made_up).chain(base).collect();
            let campaign = Campaign {
                tcpwhy,
                limits,
                most_memory: memory << 20,
                rows,
                scratch: scratch.path().to_path_buf(),
                keep,
            };
            let mut table = Table::default();
            for i in 0..n {
                let base = &bases[(i as usize) % bases.len()];
                let tried = campaign.one(base, seed + i, &mut table);
                tried.with_context(|| format!("seed {}", seed + i))?;
                if (i + 1) % 100 == 0 {
                    eprintln!("{} of {n} mutants, {} wrong", i + 1, table.wrong.len());
                }
            }
            table.print();
            return Ok(ExitCode::from(u8::from(!table.wrong.is_empty())));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn limits(space_mb: u64, time_s: u64) -> Limits {
    Limits {
        memory: space_mb << 20,
        time: Duration::from_secs(time_s),
    }
}

/// Runs this program for something that takes memory; what it printed.
fn own(args: &[&std::ffi::OsStr]) -> Result<String> {
    let output = Command::new(std::env::current_exe()?).args(args).output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What is the same for all mutants.
struct Campaign {
    tcpwhy: PathBuf,
    limits: Limits,
    most_memory: u64,
    rows: usize,
    scratch: PathBuf,
    keep: Option<PathBuf>,
}

impl Campaign {
    /// Makes a mutant and reads it.
    fn one(&self, base: &Path, seed: u64, table: &mut Table) -> Result<()> {
        let dir = self.scratch.join("m.tcpwhy");
        // What the last one left.
        let _ = std::fs::remove_dir_all(&dir).or_else(|_| std::fs::remove_file(&dir));
        let (number, rows) = (seed.to_string(), format!("--rows={}", self.rows));
        let made = own(&[
            "mutate".as_ref(),
            rows.as_ref(),
            base.as_ref(),
            dir.as_ref(),
            number.as_ref(),
        ]);
        let made = match made {
            Ok(made) => made,
            Err(e) => {
                // Its first line: a backtrace may follow.
                let says = e.to_string();
                let says = says.lines().next().unwrap_or_default();
                table.not_made.push(format!("seed {seed}: {says}"));
                return Ok(());
            }
        };
        let mut fields = made.trim_end().split('\t');
        let (Some(class), Some(verbs), Some(what)) = (fields.next(), fields.next(), fields.next())
        else {
            bail!("no mutant: {made}");
        };
        for verb in verbs.split(',') {
            let verb = VERBS[verb.parse::<usize>()?];
            let both = (dir.as_path(), base);
            let outcome = hostile::run(&self.tcpwhy, verb, both, &self.scratch, self.limits)?;
            table.count(class, &outcome, seed);
            if let Some(wrong) = outcome.wrong(self.most_memory) {
                let (base, verb) = (base.display(), verb.join(" "));
                let complaint = outcome.complaint;
                table.wrong.push(format!(
                    "seed {seed} of {base}: {wrong}: {verb}: {what}: {complaint:.200}"
                ));
                if let Some(keep) = &self.keep {
                    std::fs::rename(&dir, keep.join(format!("{seed}.tcpwhy")))?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// What came of the mutants, by class.
#[derive(Default)]
struct Table {
    rows: BTreeMap<String, Row>,
    wrong: Vec<String>,
    not_made: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Row {
    runs: u64,
    fine: u64,
    refused: u64,
    hangs: u64,
    aborts: u64,
    memory: u64,
    of_seed: u64,
    time: Duration,
    written: u64,
}

impl Table {
    fn count(&mut self, class: &str, outcome: &Outcome, seed: u64) {
        for name in [class, "all"] {
            let row = self.rows.entry(name.into()).or_default();
            row.runs += 1;
            row.fine += u64::from(matches!(outcome.ended, Ended::Code(0 | 10)));
            row.refused += u64::from(outcome.ended == Ended::Code(1));
            row.hangs += u64::from(outcome.ended == Ended::Hang);
            row.aborts += u64::from(outcome.ended == Ended::Abort);
            if outcome.memory > row.memory {
                (row.memory, row.of_seed) = (outcome.memory, seed);
            }
            row.time = row.time.max(outcome.time);
            row.written = row.written.max(outcome.written);
        }
    }

    fn print(&self) {
        println!(
            "{:10} {:>7} {:>7} {:>7} {:>6} {:>6} {:>8} {:>9} {:>7} {:>9}",
            "class",
            "runs",
            "rc 0",
            "rc 1",
            "hangs",
            "aborts",
            "MB most",
            "(seed)",
            "s most",
            "out most"
        );
        for (class, row) in &self.rows {
            println!(
                "{class:10} {:7} {:7} {:7} {:6} {:6} {:8} {:>9} {:7.1} {:8}k",
                row.runs,
                row.fine,
                row.refused,
                row.hangs,
                row.aborts,
                row.memory >> 20,
                format!("({})", row.of_seed),
                row.time.as_secs_f64(),
                row.written >> 10,
            );
        }
        let (wrong, not_made) = (self.wrong.len(), self.not_made.len());
        println!("wrong: {wrong}; mutations that could not be made: {not_made}");
        self.not_made
            .iter()
            .take(5)
            .for_each(|line| println!("  not made: {line}"));
        self.wrong
            .iter()
            .for_each(|line| println!("  wrong: {line}"));
    }
}
