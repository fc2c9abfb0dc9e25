//! Verbs of `tcpwhy-lab`: handed to it where it is installed, as git and cargo do.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, anyhow, bail};
use clap::Args;

/// The command that has the verbs.
const NAME: &str = "tcpwhy-lab";

/// Whatever follows the verb: the other command reads it.
#[derive(Args, Debug)]
pub struct SiblingArgs {
    /// See `tcpwhy-lab VERB --help`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    args: Vec<OsString>,
}

/// Becomes `tcpwhy-lab VERB ARGS`.
pub fn run(verb: &str, args: &SiblingArgs) -> Result<ExitCode> {
    let Some(program) = find() else {
        bail!(
            "`{verb}` is a verb of {NAME}, which is neither beside this program nor on PATH: \
             install the package {NAME}, or run `make build` in a source tree"
        );
    };
    let failed = Command::new(&program).arg(verb).args(&args.args).exec();
    Err(anyhow!("{}: {failed}", program.display()))
}

/// Beside this program, else on PATH.
fn find() -> Option<PathBuf> {
    let beside = env::current_exe().ok()?.with_file_name(NAME);
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(NAME));
    [beside].into_iter().chain(on_path).find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    path.is_file()
}
