//! `tcpwhy explain`: the main job: record (or read), then say why.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use cli::Target;
use explain::Explanation;
use observe::Part;
use recording::{Filter, Manifest, PACKED, Redactor};
use view::text;

use crate::at::AtArgs;
use crate::cause_name::CauseName;
use crate::filters;
use crate::kept::Kept;
use crate::live::{self, Bounds, LiveArgs};
use crate::{given, looks, pager, surroundings};

/// Arguments of `tcpwhy explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// Explain this recording instead of recording the live host: a directory or a file; - is standard input
    #[arg(conflicts_with_all = ["time", "output", "command", "ready_file"])]
    recording: Option<PathBuf>,
    /// The same as RECORDING; every verb that reads a recording takes --from
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["recording", "time", "output", "command", "ready_file"], hide_short_help = true)]
    from: Option<PathBuf>,
    /// How long to record [default: 10s, or until COMMAND ends]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::duration::parse, conflicts_with_all = ["at", "last"])]
    time: Option<Duration>,
    /// Keep the recording under this name: a directory, or one file if it ends in .tcpw
    #[arg(short, value_name = "NAME", conflicts_with_all = ["at", "last"])]
    output: Option<PathBuf>,
    /// Replace the recording that has this name
    #[arg(long, requires = "output")]
    force: bool,
    /// Look for this cause only
    #[arg(long, value_name = "CAUSE", value_parser = CauseName, hide_possible_values = true)]
    cause: Option<String>,
    /// List the five causes nearest to WORDS, what you see; all symptoms without WORDS; does not record
    #[arg(long, value_name = "WORDS", num_args = 0.., conflicts_with_all = ["recording", "from", "time", "output", "cause", "command", "ready_file", "write"])]
    symptom: Option<Vec<String>>,
    /// One JSON object per finding, and a last one with the summary
    #[arg(long)]
    json: bool,
    /// Print everything: evidence, cross-checks, what is ruled out, all advice, what was recorded
    #[arg(long)]
    full: bool,
    /// Like --full, with the rows of the recording behind each step
    #[arg(long)]
    rows: bool,
    /// Exit with 10 if something was found
    #[arg(long)]
    fail_on_finding: bool,
    /// Also write the result into the recording, as tables finding, episode and answer: for queries over many
    /// recordings
    #[arg(long, conflicts_with_all = ["cause", "redact"], hide_short_help = true)]
    write: bool,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    live: LiveArgs,
}

const DEFAULT_TIME: Duration = Duration::from_secs(10);
const FINDINGS: u8 = 10;

/// Runs the verb.
pub fn run(args: ExplainArgs, out: &mut impl Write) -> Result<ExitCode> {
    if let Some(words) = &args.symptom {
        return symptoms(&words.join(" "), out);
    }
    let options = match &args.cause {
        Some(id) => explain::Options::only(id)?,
        None => explain::Options::default(),
    };
    if let Some(stdout) = args
        .output
        .as_ref()
        .filter(|o| Target::of_any(o).is_stdout())
    {
        bail!(
            "-o {}: the answer is on standard output; name a file, such as x.{PACKED}",
            stdout.display()
        );
    }
    // Read before it goes, when it is a temporary one.
    let mut kept = None;
    let (mut filter, mut cut_by) = (None, None);
    if args.at.asks() && !args.live.command.is_empty() {
        bail!(
            "--at and --last read what was recorded; a command is recorded now: leave out one of them"
        );
    }
    let store = args.at.store();
    let named = args.recording.as_ref().or(args.from.as_ref());
    let named = named.or(store.as_ref());
    let dir = match named {
        Some(recording) => recording.clone(),
        None => {
            // Resolved once: namespaces and cgroups may be gone when the recording ends.
            let asked = args.live.filters.live()?;
            let stop = surroundings::begin()?;
            let made = kept.insert(match &args.output {
                Some(name) => Kept::at(name, args.force)?,
                None => Kept::nowhere("explain")?,
            });
            let time = args
                .time
                .or(args.live.command.is_empty().then_some(DEFAULT_TIME));
            let parts = Part::to_explain();
            let recorded = live::record(
                &stop,
                made,
                Bounds::of_time(time),
                asked.clone(),
                parts,
                &args.live,
            )?;
            made.end()?;
            // Explaining may take long, and what is kept is whole.
            made.ends_with_signals()?;
            cut_by = recorded.cut_by;
            filter = Some(if args.live.redact {
                redacted(&recorded.manifest, asked)?
            } else {
                asked
            });
            made.dir().to_path_buf()
        }
    };
    let dir = dir.as_path();
    let output = (args.write && dir.is_dir()).then_some(dir);
    let output = output.or(kept.as_ref().and_then(Kept::scratch));
    let _held = given::hold([dir], output)?;
    let recording = given::open_at(dir, &args.at)?;
    let filter = match filter {
        Some(filter) => filter,
        None => args.live.filters.of(&recording)?,
    };
    let (recording, filter) = filters::redacted(args.live.redact, recording, filter)?;
    if args.write {
        may_write(dir, named.is_none(), &args)?;
    }
    if named.is_some() {
        live::tell_sources(&recording.manifest);
    }
    let began = Instant::now();
    let mut explanation = explain::explain_with(&recording, &options.about(filter))?;
    let kept_as = named.or(args.output.as_ref());
    let kept_as = kept_as.and_then(|kept| kept.to_str());
    if let Some(kept) = kept_as.filter(|kept| *kept != "-") {
        // What a file is called may be the name of a host.
        let kept = if args.live.redact { "RECORDING" } else { kept };
        let time = args.at.absolute(&recording.manifest);
        let time = time.as_ref().map(|(at, last)| (&**at, &**last));
        explanation.looks_at(kept, time);
    }
    cli::detail(&format!("tcpwhy: explaining took {:.2?}", began.elapsed()));
    if args.write {
        write(dir, &recording.manifest, &explanation)?;
    }
    let nothing = explanation.summary.matched == Some(false) && explanation.findings.is_empty();
    if args.json {
        view::json::explanation(&explanation, out)?;
    } else if !nothing {
        if !args.live.command.is_empty() && !looks::on_terminal() {
            // The command shares this output, and need not have ended its last line.
            writeln!(out)?;
        }
        print(&args, &recording.manifest, &explanation, out)?;
    }
    if let (None, Some(kept)) = (named, &args.output) {
        cli::say(&format!("kept the recording: {}", kept.display()));
    }
    if let Some(why) = cut_by {
        return Err(why);
    }
    if nothing {
        bail!(
            "nothing matched {}: no connection and no listener of it was seen in {:.1} s; `tcpwhy stat sockets` and \
             `tcpwhy stat listeners` list what there is",
            args.live.filters.says(),
            explanation.summary.duration_s
        );
    }
    let found = args.fail_on_finding && !explanation.findings.is_empty();
    Ok(if found {
        ExitCode::from(FINDINGS)
    } else {
        ExitCode::SUCCESS
    })
}

