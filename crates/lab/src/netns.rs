//! Network namespaces that exist as long as their value does.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::Owner;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Error;
use crate::command::run;

/// Where `ip netns` keeps the names.
pub(crate) const NETNS_DIR: &str = "/run/netns";

/// A network namespace of ours, removed when dropped.
#[derive(Debug)]
pub struct Netns {
    name: String,
    inode: u64,
}

impl Netns {
    /// Makes the namespace of the node `node`, with its loopback up.
    pub(crate) fn create(owner: &Owner, node: &str) -> Result<Netns, Error> {
        let name = owner.name(node);
        run(["ip", "netns", "add", &name])?;
        Netns::begin(name)
    }

    /// The same, with a hash table of connections of its own of `buckets` buckets. Its size is
    /// what the namespace says from which it is made.
    pub(crate) fn create_with_ehash(
        owner: &Owner,
        node: &str,
        buckets: u32,
    ) -> Result<Netns, Error> {
        let parent = Netns::create(owner, &format!("{node}-parent"))?;
        parent.set_sysctl("net.ipv4.tcp_child_ehash_entries", &buckets.to_string())?;
        let name = owner.name(node);
        // Not `ip netns exec`: that would make the name in a mount namespace of its own.
        let enter = format!("--net={}", parent.path().display());
        run(["nsenter", &enter, "ip", "netns", "add", &name])?;
        Netns::begin(name)
    }

    /// Takes over a namespace that was just made.
    fn begin(name: String) -> Result<Netns, Error> {
        // From here on the value's destructor removes it, whatever fails.
        let mut netns = Netns { name, inode: 0 };
        netns.inode = fs::metadata(netns.path())
            .map_err(Error::io(&netns.name))?
            .ino();
        netns.ip(["link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// Its name in /run/netns.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its inode, by which the kernel and every other tool know it.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Its file in /run/netns.
    pub fn path(&self) -> PathBuf {
        Path::new(NETNS_DIR).join(&self.name)
    }

    /// Runs `ip` with `args` inside.
    pub fn ip<'a>(&'a self, args: impl IntoIterator<Item = &'a str>) -> Result<String, Error> {
        run(["ip", "-n", &self.name].into_iter().chain(args))
    }

    /// What the namespace has counted, by the name that nstat gives it, group and all:
    /// `TcpExt.SyncookiesRecv`; `None` when there is no such counter.
    pub fn counter(&self, name: &str) -> Result<Option<u64>, Error> {
        let text = self.inside(|| fs::read_to_string("/proc/thread-self/net/netstat"))?;
        let Some((group, name)) = name.split_once('.') else {
            return Ok(None);
        };
        // A line of names and a line of values per group.
        let mut lines = text
            .lines()
            .filter(|l| l.split(':').next() == Some(group))
            .map(str::split_whitespace);
        let (Some(mut names), Some(mut values)) = (lines.next(), lines.next()) else {
            return Ok(None);
        };
        let at = names.position(|n| n == name);
        Ok(at.and_then(|at| values.nth(at)?.parse().ok()))
    }

    /// Runs `work` on a thread of its own that is inside.
    ///
    /// A thread because a thread that has moved is of no further use outside: it would have to
    /// move back, and might not be able to.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> Result<T, Error> {
        let inside = || {
            enter(&self.path())?;
            // Nothing may ever happen in the host's namespace by mistake.
            let here = fs::metadata("/proc/thread-self/ns/net")?.ino();
            if here != self.inode {
                return Err(io::Error::other("the thread is not in the lab's namespace"));
            }
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(Error::io(format!("in namespace {}", self.name)))
    }

    /// Writes a sysctl such as `net.ipv4.tcp_timestamps`, in this namespace only.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), Error> {
        let file = sysctl_file(name)?;
        self.inside(|| fs::write(&file, value))
            .map_err(|e| Error::Command {
                command: format!("sysctl {name}={value}"),
                why: e.to_string(),
            })
    }

    /// Reads a sysctl of this namespace.
    pub fn sysctl(&self, name: &str) -> Result<String, Error> {
        let file = sysctl_file(name)?;
        let value = self.inside(|| fs::read_to_string(&file))?;
        Ok(value.trim().to_string())
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(e) = run(["ip", "netns", "del", &self.name]) {
            eprintln!("tcpwhy lab: {e}; the next run of the lab tries again");
        }
    }
}

/// Moves the calling thread into the namespace of the file `path`.
pub(crate) fn enter(path: &Path) -> io::Result<()> {
    let file = fs::File::open(path)?;
    Ok(move_into_link_name_space(
        file.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

/// The file of a network sysctl. Only names below `net` are taken: they are the ones that a
/// namespace has of its own.
fn sysctl_file(name: &str) -> Result<PathBuf, Error> {
    let parts: Vec<&str> = name.split(['.', '/']).collect();
    let plain = |part: &&str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    if parts.len() < 3 || parts[0] != "net" || !parts.iter().all(plain) {
        return Err(Error::Command {
            command: format!("sysctl {name}"),
            why: "not a sysctl of a network namespace".to_string(),
        });
    }
    Ok(Path::new("/proc/sys").join(parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sysctls_of_a_namespace_are_taken() {
        assert_eq!(
            sysctl_file("net.ipv4.tcp_timestamps").unwrap(),
            Path::new("/proc/sys/net/ipv4/tcp_timestamps")
        );
        for bad in [
            "kernel.panic",
            "net",
            "net.ipv4",
            "net.ipv4.../../kernel/panic",
            "net.ipv4.",
            "net.ipv4.a b",
        ] {
            assert!(sysctl_file(bad).is_err(), "{bad}");
        }
    }
}
