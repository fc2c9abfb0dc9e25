//! Long text on a terminal: through the reader's pager, as git does.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::looks;
use crate::signals::Paging;

/// What less does by itself: colours pass, the screen stays when it ends, and what fits needs no key.
const LESS: &str = "FRX";

/// Shows the text in $TCPWHY_PAGER, $PAGER or less; false where there is no terminal, or no pager.
pub fn page(text: &str) -> bool {
    if !looks::on_terminal() || !io::stdin().is_terminal() {
        return false;
    }
    let pager = named();
    let mut words = pager.split_whitespace();
    let Some(program) = words.next().filter(|program| *program != "cat") else {
        return false;
    };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    if env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    if env::var_os("SUDO_UID").is_some() {
        // A pager with root's rights must not offer a shell.
        command.env("LESSSECURE", "1");
    }
    let _paging = Paging::begin();
    show(&mut command, text).is_ok_and(|status| status.success())
}

/// What the reader's pager is made of beside what everybody may read: files that its command names, and what of it is
/// found in PATH.
pub fn files() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = env::split_paths(&path).collect();
    let named = named();
    let words = named.split_whitespace().map(Path::new);
    let places = words.flat_map(|word| {
        let in_path = dirs.iter().map(|dir| dir.join(word));
        [word.to_path_buf()]
            .into_iter()
            .chain(in_path)
            .collect::<Vec<_>>()
    });
    places.filter(|place| place.is_file()).collect()
}

/// $TCPWHY_PAGER, $PAGER or less.
fn named() -> String {
    let mut asked = ["TCPWHY_PAGER", "PAGER"].into_iter();
    let pager = asked.find_map(|name| env::var(name).ok());
    pager.unwrap_or_else(|| "less".into())
}

fn show(pager: &mut Command, text: &str) -> io::Result<ExitStatus> {
    let mut child = pager.spawn()?;
    if let Some(mut to) = child.stdin.take() {
        // Whoever leaves before the end has read enough.
        let _ = to.write_all(text.as_bytes());
    }
    child.wait()
}
