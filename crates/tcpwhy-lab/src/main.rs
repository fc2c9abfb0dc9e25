//! The command of the lab, the exam and the models: what shows that `tcpwhy` is right, and does not
//! go to a host that hurts.

mod chart;
mod lab;
mod model;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

/// Plants faults on the real kernel, computes old ones, and checks what tcpwhy says of them.
#[derive(Parser, Debug)]
#[command(name = "tcpwhy-lab", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done and right, 1 error or wrong answer, 2 wrong usage.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Plant a fault in network namespaces of its own, record it, explain it, and check the answer
    #[command(subcommand)]
    Lab(lab::LabVerb),
    /// Compute an old kernel's TCP, as a recording, and check it against the case it is known from
    #[command(subcommand)]
    Model(model::ModelVerb),
    /// Print completions for a shell
    Completions(cli::CompletionsArgs),
    /// Write the man pages
    #[command(hide = true)]
    Man(cli::ManArgs),
    /// The lab's client and server
    #[command(hide = true)]
    LabWorkload(::lab::WorkloadArgs),
}

fn main() -> ExitCode {
    cli::main("tcpwhy-lab", |cli: Cli, out| run(cli.verb, out))
}

fn run(verb: Verb, out: &mut dyn Write) -> Result<ExitCode> {
    match verb {
        Verb::Lab(verb) => return lab::run(verb, out),
        Verb::Model(verb) => return model::run(verb, out),
        Verb::Completions(args) => args.run::<Cli>(out)?,
        Verb::Man(args) => args.run(Cli::command())?,
        Verb::LabWorkload(args) => ::lab::workload_main(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
