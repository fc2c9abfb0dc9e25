//! `tcpwhy flame`: where the CPUs were, or what threads waited for, as a flame graph, and what grew
//! since another profile.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use cli::Target;
use recording::Recording;
use store::is_store;
use view::flame::{self, Caption, Choice, Profile, Unit};

use crate::at::AtArgs;
use crate::filters::{self, FilterArgs};
use crate::given::{self, Given};

/// Arguments of `tcpwhy flame`.
#[derive(Args, Debug)]
pub struct FlameArgs {
    /// A recording, or a file with stacks from `perf script`, DTrace, or folded ones; - is standard input
    #[arg(value_name = "PROFILE", required_unless_present_any = ["from", "at", "last"])]
    profile: Option<PathBuf>,
    /// The same as PROFILE; every verb that reads a recording takes --from
    #[arg(
        long,
        value_name = "RECORDING",
        conflicts_with = "profile",
        hide_short_help = true
    )]
    from: Option<PathBuf>,
    /// Show what changed relative to this profile: the same load when it was fast
    #[arg(long, value_name = "PROFILE")]
    diff: Option<PathBuf>,
    /// Only these CPUs
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    cpu: Vec<u32>,
    /// Only softirqs, whatever they interrupted
    #[arg(long)]
    softirq: bool,
    /// Off-CPU time: what threads waited for, by system call and waker stack
    #[arg(long, conflicts_with_all = ["cpu", "softirq"])]
    off_cpu: bool,
    /// Write the flame graph to this file, as SVG; - is standard output
    #[arg(short, value_name = "FILE", conflicts_with_all = ["folded", "json"])]
    output: Option<PathBuf>,
    /// Print folded stacks, one per line
    #[arg(long, conflicts_with_all = ["diff", "json"])]
    folded: bool,
    /// One JSON object per function
    #[arg(long)]
    json: bool,
    /// List at most N functions
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Replace the names of the host, programs and files by pseudonyms; function names stay
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    filters: FilterArgs,
}

/// With fewer samples a function of a hundredth of the time has five: one by chance looks like many.
const FEW: u64 = 500;

/// What pictures are that are not drawn here.
const OTHER_PICTURES: &[&str] = &["png", "jpg", "jpeg", "gif", "webp", "pdf"];

