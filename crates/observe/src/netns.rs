//! Network namespaces of the host: find them, name them, visit them with one thread.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use recording::Namespace;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

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

/// Every network namespace that a process lives in or that has a name in /run/netns, by inode.
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
    add(host_namespace(), "host".into());
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        add(entry.path(), name);
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        add(entry.path().join("ns/net"), format!("pid {pid}"));
    }
    // A file in /run/netns that is not (any longer) a namespace has some other inode; opening
    // it for setns fails and the namespace is passed over there.
    found
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
    let one = |word: &String| {
        let by_name = all.values().find(|f| f.namespace.name == *word);
        let inode = by_name.map(|f| f.namespace.inode).or_else(|| {
            let number = word.parse().ok()?;
            all.contains_key(&number).then_some(number)
        });
        inode.ok_or_else(|| {
            format!("no network namespace {word:?}; `ip netns` lists names, `lsns -t net` inodes")
        })
    };
    words.iter().map(one).collect()
}

/// The calling thread's way back to the namespace it came from.
pub struct Home(File);

impl Home {
    /// Remembers the calling thread's namespace.
    pub fn remember() -> io::Result<Home> {
        File::open("/proc/thread-self/ns/net").map(Home)
    }

    /// The inode of that namespace.
    pub fn inode(&self) -> Option<u32> {
        self.0.metadata().ok()?.ino().try_into().ok()
    }

    /// Runs `visit` with the calling thread inside `there`, then returns.
    ///
    /// The namespace is held open only for the visit: a recording does not keep a container's
    /// namespace alive.
    pub fn visit<T>(&self, there: &Found, visit: impl FnOnce() -> T) -> io::Result<T> {
        let file = File::open(&there.path)?;
        if file.metadata()?.ino() != u64::from(there.namespace.inode) {
            return Err(io::Error::other("the namespace is gone"));
        }
        enter(&file)?;
        let result = visit();
        enter(&self.0)?;
        Ok(result)
    }
}

fn enter(namespace: &File) -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), kind).map_err(io::Error::from)
}
