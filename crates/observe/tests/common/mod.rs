//! What the live tests share: a namespace of their own, a recording of some parts, its rows.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use observe::{Filter, Options, Part, Session};
use recording::{Manifest, Recording, Table};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Ends the program, with one line, unless this is root: a test that was not run has not passed.
pub fn need_root() {
    if !rustix::process::geteuid().is_root() {
        // Past the test's own output, which would be lost.
        let _ = io::stderr().write_all(b"these tests need root: make test runs them so\n");
        std::process::exit(1);
    }
}

/// A network namespace, removed when dropped.
pub struct Netns {
    name: String,
    /// Its inode.
    pub inode: u32,
}

impl Netns {
    /// A new one with its loopback up.
    pub fn new() -> Netns {
        Netns::made(|name| ip(&["netns", "add", name]))
    }

    /// A new one made by a thread that is inside this one.
    pub fn child(&self) -> Netns {
        Netns::made(|name| self.inside(|| ip(&["netns", "add", name])))
    }

    fn made(make: impl FnOnce(&str)) -> Netns {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tcpwhy-host-{}-{n}", std::process::id());
        make(&name);
        let mut netns = Netns { name, inode: 0 };
        netns.inode = fs::metadata(netns.path()).unwrap().ino() as u32;
        netns.ip(&["link", "set", "lo", "up"]);
        netns
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Runs `ip` inside.
    pub fn ip(&self, args: &[&str]) {
        ip(&[&["-n", &self.name], args].concat());
    }

    /// Runs `work` on a thread inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            let file = File::open(self.path()).unwrap();
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind).unwrap();
            let here = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
            assert_eq!(here, u64::from(self.inode), "never in the host's namespace");
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join()).unwrap()
    }

    /// Writes a sysctl of this namespace; whether the kernel has it.
    pub fn set(&self, name: &str, value: &str) -> bool {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.inside(|| fs::write(path, value).is_ok())
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

fn ip(args: &[&str]) {
    let status = Command::new("ip").args(args).status().unwrap();
    assert!(status.success(), "ip {args:?}");
}

/// Starts recording one part into `dir`, in the namespaces `netns` (none: all).
pub fn start(dir: &Path, part: Part, netns: &[u32]) -> Session {
    let options = Options {
        parts: [part].into(),
        filter: Filter {
            netns: netns.to_vec(),
            ..Filter::default()
        },
        interval: Duration::from_millis(100),
        ..Options::default()
    };
    Session::start(dir, &options).unwrap()
}

/// A recording of one part, made while `work` runs.
pub fn record(part: Part, netns: &[u32], work: impl FnOnce()) -> (Manifest, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let session = start(&dir.path().join("r.tcpwhy"), part, netns);
    work();
    (session.stop().unwrap(), dir)
}

/// All rows of a table, in the order of time.
pub fn rows<T: Table>(dir: &tempfile::TempDir) -> Vec<T> {
    let recording = Recording::open(&dir.path().join("r.tcpwhy")).unwrap();
    let batches = recording.scan::<T>().unwrap().map(|b| b.unwrap());
    batches
        .flat_map(|b| b.rows().map(|(_, row)| row).collect::<Vec<_>>())
        .collect()
}

/// The rows of the last round: those that carry the last time.
pub fn last_round<T: Table>(dir: &tempfile::TempDir) -> Vec<T> {
    let rows: Vec<T> = rows(dir);
    let last = rows.iter().map(T::time_ns).max();
    let is_last = |row: &T| Some(row.time_ns()) == last;
    rows.into_iter().filter(is_last).collect()
}
