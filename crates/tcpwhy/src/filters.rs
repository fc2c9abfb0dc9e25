//! The filters of the command line: the same for every verb, live and on a recording.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use observe::{Filter, Prefix};
use recording::Recording;

/// Each may be repeated or hold a list with commas: any of a kind will do, all kinds must match.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub struct FilterArgs {
    /// Only these processes
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub pid: Vec<u32>,
    /// Only processes with these command names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub comm: Vec<String>,
    /// Only these cgroups (v2) and all below them: paths or ids
    #[arg(long, value_name = "CGROUP", value_delimiter = ',')]
    pub cgroup: Vec<String>,
    /// Only these network namespaces: names as in `ip netns`, `host`, or inode numbers
    #[arg(long, value_name = "NS", value_delimiter = ',')]
    pub netns: Vec<String>,
    /// Only connections with one of these ports at either end
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = port)]
    pub port: Vec<u16>,
    /// Only connections with one of these addresses or networks at either end
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub addr: Vec<Prefix>,
}

fn pid(text: &str) -> Result<u32, String> {
    let wrong = |_| format!("`{text}` is not a valid process id: give a number from ps or ss -p");
    text.parse().map_err(wrong)
}

fn port(text: &str) -> Result<u16, String> {
    let wrong = |_| format!("`{text}` is not a valid port: give a number from 1 to 65535");
    text.parse().map_err(wrong)
}

impl FilterArgs {
    /// Whether nothing was asked for in particular.
    pub fn is_empty(&self) -> bool {
        let texts = [&self.comm, &self.cgroup, &self.netns];
        self.pid.is_empty()
            && self.port.is_empty()
            && self.addr.is_empty()
            && texts.iter().all(|list| list.is_empty())
    }

    /// For the running host.
    pub fn live(&self) -> Result<Filter> {
        let gone = |pid: &&u32| !Path::new(&format!("/proc/{pid}")).exists();
        if let Some(pid) = self.pid.iter().find(gone) {
            bail!("no process {pid}: --pid needs a running process");
        }
        let netns = observe::resolve_netns(&self.netns).map_err(|why| anyhow!(why))?;
        let cgroups = observe::resolve_cgroups(&self.cgroup).map_err(|why| anyhow!(why))?;
        Ok(self.with(netns, cgroups))
    }

    /// For a recording, whose namespaces and cgroups have the names they had.
    pub fn of(&self, recording: &Recording) -> Result<Filter> {
        let netns = recording.manifest.resolve_netns(&self.netns);
        let cgroups = recording.resolve_cgroups(&self.cgroup);
        let (netns, cgroups) = (netns.map_err(|why| anyhow!(why))?, cgroups);
        Ok(self.with(netns, cgroups.map_err(|why| anyhow!(why))?))
    }

    fn with(&self, netns: Vec<u32>, cgroups: Vec<u64>) -> Filter {
        Filter {
            netns,
            pids: self.pid.clone(),
            comms: self.comm.clone(),
            cgroups,
            ports: self.port.clone(),
            addrs: self.addr.clone(),
        }
    }

    /// As they were typed.
    pub fn says(&self) -> String {
        fn all<T: ToString>(name: &str, words: &[T]) -> Option<String> {
            let words: Vec<_> = words.iter().map(T::to_string).collect();
            (!words.is_empty()).then(|| format!("{name} {}", words.join(",")))
        }
        let given = [
            all("--pid", &self.pid),
            all("--comm", &self.comm),
            all("--cgroup", &self.cgroup),
            all("--netns", &self.netns),
            all("--port", &self.port),
            all(
                "--addr",
                &self.addr.iter().map(Prefix::to_string).collect::<Vec<_>>(),
            ),
        ];
        given.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// An error when a filter is given that the view cannot apply.
    pub fn only(&self, view: &str, known: &[&str]) -> Result<()> {
        for (name, given) in [
            ("--pid", !self.pid.is_empty()),
            ("--comm", !self.comm.is_empty()),
            ("--cgroup", !self.cgroup.is_empty()),
            ("--netns", !self.netns.is_empty()),
            ("--port", !self.port.is_empty()),
            ("--addr", !self.addr.is_empty()),
        ] {
            if given && !known.contains(&name) {
                bail!("{name} cannot be applied to {view}: its rows lack that field");
            }
        }
        Ok(())
    }
}

/// A recording with pseudonyms, if they are asked for, and the filter that asks of it the same.
pub fn redacted(redact: bool, recording: Recording, filter: Filter) -> Result<(Recording, Filter)> {
    if !redact {
        return Ok((recording, filter));
    }
    recording.redacted(filter).map_err(|why| anyhow!(why))
}
