//! Runs a command: its errors become one line, its end an exit code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};
use clap::Parser;

/// What the command runs on, bytes; of the main thread's stack `ulimit -s` decides, which may be
/// too little for it.
pub const STACK: usize = 8 << 20;

/// Reads the arguments and runs `command` with them and standard output. Its error is printed as one
/// line after `name`, without anything that a terminal would obey.
pub fn main<C: Parser + Send + 'static>(
    name: &'static str,
    command: impl FnOnce(C, &mut dyn Write) -> Result<ExitCode> + Send + 'static,
) -> ExitCode {
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK);
    let work = move || here(command);
    let ended = match thread.spawn(work).context("starting a thread") {
        Ok(thread) => match thread.join() {
            Ok(ended) => ended,
            // It has said why.
            Err(_) => return ExitCode::from(101),
        },
        Err(e) => Err(e),
    };
    exit(name, ended)
}

/// The same on the calling thread, for what changes the thread that it runs on.
pub fn main_here<C: Parser>(
    name: &'static str,
    command: impl FnOnce(C, &mut dyn Write) -> Result<ExitCode>,
) -> ExitCode {
    exit(name, here(command))
}

fn here<C: Parser>(
    command: impl FnOnce(C, &mut dyn Write) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let cli = C::parse();
    let out = &mut io::stdout().lock();
    command(cli, out).and_then(|code| Ok(out.flush().map(|()| code)?))
}

fn exit(name: &str, ended: Result<ExitCode>) -> ExitCode {
    match ended {
        Ok(code) => code,
        // Whoever read our output has seen enough.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            crate::error(&format!("{name}: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    let io = e.downcast_ref::<io::Error>();
    io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
