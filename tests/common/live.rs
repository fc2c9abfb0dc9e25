//! A recording in progress, its rows, and namespaces of the test's own.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use recording::tables::Health;
use recording::{Manifest, Recording, Table};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{arg, tcpwhy, wait_until};

/// A recording of this host that has begun.
pub struct Live {
    path: PathBuf,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Live {
    /// Begins one with more arguments.
    pub fn begin(more: &[&str]) -> Live {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.tcpwhy");
        let ready = dir.path().join("ready");
        let mut args = vec!["record", "-o", arg(&path), "--for", "120s"];
        args.extend(["--ready-file", arg(&ready)]);
        args.extend(more);
        let child = tcpwhy(&args).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the recording begins", || ready.exists());
        Live {
            path,
            child,
            _dir: dir,
        }
    }

    /// The recorder's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it is recorded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends the recorder a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Ends it as Ctrl-C does.
    pub fn end(mut self) -> Done {
        self.signal(Signal::INT);
        assert!(self.child.wait().unwrap().success());
        Done(Recording::open(&self.path).unwrap(), self)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // After a failed assertion it still runs; else this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A recording that has ended, removed when dropped.
pub struct Done(Recording, #[allow(dead_code)] Live);

impl Done {
    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.1.path()
    }

    /// Fails, with what the recorder said of itself, when a source lost something.
    pub fn assert_whole(&self) {
        let lost: u64 = self.manifest().sources.iter().map(|s| s.lost).sum();
        assert_eq!(lost, 0, "{:#?}", self.rows::<Health>());
    }

    /// All rows of a table.
    pub fn rows<T: Table>(&self) -> Vec<T> {
        let batches = self.0.scan::<T>().unwrap().map(|b| b.unwrap());
        batches
            .flat_map(|b| b.rows().map(|(_, row)| row).collect::<Vec<_>>())
            .collect()
    }
}

/// A network namespace of the test's own, removed when dropped.
pub struct Space(String);

impl Space {
    /// Makes one, with its loopback up.
    pub fn new(name: &str) -> Space {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tcpwhy-{name}-{}-{nth}", std::process::id());
        ip(&["netns", "add", &name]);
        let space = Space(name);
        space.ip(&["link", "set", "lo", "up"]);
        space
    }

    /// Makes one in which all that is sent to 10.9.0.2 vanishes.
    pub fn with_hole() -> Space {
        let space = Space::new("hole");
        for command in [
            "link add hole type veth peer name bottom",
            "addr add 10.9.0.1/24 dev hole",
            "link set hole up",
            "link set bottom up",
            // Nobody has this hardware address.
            "neigh add 10.9.0.2 lladdr 02:00:00:00:00:99 dev hole nud permanent",
        ] {
            space.ip(&command.split(' ').collect::<Vec<_>>());
        }
        space
    }

    /// Every counter of the namespace, by group and name.
    pub fn counters(&self) -> BTreeMap<String, i64> {
        self.inside(|| {
            let mut all = BTreeMap::new();
            for file in ["snmp", "netstat"] {
                let path = format!("/proc/thread-self/net/{file}");
                let text = std::fs::read_to_string(path).unwrap();
                let lines: Vec<&str> = text.lines().collect();
                for pair in lines.chunks(2) {
                    let (names, values) = (pair[0].split(' '), pair[1].split(' '));
                    let group = pair[0].split(':').next().unwrap();
                    for (name, value) in names.zip(values).skip(1) {
                        all.insert(format!("{group}.{name}"), value.parse().unwrap());
                    }
                }
            }
            all
        })
    }

    /// Its name in /run/netns.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// As tables name it.
    pub fn inode(&self) -> u32 {
        std::fs::metadata(self.path()).unwrap().ino() as u32
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }

    /// Runs `ip` inside.
    pub fn ip(&self, args: &[&str]) {
        ip(&[&["-n", &self.0], args].concat());
    }

    /// Writes a sysctl inside.
    pub fn sysctl(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.inside(|| std::fs::write(path, value).unwrap());
    }

    /// Runs `work` on a thread inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(self.path()).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind)
                    .map_err(io::Error::from)
                    .unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let removed = Command::new("ip").args(["netns", "del", &self.0]).status();
        assert!(
            removed.is_ok_and(|s| s.success()),
            "{} stays behind",
            self.0
        );
    }
}

/// Runs `ip`.
pub fn ip(args: &[&str]) {
    let done = Command::new("ip").args(args).status().unwrap();
    assert!(done.success(), "ip {}", args.join(" "));
}
