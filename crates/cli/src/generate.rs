//! Completions for shells, and man pages, made from the command line's own declaration.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

/// Arguments of the verb `completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the completions of command `C`.
    pub fn run<C: CommandFactory>(&self, out: &mut dyn Write) -> Result<()> {
        let mut command = C::command();
        let name = command.get_name().to_string();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        Ok(out.write_all(&script)?)
    }
}

/// Arguments of the verb `man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Directory for the pages, one per verb; it is made
    dir: PathBuf,
}

impl ManArgs {
    /// Writes the man pages of `command`.
    pub fn run(&self, command: Command) -> Result<()> {
        let write = || {
            fs::create_dir_all(&self.dir)?;
            clap_mangen::generate_to(command, &self.dir)
        };
        write().with_context(|| format!("writing man pages into {}", self.dir.display()))
    }
}
