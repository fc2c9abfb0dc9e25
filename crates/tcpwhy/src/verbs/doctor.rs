//! `tcpwhy doctor`: what this kernel allows, what each source will get, and why not.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use recording::{Intent, Source, Verdict};
use view::escape;

use crate::confine::{self, Confined};

/// Arguments of `tcpwhy doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Also list the sources that work
    #[arg(long)]
    all: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: DoctorArgs, out: &mut impl Write) -> Result<ExitCode> {
    let checkup = observe::checkup();
    if args.json {
        view::json::lines([&checkup], out)?;
    } else {
        text(&checkup, args.all, out)?;
        writeln!(out, "{}", held(confine::tried()))?;
    }
    let fine = checkup.obstacle.is_none();
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The verdict first, then what does not work and why; `all` that does, too.
fn text(checkup: &observe::Checkup, all: bool, out: &mut impl Write) -> Result<()> {
    let host = &checkup.host;
    let of = format!(
        "{}: Linux {} on {}, {} CPUs, HZ {}",
        escape(&host.name),
        escape(&host.kernel),
        escape(&host.machine),
        host.cpus,
        host.hz.map_or("unknown".into(), |hz| hz.to_string()),
    );
    writeln!(out, "{}", verdict(checkup))?;
    writeln!(out, "  {of}")?;
    if checkup.obstacle.is_some() {
        writeln!(
            out,
            "  Recordings made elsewhere can be read: tcpwhy explain RECORDING."
        )?;
        return Ok(());
    }
    for lack in &checkup.lacks {
        writeln!(
            out,
            "  This process lacks {} (to {}).",
            lack.capability, lack.to
        )?;
    }
    if let Some(ns) = checkup.tick_ns {
        writeln!(out, "  {}", tick(ns))?;
    }
    writeln!(
        out,
        "  Not needed, and not used: kprobes, fentry, the function tracer, kernel modules."
    )?;
    let told: Vec<_> = checkup.sources.iter().filter(|s| all || lacks(s)).collect();
    if !told.is_empty() {
        writeln!(out)?;
    }
    for s in told {
        let (mark, why) = match &s.verdict {
            Verdict::Attached => ("yes", None),
            Verdict::Unsupported(why) => ("no", Some(why)),
            Verdict::Failed(why) => ("FAILED", Some(why)),
        };
        writeln!(out, "{mark:>6}  {:<18} {}", s.name, s.gives)?;
        if let Some(why) = why {
            let why = escape(why);
            let must = match s.intent {
                Intent::Required => "required",
                Intent::Optional => "findings that rest on it will be less certain, or missing",
            };
            writeln!(out, "{:>6}  {:<18} because {why}; {must}", "", "")?;
        }
    }
    if !all {
        writeln!(out, "\nEvery source: tcpwhy doctor --all")?;
    }
    Ok(())
}

/// What limits verbs that read recordings.
fn held(confined: Confined) -> String {
    let by = |held: bool, name: &str| {
        if held {
            format!("limited by {name}")
        } else {
            format!("not limited (this kernel has no {name})")
        }
    };
    format!(
        "\nReading a recording: no capabilities; files {}; system calls {}.",
        by(confined.files, "Landlock"),
        by(confined.calls, "seccomp")
    )
}

fn lacks(source: &Source) -> bool {
    source.verdict != Verdict::Attached
}

/// Whether it can be used here, in a line.
fn verdict(checkup: &observe::Checkup) -> String {
    if let Some(obstacle) = &checkup.obstacle {
        return format!(
            "cannot: nothing can be recorded here: {}.",
            escape(obstacle)
        );
    }
    let of = checkup.sources.len();
    match checkup.sources.iter().filter(|s| lacks(s)).count() {
        0 => format!(
            "ready: this kernel gives everything that tcpwhy asks for, {of} of {of} sources."
        ),
        n => {
            let works = of - n;
            format!(
                "ready: {works} of {of} sources work; the others and why they do not are below."
            )
        }
    }
}

/// What the profiler's clock takes here, and how often it ticks for that.
fn tick(ns: u64) -> String {
    let hz = observe::affordable_hz(Some(Duration::from_nanos(ns)));
    format!(
        "A tick of the profiler's clock takes {:.1} µs here: {hz} a second, {:.1} % of each CPU.",
        ns as f64 / 1e3,
        f64::from(hz) * ns as f64 / 1e7,
    )
}

#[cfg(test)]
mod tests {
    use recording::SourceName;

    use super::*;

    fn checkup(obstacle: Option<&str>) -> observe::Checkup {
        observe::Checkup {
            host: recording::Host::default(),
            obstacle: obstacle.map(String::from),
            lacks: Vec::new(),
            sources: vec![
                Source::optional(SourceName::Hz, "durations", Verdict::Attached),
                Source::optional(
                    SourceName::Sockets,
                    "sockets",
                    Verdict::Failed("of a test".into()),
                ),
            ],
            tick_ns: None,
        }
    }

    fn told(checkup: &observe::Checkup, all: bool) -> String {
        let mut out = Vec::new();
        text(checkup, all, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_verdict_is_first_and_what_works_is_told_on_demand() {
        let some = told(&checkup(None), false);
        assert!(some.starts_with("ready: 1 of 2 sources work"), "{some}");
        assert!(
            some.contains("FAILED  sockets") && !some.contains("durations"),
            "{some}"
        );
        let all = told(&checkup(None), true);
        assert!(all.contains("yes  hz"), "{all}");
        let nothing = told(&checkup(Some("no BTF")), false);
        assert!(
            nothing.starts_with("cannot: nothing can be recorded here: no BTF."),
            "{nothing}"
        );
        assert!(nothing.contains("tcpwhy explain RECORDING"), "{nothing}");
    }

    #[test]
    fn a_dear_clock_ticks_less_often() {
        let cheap = tick(2_000);
        assert!(
            cheap.ends_with("takes 2.0 µs here: 997 a second, 0.2 % of each CPU."),
            "{cheap}"
        );
        let dear = tick(20_000);
        assert!(
            dear.ends_with("takes 20.0 µs here: 97 a second, 0.2 % of each CPU."),
            "{dear}"
        );
    }
}