/// The causes nearest to what somebody sees; without words, all that people see.
fn symptoms(words: &str, out: &mut impl Write) -> Result<ExitCode> {
    let found = if words.trim().is_empty() {
        explain::signatures()
    } else {
        explain::nearest_symptoms(words)
    };
    if found.is_empty() {
        bail!(
            "no symptom has a word of: {words}; --symptom without words lists all, and explain itself needs none: it looks \
             for every cause"
        );
    }
    let wide = found.iter().map(|(_, cause)| cause.id.as_str().len()).max();
    let wide = wide.unwrap_or(0);
    for (seen, cause) in found {
        writeln!(out, "{:<wide$}  {seen}", cause.id)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the answer would be one of all of the recording, and stays where it is written.
fn may_write(dir: &Path, is_live: bool, args: &ExplainArgs) -> Result<()> {
    if !args.live.filters.is_empty() && !is_live {
        bail!("--write: the answer must cover the whole recording; leave the filter out");
    }
    let packed = args.output.as_ref().is_some_and(|name| {
        name.extension()
            .is_some_and(|extension| extension == PACKED)
    });
    if !dir.is_dir() || packed {
        bail!(
            "--write: works only on the directory of a recording; tar -xf extracts one from a .{PACKED} file"
        );
    }
    if is_live && args.output.is_none() {
        bail!("--write: needs -o NAME to keep the recording");
    }
    Ok(())
}

/// What is said, as tables; the answers come last: where they are, the others are whole.
fn write(dir: &Path, manifest: &Manifest, explanation: &Explanation) -> Result<()> {
    let explained = view::explained(explanation, manifest);
    recording::replace(dir, explained.findings)?;
    recording::replace(dir, explained.episodes)?;
    Ok(recording::replace(dir, explained.answers)?)
}

/// The answer; on a terminal with everything below it in a pager.
fn print(
    args: &ExplainArgs,
    manifest: &Manifest,
    explanation: &Explanation,
    out: &mut impl Write,
) -> Result<()> {
    let style = looks::style(args.rows);
    let all = || text::full(explanation, &style);
    let text = if args.full || args.rows {
        all()
    } else {
        text::answer(explanation, &style, &more(args, manifest))
    };
    let paged = || {
        if args.full || args.rows {
            text.clone()
        } else {
            text::answer(explanation, &style, "Everything behind it (q quits):") + "\n" + &all()
        }
    };
    if looks::on_terminal() && pager::page(&paged()) {
        return Ok(());
    }
    Ok(out.write_all(text.as_bytes())?)
}

/// How to see what is behind the answer.
fn more(args: &ExplainArgs, manifest: &Manifest) -> String {
    let store = args.at.store();
    let named = args.recording.as_ref().or(args.from.as_ref());
    let named = named.or(store.as_ref());
    match named.or(args.output.as_ref()) {
        Some(stdin) if given::is_stdin(stdin) => {
            "Everything behind it: --full; to read it again, keep it in a file".into()
        }
        Some(kept) => {
            let time = args.at.absolute(manifest);
            let time = time.map(|(at, last)| format!(" --at {at} --last {last}"));
            format!(
                "Everything behind it: tcpwhy explain --full {}{}",
                kept.display(),
                time.unwrap_or_default()
            )
        }
        None => "Everything behind it: --full; to keep the recording: -o NAME".into(),
    }
}

/// The filter for a recording that was redacted while it was made.
fn redacted(manifest: &Manifest, filter: Filter) -> Result<Filter> {
    let filter = Redactor::of(manifest).filter(filter);
    filter.map_err(|why| anyhow!(why))
}
