//! `tcpwhy serve`: records the live host for good, into a store, and says what comes and goes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use observe::{Options, Part};
use rustix::fs::Mode;
use rustix::process::{getegid, geteuid, umask};
use sd_notify::NotifyState;
use store::{Bounds, Keeper};

use crate::at::STORE;
use crate::caller;
use crate::filters::FilterArgs;
use crate::live::{WhatArgs, ready_target, say_ready};
use crate::serving::{self, Helper, Recorder};
use crate::surroundings;

/// Arguments of `tcpwhy serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Directory of the store; made if there is none
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store: PathBuf,
    /// Remove what is older
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = crate::duration::parse)]
    keep: Duration,
    /// Remove the oldest when the store takes more: 500M, 4G
    #[arg(long = "max", value_name = "SIZE", default_value = "4G", value_parser = crate::size::parse)]
    most: u64,
    /// Of what was recorded around findings, keep this much when the rest has gone
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = crate::size::parse)]
    pins: u64,
    /// Where journald takes its native protocol
    #[arg(long, value_name = "SOCKET", default_value = JOURNAL, hide_short_help = true)]
    journal: PathBuf,
    /// Create this file once recording has begun
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Run one of the two processes alone
    #[arg(long, value_name = "PROCESS")]
    only: Option<Only>,
    /// The user that the explainer runs as; made by the package
    #[arg(long, value_name = "NAME", default_value = USER)]
    user: String,
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    filters: FilterArgs,
}

const JOURNAL: &str = "/run/systemd/journal/socket";
/// The user that the package makes.
const USER: &str = "tcpwhy";

/// The processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Records; has the rights to
    Recorder,
    /// Explains what is recorded, and raises findings; needs no rights but to read the store
    Explainer,
}

/// A crash loses no more of any table.
const SEAL_EVERY: Duration = Duration::from_secs(1);

/// Runs the verb.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let stop = surroundings::begin()?;
    if args.only == Some(Only::Explainer) {
        serving::explain(&args.store, args.pins, &args.journal, &stop)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ready = ready_target(args.ready_file.as_ref())?;
    let filter = args.filters.live()?;
    let bounds = Bounds {
        keep: args.keep,
        most: args.most,
    };
    // What the group may read is not taken from it, and others may read nothing.
    umask(Mode::RWXO | Mode::WGRP);
    let keeper = Keeper::open(&args.store, bounds)?;
    let user = caller::user(&args.user);
    match &user {
        Some(user) => keeper.share(user.uid, user.gid)?,
        None if args.user != USER => bail!("--user {}: no such user", args.user),
        // A host on which the package is not installed.
        None => keeper.share(geteuid().as_raw(), getegid().as_raw())?,
    }
    let options = Options {
        stop: stop.clone(),
        seal_every: Some(SEAL_EVERY),
        sock_key: Some(observe::sock_key()?),
        ..args.what.options(filter, Part::by_default())
    };
    let helper = match args.only {
        None => Some(Helper::start(explainer(args), user.clone())?),
        Some(_) => None,
    };
    let mut recorder = Recorder::start(keeper, options, helper)?;
    say_ready(ready)?;
    cli::say(&format!(
        "tcpwhy: recording into {}; `tcpwhy explain {} --last 5m` says what it shows",
        args.store.display(),
        args.store.display()
    ));
    if args.only.is_none() && user.is_none() {
        cli::say(&format!(
            "tcpwhy: there is no user {USER}: what explains runs as root, without capabilities, and Landlock and seccomp hold \
             it where the kernel has them; --user names another one"
        ));
    }
    // Nobody listens where systemd did not start it.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    recorder.run(&stop)?;
    Ok(ExitCode::SUCCESS)
}

/// The arguments of the other process.
fn explainer(args: &ServeArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["serve", "--only", "explainer"].map(Into::into).into();
    words.extend(["--store".into(), args.store.clone().into()]);
    words.extend(["--pins".into(), args.pins.to_string().into()]);
    words.extend(["--journal".into(), args.journal.clone().into()]);
    words
}
