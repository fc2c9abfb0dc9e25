//! What is behind the descriptors of epoll on which threads sleep: rows of `epoll`, from /proc/PID/fdinfo.
//!
//! The kernel writes a whole set at once and holds its lock meanwhile, which its owner feels: sets are read
//! seldom, and none of a process that has very many descriptors.

use std::io;
use std::time::{Duration, Instant};

use ahash::AHashMap;
use recording::tables::Epoll;
use recording::{FileKind, HealthKind, Source, SourceName, TableWriter, monotonic_ns};
use rustix::fs::{fstat, major, minor};
use rustix::net::{AddressFamily, SocketType, socket};

use crate::error::Error;
use crate::foreign::{Process, text};
use crate::health::HealthLog;
use crate::pace::thread_cpu;
use crate::procfile::value;
use crate::space;

/// Sets followed at a time.
const MAX_SETS: usize = 1024;
/// Descriptors of a set that have rows.
const MAX_ROWS: usize = 1024;
/// Of those that are no sockets, so many are looked at.
const MAX_LINKS: usize = 256;
/// Sets of a process with more descriptors than this are not read: the lock of one of 8,000 is held for 5 ms.
const MAX_DESCRIPTORS: u64 = 1 << 13;
/// A line has some 90 bytes.
const MAX_TEXT: usize = (MAX_DESCRIPTORS as usize) * 128;
const MAX_STATUS: usize = 64 << 10;
/// A set is not read more often than this.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// A set that took more to read is not read again: it can hold more than its process has descriptors.
const MOST_CPU_ONCE: Duration = Duration::from_millis(50);
/// A round of reading ends when it has used so much of a CPU.
const MOST_CPU: Duration = Duration::from_millis(5);

/// The table, and the sets that are followed.
pub struct Epolls {
    table: TableWriter<Epoll>,
    sets: AHashMap<(u32, i32), Set>,
    /// Device of the file system that sockets live in.
    sockets: Option<u64>,
    left_out: LeftOut,
}

#[derive(Clone, Copy, Default)]
struct Set {
    /// Slept on since it was read.
    wanted: bool,
    read: Option<Instant>,
    shunned: bool,
}

/// Sets without rows since this was said last, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LeftOut {
    no_room: u64,
    too_large: u64,
    unreadable: u64,
}

/// One descriptor of a set, as the kernel writes it.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    fd: u32,
    events: u32,
    inode: u64,
    device: u64,
}

/// Why a set was not read.
enum Not {
    /// Its process ended, or the descriptor is another one by now.
    There,
    Affordable,
    Readable,
}

impl Epolls {
    /// Rows for `table`.
    pub fn new(table: TableWriter<Epoll>) -> Epolls {
        Epolls {
            table,
            sets: AHashMap::new(),
            sockets: socket_device(),
            left_out: LeftOut::default(),
        }
    }

    /// A thread of this process slept on this set.
    pub fn slept(&mut self, pid: u32, fd: i32) {
        if !space::pids_are_ours() || fd < 0 {
            return;
        }
        if self.sets.len() >= MAX_SETS && !self.sets.contains_key(&(pid, fd)) {
            self.left_out.no_room += 1;
            return;
        }
        let set = self.sets.entry((pid, fd)).or_default();
        set.wanted = !set.shunned;
    }

    /// Reads sets that were slept on, those never read first, as many as a round may.
    pub fn read(&mut self) -> Result<(), Error> {
        let due = |set: &Set| set.read.is_none_or(|read| read.elapsed() >= AGAIN_AFTER);
        // Nobody has slept on it for long: it may be gone.
        self.sets.retain(|_, set| {
            set.wanted || set.shunned || set.read.is_none_or(|r| r.elapsed() < AGAIN_AFTER * 4)
        });
        let sets = self.sets.iter();
        let wanted = sets.filter(|(_, set)| set.wanted && due(set));
        let mut wanted: Vec<_> = wanted.map(|(key, set)| (set.read, *key)).collect();
        wanted.sort_unstable();
        let began = thread_cpu();
        for (_, (pid, fd)) in wanted {
            let before = thread_cpu();
            if before.saturating_sub(began) > MOST_CPU {
                break;
            }
            match self.read_one(pid, fd)? {
                Ok(()) => {}
                Err(Not::There) => {}
                Err(Not::Affordable) => self.left_out.too_large += 1,
                Err(Not::Readable) => self.left_out.unreadable += 1,
            }
            let set = Set {
                wanted: false,
                read: Some(Instant::now()),
                shunned: thread_cpu().saturating_sub(before) > MOST_CPU_ONCE,
            };
            self.left_out.too_large += u64::from(set.shunned);
            self.sets.insert((pid, fd), set);
        }
        Ok(())
    }

