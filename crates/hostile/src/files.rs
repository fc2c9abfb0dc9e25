//! What lies where a file of a recording should: links, FIFOs, directories, devices, nothing.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::{copy, one};

/// Where links lead.
const TARGETS: &[&str] = &[
    "/etc/passwd",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/random",
    "/proc/kmsg",
    "/proc/self/mem",
    "/proc/self/fd/0",
    "/proc",
    "/",
    ".",
    "/nonexistent",
];
/// Names that segments do not have.
const NAMES: &[&str] = &[
    "1.parquet",
    "x.parquet",
    "\u{1b}[31m.parquet",
    "4294967296.parquet",
    "-00001.parquet",
    "000000.parquet",
    "999999.parquet",
    "\u{202e}.parquet",
    ".parquet",
    "000001.open",
];

/// Bytes that linking a segment again and again comes to.
const MOST_LINKED: u64 = 20 << 20;

/// Puts something in place of a file or a directory.
pub(crate) fn mutate(dir: &Path, rng: &mut Pcg64Mcg) -> Result<String> {
    let segment = copy::segment(dir, rng)?;
    let table = segment.parent().unwrap_or(dir).to_path_buf();
    let manifest = dir.join("manifest.json");
    let at = match rng.random_range(0..6) {
        0 => manifest,
        1 | 2 => table.clone(),
        _ => segment.clone(),
    };
    let what = match rng.random_range(0..11) {
        0 | 1 => {
            clear(&at)?;
            node(&at, FileType::Fifo, 0)?;
            "a FIFO".into()
        }
        2 | 3 => {
            clear(&at)?;
            let to = one(rng, TARGETS);
            symlink(to, &at)?;
            format!("a link to {to}")
        }
        4 => {
            // The real thing, behind a link.
            let to = with_end(&at, ".real");
            fs::rename(&at, &to)?;
            symlink(to.file_name().unwrap_or_default(), &at)?;
            "a link to the real one".into()
        }
        5 => {
            clear(&at)?;
            fs::create_dir(&at)?;
            "a directory".into()
        }
        6 => {
            clear(&at)?;
            // Where this is not root's, a socket hurts as well.
            match node(
                &at,
                FileType::CharacterDevice,
                makedev(1, *one(rng, &[5, 7, 8])),
            ) {
                Ok(()) => "a device".into(),
                Err(_) => {
                    let _ = UnixListener::bind(&at)?;
                    "a socket".into()
                }
            }
        }
        7 => {
            clear(&at)?;
            "nothing".into()
        }
        8 => {
            let name = one(rng, NAMES);
            fs::rename(&segment, table.join(name))?;
            format!("{name:?}")
        }
        9 => {
            let most = MOST_LINKED / fs::metadata(&segment)?.len().max(1);
            let n = most.min(*one(rng, &[50, 500]));
            for i in 100..100 + n {
                fs::hard_link(&segment, table.join(format!("{i:06}.parquet")))?;
            }
            format!("{n} segments")
        }
        _ => {
            clear(&at)?;
            let file = File::create(&at)?;
            file.set_len(*one(rng, &[0, 11, 1 << 31]))?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            "a hole".into()
        }
    };
    Ok(format!("{}: {what}", at.strip_prefix(dir)?.display()))
}

fn clear(at: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(at)?.is_dir() {
        fs::remove_dir_all(at)
    } else {
        fs::remove_file(at)
    }
}

fn node(at: &Path, kind: FileType, device: u64) -> Result<()> {
    Ok(mknodat(CWD, at, kind, Mode::RUSR | Mode::WUSR, device)?)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
