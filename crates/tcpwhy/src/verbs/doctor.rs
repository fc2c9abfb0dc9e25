//! `tcpwhy doctor`: what this kernel allows, what each source will get, and why not.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use recording::{Intent, Verdict};

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
        writeln!(out, "{}", serde_json::to_string(&checkup)?)?;
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
        host.name,
        host.kernel,
        host.machine,
        host.cpus,
        host.hz.map_or("unknown".into(), |hz| hz.to_string()),
    )?;
    if let Some(obstacle) = &checkup.obstacle {
        writeln!(out, "Nothing can be recorded here: {obstacle}.")?;
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
    if let Some(ns) = checkup.tick_ns {
        writeln!(out, "{}", tick(ns))?;
    }
    writeln!(
        out,
        "Not needed, and not used: kprobes, fentry, the function tracer, kernel modules."
    )?;
    Ok(())
}

/// What the profiler's clock takes here, and a slower one where that is much.
fn tick(ns: u64) -> String {
    /// Of a CPU: more is told with what takes less.
    const MUCH: f64 = 0.02;
    const SLOWER: [u32; 4] = [499, 199, 97, 49];
    let share = |hz: u32| f64::from(hz) * ns as f64 / 1e9;
    let hz = observe::ProfileOptions::default().hz;
    let mut says = format!(
        "A tick of the profiler's clock takes {:.1} µs here: the {hz} a second of explain take {:.1} % of each CPU",
        ns as f64 / 1e3,
        share(hz) * 100.0,
    );
    if share(hz) > MUCH {
        let fits = |hz: &u32| share(*hz) <= MUCH / 2.0;
        let slower = SLOWER.into_iter().find(fits).unwrap_or(SLOWER[3]);
        says.push_str(&format!(
            ",\nthose of --profile-hz {slower} {:.1} %",
            share(slower) * 100.0
        ));
    }
    says.push('.');
    says
}

#[cfg(test)]
mod tests {
    use super::tick;

    #[test]
    fn a_dear_clock_is_told_with_a_slower_one() {
        let cheap = tick(2_000);
        assert!(cheap.contains("takes 2.0 µs here") && cheap.contains("0.2 % of each CPU"));
        assert!(!cheap.contains("--profile-hz"), "{cheap}");
        let dear = tick(40_000);
        assert!(dear.contains("4.0 % of each CPU"), "{dear}");
        assert!(
            dear.ends_with(",\nthose of --profile-hz 199 0.8 %."),
            "{dear}"
        );
    }
}
