//! The command: reads its arguments, hands each verb its own, turns errors into one line.

mod explainer;
mod filters;
mod live;
mod terminal;
mod verbs;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Says why TCP on a Linux host is slow: records it, and walks from the symptom to the cause.
#[derive(Parser, Debug)]
#[command(name = "tcpwhy", version, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 error, 2 wrong usage, 10 findings with --fail-on-finding."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Record the live host, or read a recording, and say why its TCP is slow
    Explain(verbs::explain::ExplainArgs),
    /// Say what differs between recordings, and what separates the slow from the fast
    Compare(verbs::compare::CompareArgs),
    /// Record the live host into a directory
    Record(verbs::record::RecordArgs),
    /// Print one line per event, live or from a recording
    #[command(subcommand)]
    Trace(verbs::trace::TraceVerb),
    /// Show what is and how fast it changes, live or from a recording
    #[command(subcommand)]
    Stat(verbs::stat::StatVerb),
    /// Watch the live host, or go through a recording, full screen: findings as they appear
    Top(verbs::top::TopArgs),
    /// Write a recording, explained, as one HTML file that opens anywhere; of several, what differs
    Report(verbs::report::ReportArgs),
    /// Draw where the CPUs were, or what threads waited for, as a flame graph, and name what grew
    Flame(verbs::flame::FlameArgs),
    /// Say what this kernel allows, what each source will get, and why not
    Doctor(verbs::doctor::DoctorArgs),
    /// Plant a fault in network namespaces of its own, record it, explain it, and check the answer
    #[command(subcommand)]
    Lab(verbs::lab::LabVerb),
    /// Compute an old kernel's TCP, as a recording, and check it against the case it is known from
    #[command(subcommand)]
    Model(verbs::model::ModelVerb),
    /// The lab's client and server
    #[command(hide = true)]
    LabWorkload(lab::WorkloadArgs),
}

fn main() -> ExitCode {
    let verb = Cli::parse().verb;
    let out = &mut io::stdout().lock();
    match run(verb, out).and_then(|code| Ok(out.flush().map(|()| code)?)) {
        Ok(code) => code,
        // Whoever read our output has seen enough.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("tcpwhy: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb, out: &mut impl Write) -> Result<ExitCode> {
    match verb {
        Verb::Explain(args) => verbs::explain::run(args, out),
        Verb::Compare(args) => verbs::compare::run(&args, out),
        Verb::Record(args) => verbs::record::run(args),
        Verb::Trace(verb) => verbs::trace::run(verb, out),
        Verb::Stat(verb) => verbs::stat::run(verb, out),
        Verb::Top(args) => verbs::top::run(&args),
        Verb::Report(args) => verbs::report::run(&args, out),
        Verb::Flame(args) => verbs::flame::run(&args, out),
        Verb::Doctor(args) => verbs::doctor::run(args, out),
        Verb::Lab(verb) => verbs::lab::run(verb, out),
        Verb::Model(verb) => verbs::model::run(verb, out),
        Verb::LabWorkload(args) => {
            lab::workload_main(args)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    let io = e.downcast_ref::<io::Error>();
    io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
