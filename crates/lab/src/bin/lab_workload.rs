//! `lab-workload`: the lab's client and server by themselves, for tests and measurements.

use std::process::ExitCode;

use clap::Parser;
use lab::WorkloadArgs;

#[derive(Parser)]
#[command(name = "lab-workload", about, version)]
struct Cli {
    #[command(flatten)]
    workload: WorkloadArgs,
}

fn main() -> ExitCode {
    match lab::workload_main(Cli::parse().workload) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("lab-workload: {e}");
            ExitCode::FAILURE
        }
    }
}
