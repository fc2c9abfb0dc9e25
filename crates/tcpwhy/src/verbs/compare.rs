//! `tcpwhy compare`: what differs between recordings, and what separates slow from fast.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use explain::compare::compare;

use crate::at::{AtArgs, STORE};
use crate::{given, looks};

/// Arguments of `tcpwhy compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Two recordings, the fast one first; or more, which are split by throughput
    #[arg(value_name = "RECORDING", required_unless_present_any = ["from", "at"])]
    recordings: Vec<PathBuf>,
    /// The same as RECORDING; every verb that reads a recording takes --from
    #[arg(long, value_name = "RECORDING", num_args = 1.., conflicts_with = "recordings", hide_short_help = true)]
    from: Vec<PathBuf>,
    /// Compare what a store holds of these times, the fast one first: --at "yesterday 03:07" --at 03:07. Without a
    /// recording, of /var/lib/tcpwhy
    #[arg(long, value_name = "TIME")]
    at: Vec<String>,
    /// Read this much up to each --at [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse, requires = "at")]
    last: Option<Duration>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &CompareArgs, out: &mut impl Write) -> Result<ExitCode> {
    let paths = [&args.recordings[..], &args.from].concat();
    given::at_most_one_stdin(&paths)?;
    let comparison = match args.at.as_slice() {
        [] if paths.len() < 2 => bail!("compare: name two recordings, or one and two times (--at)"),
        [] => {
            let _held = given::hold(paths.iter().map(PathBuf::as_path), None)?;
            let open = |path: &PathBuf| Ok((path.display().to_string(), given::open(path)?));
            compare::<anyhow::Error>(paths.iter().map(open))?
        }
        [_] => bail!("compare: --at: name two times"),
        times => {
            let [path] = paths.first_chunk().cloned().unwrap_or([STORE.into()]);
            if paths.len() > 1 {
                bail!("compare: --at: name one recording");
            }
            let _held = given::hold([path.as_path()], None)?;
            let open = |time: &String| {
                let at = AtArgs::new(time.clone(), args.last);
                Ok((time.clone(), given::open_at(&path, &at)?))
            };
            compare::<anyhow::Error>(times.iter().map(open))?
        }
    };
    if args.json {
        view::json::lines([&comparison], out)?;
    } else {
        let style = looks::style(false);
        let text = view::compare::comparison(&comparison, &style);
        out.write_all(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
