//! `tcpwhy doctor`: what this kernel allows, what each source will get, and why not.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use recording::{Intent, Verdict};
use view::escape;

/// Arguments of `tcpwhy doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
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
        text(&checkup, out)?;
    }
    let fine = checkup.obstacle.is_none();
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(checkup: &observe::Checkup, out: &mut impl Write) -> Result<()> {
    let host = &checkup.host;
    writeln!(
        out,
        "{}: Linux {} on {}, {} CPUs, HZ {}\n",
        escape(&host.name),
        escape(&host.kernel),
        escape(&host.machine),
        host.cpus,
        host.hz.map_or("unknown".into(), |hz| hz.to_string()),
    )?;
    if let Some(obstacle) = &checkup.obstacle {
        writeln!(out, "Nothing can be recorded here: {}.", escape(obstacle))?;
        writeln!(
            out,
            "Recordings made elsewhere can be read: tcpwhy explain RECORDING."
        )?;
        return Ok(());
    }
    let mut missing = 0;
    for s in &checkup.sources {
        let (mark, why) = match &s.verdict {
            Verdict::Attached => ("yes", None),
            Verdict::Unsupported(why) => ("no", Some(why)),
            Verdict::Failed(why) => ("FAILED", Some(why)),
        };
        writeln!(out, "{mark:>6}  {:<18} {}", s.name, s.gives)?;
        if let Some(why) = why {
            missing += 1;
            let why = escape(why);
            let must = match s.intent {
                Intent::Required => "required",
                Intent::Optional => "findings that rest on it will be less certain, or missing",
            };
            writeln!(out, "{:>6}  {:<18} because {why}; {must}", "", "")?;
        }
    }
    writeln!(
        out,
        "\n{}",
        match missing {
            0 => "This kernel gives everything that tcpwhy asks for.".to_string(),
            n => format!(
                "{n} of {} sources are missing; the rest works.",
                checkup.sources.len()
            ),
        }
    )?;
    for lack in &checkup.lacks {
        writeln!(
            out,
            "This process lacks {} (to {}).",
            lack.capability, lack.to
        )?;
    }
    if let Some(ns) = checkup.tick_ns {
        writeln!(out, "{}", tick(ns))?;
    }
    writeln!(
        out,
        "Not needed, and not used: kprobes, fentry, the function tracer, kernel modules."
    )?;
    Ok(())
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
    use super::tick;

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
