//! A recording as the user names it: a directory, one file, or `-` for standard input.

use std::fs::{self, File};
use std::io::{self, Cursor, IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use recording::{Error, Recording, Scratch, is_packed};
use store::{findings, is_store};

use crate::at::AtArgs;
use crate::confine::{Confined, confine};
use crate::{kept, pager, signals, surroundings, unfinished};

/// As much as tells what a file is.
const HEAD: u64 = 512;
const STDIN: &str = "standard input";

/// What the user named.
pub enum Given {
    Recording(Box<Recording>),
    /// Something else that can be read.
    Other(Box<dyn Read>),
}

/// Goes with a process that reads recordings without rights.
pub struct Held {
    /// Where what is one file is unpacked.
    room: Option<Scratch>,
}

/// From now on this process has no rights but to read these recordings, and to write where `output` says, if it does.
/// What is unpacked goes with its value, or when a signal ends the process.
pub fn hold<'p>(paths: impl IntoIterator<Item = &'p Path>, output: Option<&Path>) -> Result<Held> {
    let held = hold_orderly(paths, output)?;
    if let Some(room) = &held.room {
        signals::end_the_process(Some(room.path()))?;
    }
    Ok(held)
}

/// The same of a verb that ends orderly when a signal comes.
pub fn hold_orderly<'p>(
    paths: impl IntoIterator<Item = &'p Path>,
    output: Option<&Path>,
) -> Result<Held> {
    surroundings::sweep_all();
    let mut reads: Vec<PathBuf> = pager::files();
    let mut packed = false;
    for path in paths {
        if is_stdin(path) {
            packed = true;
            continue;
        }
        // One that a killed run moved out of the way is back then.
        kept::settle(path);
        if fs::symlink_metadata(path).is_err() {
            // It may be what a killed run was to make.
            unfinished::tell();
        }
        packed |= !path.is_dir();
        if is_store(path) {
            // It is another user's.
            reads.push(findings(path));
        }
        reads.push(path.to_path_buf());
    }
    let room = packed
        .then(|| surroundings::scratch("unpack"))
        .transpose()?;
    if let Some(room) = &room {
        surroundings::stay_in(room.path());
    }
    let writes = output.into_iter().chain(room.as_ref().map(Scratch::path));
    let reads: Vec<&Path> = reads.iter().map(PathBuf::as_path).collect();
    tell(confine(&reads, &writes.collect::<Vec<_>>()));
    Ok(Held { room })
}

fn tell(held: Confined) {
    let limited = |held: bool| if held { "limited" } else { "not limited" };
    cli::detail(&format!(
        "tcpwhy: reading without capabilities; files {}, system calls {}",
        limited(held.files),
        limited(held.calls)
    ));
}

/// Opens a recording, which is [held](hold), or what is there of the time that is asked for.
pub fn open_at(path: &Path, at: &AtArgs) -> Result<Recording> {
    at.open(path, || open(path))
}

/// Opens a recording, which is [held](hold). One that is no directory is unpacked.
pub fn open(path: &Path) -> Result<Recording> {
    if path.is_dir() {
        directory(path)
    } else {
        unpack(input(path)?, path)
    }
}

/// A recording, or what is none.
pub fn either(path: &Path) -> Result<Given> {
    if path.is_dir() {
        return Ok(Given::Recording(directory(path)?.into()));
    }
    let mut input = input(path)?;
    let mut head = Vec::new();
    let read = (&mut input).take(HEAD).read_to_end(&mut head);
    read.with_context(|| path.display().to_string())?;
    let is_packed = is_packed(&head);
    let whole = Box::new(Cursor::new(head).chain(input));
    Ok(if is_packed {
        Given::Recording(unpack(whole, path)?.into())
    } else {
        Given::Other(whole)
    })
}

/// Whether it is standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// An error when more than one of them is to come from standard input.
pub fn at_most_one_stdin<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
    match paths.into_iter().filter(|path| is_stdin(path)).count() {
        0 | 1 => Ok(()),
        _ => bail!("-: standard input holds one recording, and is named twice"),
    }
}

/// A regular file, standard input, or a pipe such as a shell gives for `<(command)`; never a device.
fn input(path: &Path) -> Result<Box<dyn Read>> {
    if is_stdin(path) {
        if io::stdin().is_terminal() {
            bail!(
                "-: standard input is a terminal; pipe a recording into it: \
                 ssh HOST sudo tcpwhy record -o - | tcpwhy explain -"
            );
        }
        return Ok(Box::new(io::stdin()));
    }
    let shown = || path.display().to_string();
    let kind = match fs::metadata(path) {
        Ok(there) => there.file_type(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Missing(path.to_path_buf()).into());
        }
        Err(e) => return Err(e).with_context(shown),
    };
    if !(kind.is_file() || kind.is_fifo()) {
        bail!(
            "{}: not a tcpwhy recording: it is a device or a socket",
            shown()
        );
    }
    Ok(Box::new(File::open(path).with_context(shown)?))
}

fn directory(path: &Path) -> Result<Recording> {
    let recording = Recording::open(path).map_err(|why| whose(why, path))?;
    tell_torn(&recording, path);
    Ok(recording)
}

/// The error of who may not read a recording, with how to: root made it, mostly.
fn whose(why: Error, path: &Path) -> anyhow::Error {
    match &why {
        Error::Io { why: refused, .. } if refused.kind() == io::ErrorKind::PermissionDenied => {
            anyhow!(
                "{why}: another user recorded it; sudo chown -R $USER {}",
                path.display()
            )
        }
        _ => why.into(),
    }
}

/// Says what is passed over, if anything.
fn tell_torn(recording: &Recording, name: &Path) {
    let torn = recording.torn();
    if torn > 0 {
        let left = recording.manifest.length().as_secs_f64();
        cli::say(&format!(
            "tcpwhy: {}: the last segments of its tables are empty or cut ({torn} in all), as after a loss of power; \
             {left:.1} s of it are readable",
            name.display()
        ));
    }
}

fn unpack(input: Box<dyn Read>, path: &Path) -> Result<Recording> {
    let name = if is_stdin(path) {
        Path::new(STDIN)
    } else {
        path
    };
    let scratch = surroundings::scratch("unpack")?;
    let recording = Recording::unpack(input, name, scratch)?;
    if recording.is_cut_short() {
        let left = recording.manifest.length().as_secs_f64();
        let name = name.display();
        cli::say(&format!(
            "tcpwhy: {name}: cut short, {left:.1} s of it are readable"
        ));
    }
    tell_torn(&recording, name);
    Ok(recording)
}
