//! The command of the lab, the exam and the models: what shows that `tcpwhy` is right, and does not
//! go to a host that hurts.

mod case;
mod chart;
mod corpus;
mod exam;
mod lab;
mod limits;
mod model;
mod situations;

use std::env;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

/// Plants faults on the real kernel, simulates old kernels, and checks what tcpwhy reports.
#[derive(Parser, Debug)]
#[command(name = "tcpwhy-lab", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done and right, 1 error or wrong answer, 2 wrong usage.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Plant a fault in its own network namespaces, record it, explain it, and check the answer
    #[command(subcommand)]
    Lab(lab::LabVerb),
    /// Simulate an old kernel's TCP, as a recording, and check it against the case that it is known from
    #[command(subcommand)]
    Model(model::ModelVerb),
    /// Print the limits that decide, or what changes in the corpus with each
    Limits(limits::LimitsArgs),
    /// Walk through a well-known investigation: what its author did, and the command that does it today
    Case(case::CaseArgs),
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
    let command = |cli: Cli, out: &mut dyn Write| run(cli.verb, out);
    // The workload names its process and moves it to a namespace. Both are of the thread that does
    // it, and a process has those of its first.
    if env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == "lab-workload")
    {
        return cli::main_here("tcpwhy-lab", command);
    }
    cli::main("tcpwhy-lab", command)
}

fn run(verb: Verb, out: &mut dyn Write) -> Result<ExitCode> {
    match verb {
        Verb::Lab(verb) => return lab::run(verb, out),
        Verb::Model(verb) => return model::run(verb, out),
        Verb::Limits(args) => return limits::run(&args, out),
        Verb::Case(args) => return case::run(&args, out),
        Verb::Completions(args) => args.run::<Cli>(out)?,
        Verb::Man(args) => args.run(Cli::command())?,
        Verb::LabWorkload(args) => ::lab::workload_main(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