    fn read_one(&mut self, pid: u32, fd: i32) -> Result<Result<(), Not>, Error> {
        let why = |e: io::Error| match e.kind() {
            io::ErrorKind::PermissionDenied => Not::Readable,
            _ => Not::There,
        };
        let (process, targets) = match targets(pid, fd) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Err(Not::Affordable)),
            Err(e) => return Ok(Err(why(e))),
        };
        let time_ns = monotonic_ns();
        let total = u32::try_from(targets.len()).unwrap_or(u32::MAX);
        let mut links = 0;
        for target in targets.into_iter().take(MAX_ROWS) {
            let kind = if self.sockets == Some(target.device) {
                FileKind::Socket
            } else if links < MAX_LINKS {
                links += 1;
                let link = process.link(&format!("fd/{}", target.fd));
                link.map_or(FileKind::Other, |link| kind(&link))
            } else {
                FileKind::Other
            };
            let has_inode = matches!(kind, FileKind::Socket | FileKind::Pipe);
            self.table.push(Epoll {
                time_ns,
                pid,
                epoll_fd: fd.unsigned_abs(),
                fd: target.fd,
                kind,
                inode: has_inode.then_some(target.inode),
                events: target.events,
                total,
            })?;
        }
        Ok(Ok(()))
    }

    /// Says of which sets nothing is told, since this was asked last.
    pub fn say_left_out(&mut self, health: &HealthLog) -> Result<(), Error> {
        let LeftOut {
            no_room,
            too_large,
            unreadable,
        } = std::mem::take(&mut self.left_out);
        for (n, why) in [
            (no_room, "epoll sets: more than 1,024 at a time"),
            (
                too_large,
                "epoll sets of processes with more than 8,192 descriptors are not read",
            ),
            (
                unreadable,
                "epoll sets of processes that we may not look at",
            ),
        ] {
            if n > 0 {
                health.say(SourceName::Epolls, HealthKind::Partial, n, why)?;
            }
        }
        Ok(())
    }

    /// Writes what is due.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        Ok(self.table.seal_if_due()?)
    }

    /// Writes everything.
    pub fn finish(&mut self) -> Result<(), Error> {
        Ok(self.table.seal()?)
    }
}

/// The source.
pub fn source() -> Source {
    let gives = "the descriptors behind those of epoll that threads sleep on";
    Source::optional(SourceName::Epolls, gives, space::pids_verdict())
}

/// The descriptors of a set; `None` where reading it costs its owner too much.
fn targets(pid: u32, fd: i32) -> io::Result<Option<(Process, Vec<Target>)>> {
    let process = Process::open(pid)?;
    if kind(&process.link(&format!("fd/{fd}"))?) != FileKind::Epoll {
        return Err(io::ErrorKind::NotFound.into());
    }
    let status = text(process.file("status"), MAX_STATUS)?;
    // Places in its table of descriptors: at least as many as it has.
    if value(&status, "FDSize").is_none_or(|size| size > MAX_DESCRIPTORS) {
        return Ok(None);
    }
    let info = text(process.file(&format!("fdinfo/{fd}")), MAX_TEXT)?;
    Ok(Some((process, info.lines().filter_map(target).collect())))
}

/// `tfd: 5 events: 19 data: 5  pos:0 ino:9 sdev:a`
fn target(line: &str) -> Option<Target> {
    let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let fd = words.next()?.parse().ok()?;
    let mut found = Target {
        fd,
        events: 0,
        inode: 0,
        device: u64::MAX, // before Linux 4.13 there is none
    };
    while let Some(word) = words.next() {
        let (name, number) = word.split_once(':')?;
        let number = match number {
            "" => words.next()?,
            number => number,
        };
        let hex = || u64::from_str_radix(number, 16).ok();
        match name {
            "events" => found.events = u32::from_str_radix(number, 16).ok()?,
            "ino" => found.inode = hex()?,
            "sdev" => found.device = hex()?,
            _ => {}
        }
    }
    Some(found)
}

/// What a link of /proc/PID/fd says. All but the names of files are the kernel's own texts.
fn kind(link: &str) -> FileKind {
    if link.starts_with('/') {
        return FileKind::File;
    }
    match link.split_once(':') {
        Some(("socket", _)) => FileKind::Socket,
        Some(("pipe", _)) => FileKind::Pipe,
        Some(("anon_inode", name)) => {
            let name = name.trim_matches(['[', ']']);
            let known = FileKind::ALL.iter().find(|kind| kind.as_str() == name);
            known.cloned().unwrap_or(FileKind::Other)
        }
        _ => FileKind::Other,
    }
}

/// As fdinfo writes it: the kernel's own number, of which the minor part has 20 bits.
fn socket_device() -> Option<u64> {
    let ours = socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    let device = fstat(&ours).ok()?.st_dev;
    Some(u64::from(major(device)) << 20 | u64::from(minor(device)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_fdinfo_are_taken_apart() {
        let line = "tfd:        5 events:       19 data:                5  pos:0 ino:2b sdev:a";
        let found = target(line).unwrap();
        assert_eq!((found.fd, found.events), (5, 0x19));
        assert_eq!((found.inode, found.device), (0x2b, 0xa));
        let old = target("tfd: 5 events: 1 data: 7").unwrap();
        assert_eq!((old.inode, old.device), (0, u64::MAX));
        for none in [
            "",
            "pos:\t0",
            "tfd:",
            "tfd: x",
            "tfd: -1",
            "tfd: 4 events",
            "tfd: 4 events: ",
            "tfd: 4 ino:xyz",
        ] {
            assert_eq!(target(none), None, "{none}");
        }
    }

    #[test]
    fn links_say_what_a_descriptor_is() {
        for (link, what) in [
            ("socket:[4711]", FileKind::Socket),
            ("pipe:[1]", FileKind::Pipe),
            ("anon_inode:[eventpoll]", FileKind::Epoll),
            ("anon_inode:[eventfd]", FileKind::Eventfd),
            ("anon_inode:[timerfd]", FileKind::Timerfd),
            ("anon_inode:inotify", FileKind::Inotify),
            ("anon_inode:[bpf-map]", FileKind::Other),
            ("/tmp/socket:[4711]", FileKind::File),
            ("", FileKind::Other),
        ] {
            assert_eq!(kind(link), what, "{link}");
        }
    }
}
