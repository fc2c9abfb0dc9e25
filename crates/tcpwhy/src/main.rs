//! The command that goes to a host that hurts: reads its arguments, hands each verb its own.

mod at;
mod caller;
mod cause_name;
mod confine;
mod disk;
mod duration;
mod examples;
mod explainer;
mod filters;
mod given;
mod kept;
mod live;
mod looks;
mod mistakes;
mod pager;
mod seen;
mod serving;
mod sibling;
mod signals;
mod size;
mod surroundings;
mod terminal;
#[cfg(test)]
mod told;
mod unfinished;
mod verbs;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use sibling::SiblingArgs;

/// Says why TCP on a Linux host is slow: records the host, and works back from the symptom to the cause.
#[derive(Parser, Debug)]
#[command(name = "tcpwhy", version, propagate_version = true)]
#[command(
    infer_subcommands = true,
    infer_long_args = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 error, 2 wrong usage, 10 something was found (with --fail-on-finding)."
)]
struct Cli {
    #[command(flatten)]
    looks: looks::LooksArgs,
    #[command(flatten)]
    talk: cli::TalkArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Record the live host, or read a recording, and say why its TCP is slow
    #[command(after_help = examples::EXPLAIN)]
    Explain(verbs::explain::ExplainArgs),
    /// Show what differs between recordings, and what separates slow from fast
    #[command(after_help = examples::COMPARE)]
    Compare(verbs::compare::CompareArgs),
    /// Record the live host into a directory, or as one file
    #[command(after_help = examples::RECORD)]
    Record(verbs::record::RecordArgs),
    /// Record the live host for good, into a store: --at and --last of the other verbs read what was recorded at any time
    #[command(after_help = examples::SERVE)]
    Serve(verbs::serve::ServeArgs),
    /// List what serve raised and resolved
    #[command(after_help = examples::FINDINGS)]
    Findings(verbs::findings::FindingsArgs),
    /// Print one line per event, live or from a recording
    #[command(subcommand, after_help = examples::TRACE)]
    Trace(verbs::trace::TraceVerb),
    /// Show current state and rates, live or from a recording
    #[command(subcommand, after_help = examples::STAT)]
    Stat(verbs::stat::StatVerb),
    /// Watch the live host, or replay a recording, full screen: findings as they appear
    #[command(after_help = examples::TOP)]
    Top(verbs::top::TopArgs),
    /// Write a recording and its explanation as one HTML file; for several, also what differs
    #[command(after_help = examples::REPORT)]
    Report(verbs::report::ReportArgs),
    /// Show where CPU time went, or what threads waited for, as a flame graph, and what grew
    #[command(after_help = examples::FLAME)]
    Flame(verbs::flame::FlameArgs),
    /// Print the rows of a recording that `explain --rows` names, with every column and its unit
    Show(verbs::show::ShowArgs),
    /// Check whether this host can be recorded, and which sources work or why not
    Doctor(verbs::doctor::DoctorArgs),
    /// Plant a fault, record it, explain it, and check the answer (needs tcpwhy-lab)
    #[command(disable_help_flag = true)]
    Lab(SiblingArgs),
    /// Simulate an old kernel's TCP, as a recording (needs tcpwhy-lab)
    #[command(disable_help_flag = true)]
    Model(SiblingArgs),
    /// Print completions for a shell
    Completions(cli::CompletionsArgs),
    /// Write the man pages
    #[command(hide = true)]
    Man(cli::ManArgs),
}

/// Wrong usage, as clap ends.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    observe::share_heaps();
    if let Some(says) = mistakes::meant(&surroundings::command_line()) {
        cli::error(&format!("tcpwhy: {says}"));
        return ExitCode::from(USAGE);
    }
    cli::main("tcpwhy", |cli: Cli, out| {
        looks::wish(cli.looks);
        cli::talk(cli.talk);
        let done = run(cli.verb, out);
        signals::give_way();
        done
    })
}

fn run(verb: Verb, mut out: &mut dyn Write) -> Result<ExitCode> {
    let out = &mut out;
    match verb {
        Verb::Explain(args) => verbs::explain::run(args, out),
        Verb::Compare(args) => verbs::compare::run(&args, out),
        Verb::Record(args) => verbs::record::run(args),
        Verb::Serve(args) => verbs::serve::run(&args),
        Verb::Findings(args) => verbs::findings::run(&args, out),
        Verb::Trace(verb) => verbs::trace::run(verb, out),
        Verb::Stat(verb) => verbs::stat::run(verb, out),
        Verb::Top(args) => verbs::top::run(&args),
        Verb::Report(args) => verbs::report::run(&args, out),
        Verb::Flame(args) => verbs::flame::run(&args, out),
        Verb::Show(args) => verbs::show::run(&args, out),
        Verb::Doctor(args) => verbs::doctor::run(args, out),
        Verb::Lab(args) => sibling::run("lab", &args),
        Verb::Model(args) => sibling::run("model", &args),
        Verb::Completions(args) => args.run::<Cli>(out).map(|()| ExitCode::SUCCESS),
        Verb::Man(args) => {
            // tcpwhy-lab has pages of its own for these.
            let hidden = |verb: clap::Command| verb.hide(true);
            let command = Cli::command().mut_subcommand("lab", hidden);
            args.run(command.mut_subcommand("model", hidden))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
