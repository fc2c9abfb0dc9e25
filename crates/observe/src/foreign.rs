//! Opens what a process that is being watched controls: never blocking, never through its links.
//!
//! Whoever runs on this host chooses what /proc/PID/root leads to and what lies there. A FIFO would keep
//! us waiting for ever, a device may do something when it is opened, a link may name what only we may
//! read. So files are found without being opened (O_PATH), looked at, and opened when they are plain
//! files; how much of them is read is up to the caller.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    CWD, FileType, FsWord, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, open, openat, openat2,
    readlinkat,
};
use rustix::io::Errno;

/// A process. Its files are those of this process also when its number is given to another.
pub struct Process {
    dir: OwnedFd,
}

/// Who a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its effective user.
    pub uid: u32,
    /// Its number as it sees itself, in the innermost PID namespace.
    pub own_pid: u32,
}

/// A plain file that was found and is not open yet.
pub struct Plain {
    path: OwnedFd,
    /// What it was when it was found.
    pub stat: Stat,
}

/// /proc/PID/status has some 60 short lines.
const MAX_STATUS: usize = 64 << 10;

impl Process {
    /// Of a process that runs.
    pub fn open(pid: u32) -> io::Result<Process> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = open(format!("/proc/{pid}"), flags, Mode::empty())?;
        Ok(Process { dir })
    }

    /// A file of the kernel's making, such as `maps`.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(openat(&self.dir, name, flags, Mode::empty())?.into())
    }

    /// Where a link of the kernel's making leads, such as that of a descriptor; it is not followed.
    pub fn link(&self, name: &str) -> io::Result<String> {
        let link = readlinkat(&self.dir, name, Vec::new())?;
        Ok(link.to_string_lossy().into_owned())
    }

    /// Who it is now.
    pub fn who(&self) -> io::Result<Who> {
        let status = text(self.file("status"), MAX_STATUS)?;
        who(&status).ok_or_else(|| io::Error::other("/proc/PID/status tells no user"))
    }

    /// When it was started, in ticks of the kernel.
    pub fn started(&self) -> io::Result<u64> {
        let stat = text(self.file("stat"), MAX_STATUS)?;
        // Its name may hold blanks and parentheses: the last one ends it.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let field = fields.split_ascii_whitespace().nth(19);
        let ticks = field.and_then(|ticks| ticks.parse().ok());
        ticks.ok_or_else(|| io::Error::other("/proc/PID/stat tells no time"))
    }

    /// The file behind a mapping, itself: not what has its name by now. Takes CAP_SYS_ADMIN or
    /// CAP_CHECKPOINT_RESTORE.
    pub fn mapped(&self, start: u64, end: u64) -> io::Result<Plain> {
        let name = format!("map_files/{start:x}-{end:x}");
        // The kernel's link to an open file: no path is walked.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        plain(openat(&self.dir, name, flags, Mode::empty())?)
    }

    /// A file by its name as the process sees it.
    pub fn named(&self, name: &str) -> io::Result<Plain> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(&self.dir, "root", flags, Mode::empty())?;
        beneath(root.as_fd(), name)
    }
}

/// A file by its name as we see it.
pub fn named(name: &str) -> io::Result<Plain> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    beneath(open("/", flags, Mode::empty())?.as_fd(), name)
}

fn beneath(root: BorrowedFd, name: &str) -> io::Result<Plain> {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    plain(openat2(root, name, flags, Mode::empty(), how)?)
}

fn plain(path: OwnedFd) -> io::Result<Plain> {
    let stat = fstat(&path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Plain { path, stat }),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

/// The text of a file, as much as `most` bytes; those that are not UTF-8 are replaced.
pub fn text(file: io::Result<File>, most: usize) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(file, most)?).into_owned())
}

/// The bytes of a file, as many as `most`.
pub fn bytes(file: io::Result<File>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a file is not opened, in words.
pub fn why(e: &io::Error) -> String {
    let is = |errno: Errno| e.raw_os_error() == Some(errno.raw_os_error());
    if is(Errno::LOOP) {
        "it is behind a link".into()
    } else if is(Errno::WOULDBLOCK) {
        "its owner holds a lease on it".into()
    } else {
        e.to_string()
    }
}

impl Plain {
    /// Whether it lies on one of these kinds of file systems.
    pub fn is_on(&self, kinds: &[FsWord]) -> bool {
        fstatfs(&self.path).is_ok_and(|fs| kinds.contains(&fs.f_type))
    }

    /// Opens it for reading. Does not wait for a lease of its owner's either.
    pub fn open(&self) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.path.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(CWD, path, flags, Mode::empty())?.into())
    }

    /// Whether what it says may be told in the name of a process of `uid`: it is that user's own, or
    /// everybody may read it and root made it. A mount or a hard link can put any file anywhere.
    pub fn is_of(&self, uid: u32) -> bool {
        let public = self.stat.st_mode & 0o004 != 0 && self.stat.st_uid == 0;
        self.stat.st_nlink <= 1 && (self.stat.st_uid == uid || public)
    }
}

fn who(status: &str) -> Option<Who> {
    let line = |name| status.lines().find_map(|l| l.strip_prefix(name));
    // Real, effective, saved, of file systems.
    let uid = line("Uid:")?.split_ascii_whitespace().nth(1)?;
    // From ours to the innermost; kernels without PID namespaces have none.
    let pids = line("NStgid:").or_else(|| line("Tgid:"))?;
    Some(Who {
        uid: uid.parse().ok()?,
        own_pid: pids.split_ascii_whitespace().next_back()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::mkfifoat;

    use super::*;

    fn me() -> Process {
        Process::open(std::process::id()).unwrap()
    }

    #[test]
    fn a_process_is_who_it_says() {
        let who = me().who().unwrap();
        assert_eq!(who.uid, rustix::process::geteuid().as_raw());
        assert!(who.own_pid > 0);
        let inner = super::who("Tgid:\t7\nUid:\t1\t2\t3\t4\nNStgid:\t700\t7\n").unwrap();
        assert_eq!((inner.uid, inner.own_pid), (2, 7));
        assert!(super::who("").is_none());
    }

    #[test]
    fn only_plain_files_are_opened_and_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        fs::write(at("plain"), "text").unwrap();
        symlink(at("plain"), at("link")).unwrap();
        symlink(dir.path(), at("way")).unwrap();
        mkfifoat(CWD, at("fifo"), Mode::RUSR).unwrap();
        let mut text = String::new();
        let plain = me().named(&at("plain")).unwrap();
        plain.open().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        for refused in ["link", "way/plain", "fifo", ".", "nothing"] {
            assert!(me().named(&at(refused)).is_err(), "{refused}");
            assert!(named(&at(refused)).is_err(), "{refused}");
        }
        assert!(me().named("/dev/null").is_err());
    }

    #[test]
    fn what_is_not_the_process_own_is_not_told_in_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map").to_str().unwrap().to_string();
        fs::write(&path, "").unwrap();
        let me = rustix::process::geteuid().as_raw();
        assert!(named(&path).unwrap().is_of(me));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!named(&path).unwrap().is_of(me + 1));
        fs::hard_link(&path, format!("{path}2")).unwrap();
        assert!(!named(&path).unwrap().is_of(me));
    }
}