/// Runs the verb.
pub fn run(args: &FlameArgs, out: &mut impl Write) -> Result<ExitCode> {
    args.filters.only("a profile", &["--pid", "--comm"])?;
    if let Some(output) = args.output.as_deref() {
        is_drawn(output)?;
    }
    let target = args.output.as_deref().map(Target::of).transpose()?;
    let store = args.at.store();
    let named = args.profile.as_ref().or(args.from.as_ref());
    let named = named.or(store.as_ref());
    given::at_most_one_stdin(named.into_iter().chain(&args.diff))?;
    let to_file = target.as_ref().filter(|target| target.is_file());
    let output = to_file.and(args.output.as_deref());
    let paths = named.into_iter().chain(&args.diff).map(PathBuf::as_path);
    let _held = given::hold(paths, output)?;
    let path = named.context("no profile was named")?;
    let (profile, of) = read(path, args)?;
    let before = args.diff.as_deref().map(|path| read(path, args));
    let before = before.transpose()?;
    let of = match &before {
        Some((_, before)) => format!("{of}; compared with {before}"),
        None => of,
    };
    if args.folded {
        flame::folded(&profile, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(target), Some(path)) = (&target, &args.output) {
        let caption = Caption {
            title: title(args, before.is_some()),
            subtitle: of.clone(),
        };
        let before = before.as_ref().map(|b| &b.0);
        target.write(|out| draw(&profile, before, &caption, out))?;
        if !target.is_stdout() {
            cli::say(&format!("wrote {}", path.display()));
        }
    }
    match before {
        // Nothing else belongs where the drawing goes.
        _ if target.is_some_and(|target| target.is_stdout()) => {}
        Some((before, _)) => {
            let growth = flame::growth(&before, &profile);
            let growth = growth.into_iter().take(args.top);
            if args.json {
                view::json::lines(growth, out)?
            } else {
                flame::text_growth(growth, &of, out)?
            }
        }
        None => {
            let shares = flame::shares(&profile).into_iter().take(args.top);
            if args.json {
                view::json::lines(shares, out)?
            } else {
                flame::text_shares(shares, &of, out)?
            }
        }
    }
    if profile.left_out > 0 {
        let n = profile.left_out;
        let unit = profile.unit.label();
        cli::say(&format!(
            "{n} {unit} are left out: there are more distinct stacks than are kept"
        ));
    }
    if let Some(names) = profile.names.says() {
        cli::say(&names);
    }
    Ok(ExitCode::SUCCESS)
}

/// An error for a name that promises another kind of picture than there is.
fn is_drawn(output: &Path) -> Result<()> {
    let end = output.extension().and_then(|end| end.to_str());
    let end = end.unwrap_or_default().to_ascii_lowercase();
    if OTHER_PICTURES.contains(&&*end) {
        bail!(
            "-o {}: a flame graph is drawn as SVG; name it {}",
            output.display(),
            output.with_extension("svg").display()
        );
    }
    Ok(())
}

/// A profile, and what it is of.
fn read(path: &Path, args: &FlameArgs) -> Result<(Profile, String)> {
    if args.at.asks() || is_store(path) {
        return of_recording(given::open_at(path, &args.at)?, path, args);
    }
    match given::either(path)? {
        Given::Recording(recording) => of_recording(*recording, path, args),
        Given::Other(input) => of_other(input, path, args),
    }
}

fn of_recording(recording: Recording, path: &Path, args: &FlameArgs) -> Result<(Profile, String)> {
    let (table, what, part) = if args.off_cpu {
        ("wait", "waits", "waits")
    } else {
        ("sample", "profile", "profile")
    };
    if recording.segments(table)?.is_empty() {
        bail!(
            "{}: it has no {what}; record it `--with {part}`",
            path.display()
        );
    }
    let filter = args.filters.of(&recording)?;
    let (recording, filter) = filters::redacted(args.redact, recording, filter)?;
    let choice = Choice {
        filter,
        cpus: args.cpu.clone(),
        softirq: args.softirq,
    };
    let profile = if args.off_cpu {
        flame::off_cpu(&recording, &choice.filter)?
    } else {
        Profile::of(&recording, &choice)?
    };
    let busy = profile.samples.saturating_sub(profile.idle);
    if profile.unit == Unit::Samples && busy < FEW {
        // The name of a recording may be one of a host.
        let of = if args.redact {
            "the recording".into()
        } else {
            path.display().to_string()
        };
        cli::say(&format!(
            "{of}: only {busy} samples of busy CPUs: too few to rank functions; record for longer, under load"
        ));
    }
    let of = describe(&recording, &profile);
    Ok((profile, of))
}

/// Stacks of other tools.
fn of_other(input: Box<dyn Read>, path: &Path, args: &FlameArgs) -> Result<(Profile, String)> {
    if !args.cpu.is_empty() || args.softirq || args.off_cpu || !args.filters.pid.is_empty() {
        bail!(
            "--cpu, --softirq, --off-cpu and --pid need a recording; stacks of other tools lack these fields"
        );
    }
    let profile = flame::read_foreign(input).with_context(|| path.display().to_string())?;
    let of = format!(
        "{}, samples or their periods: {}",
        path.display(),
        profile.samples
    );
    Ok((profile, of))
}

fn title(args: &FlameArgs, difference: bool) -> String {
    let title = match (args.off_cpu, args.softirq) {
        (true, _) => "Off-CPU time, by thread, call and waker",
        (false, true) => "CPU time in softirqs",
        (false, false) => "CPU time",
    };
    let mut title = title.to_string();
    if !args.cpu.is_empty() {
        let cpus: Vec<_> = args.cpu.iter().map(u32::to_string).collect();
        title += &format!(" on CPU {}", cpus.join(", "));
    }
    if difference {
        title += ": red grew, blue shrank";
    }
    title
}

/// What a profile is of, in a line.
fn describe(recording: &Recording, profile: &Profile) -> String {
    let m = &recording.manifest;
    let seconds = m.length().as_secs_f64();
    let of = match profile.unit {
        Unit::Samples => profile.idle_says(),
        Unit::Microseconds => format!(
            "{:.3} s waited by all threads",
            profile.samples as f64 / 1e6
        ),
    };
    format!(
        "{} (kernel {}), {seconds:.1} s, {of}",
        m.host.name, m.host.kernel
    )
}

fn draw(
    profile: &Profile,
    before: Option<&Profile>,
    caption: &Caption,
    out: &mut dyn Write,
) -> Result<()> {
    match before {
        Some(before) => flame::difference(before, profile, caption, out)?,
        None => flame::graph(profile, caption, out)?,
    }
    Ok(())
}
