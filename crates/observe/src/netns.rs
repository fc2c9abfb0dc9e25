//! Network namespaces of the host: find them, name them, visit them with one thread.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use recording::Namespace;
use rustix::fs::{OFlags, statfs};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Error;
use crate::{rights, space};

/// A namespace and a path that opens it, valid for the moment.
#[derive(Clone, Debug)]
pub struct Found {
    /// Inode and name.
    pub namespace: Namespace,
    path: PathBuf,
}

impl Found {
    /// Whether the path still leads to the namespace.
    pub fn is_there(&self) -> bool {
        let inode = fs::metadata(&self.path).map(|meta| meta.ino());
        inode.is_ok_and(|inode| inode == u64::from(self.namespace.inode))
    }
}

const OWN: &str = "/proc/self/ns/net";

fn own() -> Option<u32> {
    fs::metadata(OWN).ok()?.ino().try_into().ok()
}

/// What a process that may enter no other namespace can record of `wanted` ones (none: all), which is its
/// own; an error when others are asked for.
pub fn own_only(wanted: &[u32]) -> Result<Vec<u32>, Error> {
    let own = own().ok_or_else(|| Error::Kernel(format!("{OWN} cannot be read")))?;
    if wanted.iter().all(|inode| *inode == own) {
        Ok(vec![own])
    } else {
        Err(Error::Usage(
        "--netns: this process lacks CAP_SYS_ADMIN (to enter network namespaces other than the own)"
            .into(),
    ))
    }
}

/// Every network namespace that a process lives in or that has a name in /run/netns, by inode; without
/// the right to enter others, the own.
pub fn find() -> BTreeMap<u32, Found> {
    let mut found = BTreeMap::new();
    let mut add = |path: PathBuf, name: String| {
        // Namespaces come and go while we look; one that is gone is not an error.
        let Ok(meta) = fs::metadata(&path) else {
            return;
        };
        if let Ok(inode) = u32::try_from(meta.ino()) {
            let namespace = Namespace { inode, name };
            found.entry(inode).or_insert(Found { namespace, path });
        }
    };
    // In a PID namespace of our own the first process is that of a container.
    let first = if space::pids_are_ours() {
        "host"
    } else {
        "pid 1"
    };
    add(host_namespace(), first.into());
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_namespace(&entry.path()) {
            add(entry.path(), name);
        }
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        add(entry.path().join("ns/net"), format!("pid {pid}"));
    }
    // Where the processes in it cannot be looked at.
    add(OWN.into(), "own".into());
    if !rights::may_visit() {
        let own = own();
        found.retain(|inode, _| Some(*inode) == own);
    }
    found
}

/// A namespace's file is one of nsfs; one that a namespace was mounted on in another mount namespace, or before a
/// restart, is a plain one.
fn is_namespace(path: &Path) -> bool {
    const NSFS_MAGIC: u64 = 0x6e73_6673;
    statfs(path).is_ok_and(|fs| fs.f_type as u64 == NSFS_MAGIC)
}

/// The host's own namespace: that of init, or, where that is hidden, of the first kernel thread.
fn host_namespace() -> PathBuf {
    let init = PathBuf::from("/proc/1/ns/net");
    let kthreadd = fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm == "kthreadd\n");
    if kthreadd && fs::metadata(&init).is_err() {
        return "/proc/2/ns/net".into();
    }
    init
}

/// The namespaces that `words` name: a name in /run/netns, `host`, or an inode number.
pub fn resolve(words: &[String]) -> Result<Vec<u32>, String> {
    let all = find();
    let one =
        |word: &String| {
            let by_name = all.values().find(|f| f.namespace.name == *word);
            let inode = by_name.map(|f| f.namespace.inode).or_else(|| {
                let number = word.parse().ok()?;
                all.contains_key(&number).then_some(number)
            });
            inode.ok_or_else(|| if rights::may_visit() { format!(
            "no network namespace {word:?}; `ip netns` lists names, `lsns -t net` inodes"
        ) } else { format!(
            "network namespace {word:?} cannot be entered: this process lacks CAP_SYS_ADMIN"
        ) })
        };
    words.iter().map(one).collect()
}

/// The calling thread's way back to the namespace it came from.
pub struct Home {
    file: File,
    inode: Option<u32>,
}

impl Home {
    /// Remembers the calling thread's namespace.
    pub fn remember() -> io::Result<Home> {
        let file = File::open("/proc/thread-self/ns/net")?;
        let inode = file.metadata()?.ino().try_into().ok();
        Ok(Home { file, inode })
    }

    /// The inode of that namespace.
    pub fn inode(&self) -> Option<u32> {
        self.inode
    }

    /// Runs `visit` with the calling thread inside `there`, then returns.
    ///
    /// The namespace is held open only for the visit: a recording does not keep a container's
    /// namespace alive. [`is_gone`] tells of one that has ended from one that cannot be entered.
    pub fn visit<T>(&self, there: &Found, visit: impl FnOnce() -> T) -> io::Result<T> {
        if self.inode() == Some(there.namespace.inode) {
            return Ok(visit());
        }
        // A file in /run/netns may be anything: opened without waiting for it.
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK.bits() as i32;
        let file = options.read(true).custom_flags(flags).open(&there.path)?;
        if file.metadata()?.ino() != u64::from(there.namespace.inode) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the namespace is gone",
            ));
        }
        enter(&file)?;
        let result = visit();
        enter(&self.file)?;
        Ok(result)
    }
}

/// Whether it could not be visited as it, or the process by which it was found, has ended: that is no gap in what is
/// recorded, and who else lives in it is found in the next round.
pub fn is_gone(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::NotFound
}

fn enter(namespace: &File) -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), kind).map_err(io::Error::from)
}
