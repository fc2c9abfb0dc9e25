//! Completions for shells, and man pages, made from the command line's own declaration.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Target;

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
    /// Directory for the pages, one per verb; it is created if missing
    dir: PathBuf,
}

impl ManArgs {
    /// Writes the man pages of `command`.
    pub fn run(&self, command: Command) -> Result<()> {
        let dir = &self.dir;
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        // A page for each verb, none for `help`, which repeats them; verbs know their whole name once built.
        let mut command = command.disable_help_subcommand(true);
        command.build();
        self.write(command)
    }

    fn write(&self, command: Command) -> Result<()> {
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        for verb in shown.cloned() {
            self.write(verb)?;
        }
        let page = Man::new(command);
        let target = Target::of(&self.dir.join(page.get_filename()))?;
        target.write(|mut out| Ok(page.render(&mut out)?))?;
        Ok(())
    }
}
