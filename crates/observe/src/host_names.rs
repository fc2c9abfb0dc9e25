//! What addresses are called on this host: by `/etc/hosts` as processes with sockets see it, and by their host names.
//! Nobody is asked over the network.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use recording::tables::HostName;
use recording::{Addr, TableWriter, is_host_name, monotonic_ns};
use rustix::system::uname;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::aside::{Aside, Said};
use crate::error::Error;
use crate::foreign::{Process, text};
use crate::{rights, space};

/// Processes of a round that are looked at. Most live where one before them was looked at.
const MAX_PROCESSES: usize = 1 << 12;
/// Places (a network, a mount and a UTS namespace) that are looked at in a recording.
const MAX_PLACES: usize = 1 << 12;
/// Of one file, which is whoever's: bytes, and addresses.
const MAX_BYTES: usize = 64 << 10;
const MAX_NAMES: usize = 512;
/// Sampling waits no longer for a file.
const PATIENCE: Duration = Duration::from_millis(20);

/// Where a process lives: the numbers of its network, mount and UTS namespaces.
type Place = (u32, u64, u64);

/// The table, and what was asked for.
pub struct HostNames {
    rows: TableWriter<HostName>,
    processes: BTreeSet<u32>,
    places: HashSet<Place>,
    told: HashSet<(u32, Option<Addr>)>,
    hosts: Aside<(), Vec<(IpAddr, String)>>,
    /// Our own UTS namespace, to come back to.
    own: Option<(File, u64)>,
}

impl HostNames {
    /// Rows for the table.
    pub fn new(rows: TableWriter<HostName>) -> HostNames {
        let own = File::open("/proc/thread-self/ns/uts");
        let own = own.and_then(|file| Ok((file.metadata()?.ino(), file)));
        HostNames {
            rows,
            processes: BTreeSet::new(),
            places: HashSet::new(),
            told: HashSet::new(),
            hosts: Aside::new("hosts", PATIENCE, || Box::new(|pid, ()| hosts(pid))),
            own: own.ok().map(|(inode, file)| (file, inode)),
        }
    }

    /// A process holds a socket.
    pub fn holds(&mut self, pid: u32) {
        if self.processes.len() < MAX_PROCESSES {
            self.processes.insert(pid);
        }
    }

    /// Looks where those that hold sockets live, and nobody was looked at before.
    pub fn sample(&mut self) -> Result<(), Error> {
        for pid in std::mem::take(&mut self.processes) {
            if self.places.len() >= MAX_PLACES || !space::pids_are_ours() {
                break;
            }
            let Some(place) = place(pid).filter(|place| self.places.insert(*place)) else {
                continue;
            };
            if let Some(name) = self.host_name(pid, place)? {
                self.tell(place.0, None, &name)?;
            }
            match self.hosts.ask(pid, ()) {
                Said::Answer(named) => {
                    for (ip, name) in named {
                        self.tell(place.0, Some(ip.into()), &name)?;
                    }
                }
                // The next one who lives there is asked again.
                Said::Late | Said::Never => drop(self.places.remove(&place)),
            }
        }
        Ok(self.rows.seal_if_due()?)
    }

    /// Writes everything.
    pub fn seal(&mut self) -> Result<(), Error> {
        Ok(self.rows.seal()?)
    }

    fn tell(&mut self, netns: u32, addr: Option<Addr>, name: &str) -> Result<(), Error> {
        // The first one that calls it something counts, as in the file.
        if self.told.insert((netns, addr)) {
            self.rows.push(HostName {
                time_ns: monotonic_ns(),
                netns,
                addr,
                name: name.into(),
            })?;
        }
        Ok(())
    }

    /// The host name in the process's UTS namespace; `None` where that is our own, or cannot be entered.
    fn host_name(&self, pid: u32, (_, _, uts): Place) -> Result<Option<String>, Error> {
        let Some((own, _)) = self.own.as_ref().filter(|(_, own)| *own != uts) else {
            return Ok(None);
        };
        if !rights::may_visit() {
            return Ok(None);
        }
        let there = File::open(format!("/proc/{pid}/ns/uts"));
        // The process may have ended, and another have its number.
        let is_it = |file: &File| file.metadata().is_ok_and(|meta| meta.ino() == uts);
        let Some(there) = there.ok().filter(is_it) else {
            return Ok(None);
        };
        let kind = Some(LinkNameSpaceType::HostNameAndNISDomainName);
        if move_into_link_name_space(there.as_fd(), kind).is_err() {
            return Ok(None);
        }
        let name = uname().nodename().to_string_lossy().into_owned();
        move_into_link_name_space(own.as_fd(), kind).map_err(|why| Error::System {
            what: "returning to the own UTS namespace".into(),
            why: why.into(),
        })?;
        Ok(Some(name).filter(|name| is_host_name(name)))
    }
}

fn place(pid: u32) -> Option<Place> {
    let inode = |kind| Some(fs::metadata(format!("/proc/{pid}/ns/{kind}")).ok()?.ino());
    Some((inode("net")?.try_into().ok()?, inode("mnt")?, inode("uts")?))
}

/// What `/etc/hosts` says that a process sees, as far as it is its own user's or everybody's.
fn hosts(pid: u32) -> Vec<(IpAddr, String)> {
    let read = || {
        let process = Process::open(pid)?;
        let plain = process.named("/etc/hosts")?;
        let uid = process.who()?.uid;
        if !plain.is_of(uid) {
            return Err(std::io::Error::other("it is another user's"));
        }
        text(plain.open(), MAX_BYTES)
    };
    read().map_or(Vec::new(), |text| parse(&text))
}

/// Addresses with their first names; not those that are everybody's own.
fn parse(text: &str) -> Vec<(IpAddr, String)> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let named = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let ip: IpAddr = words.next()?.parse().ok()?;
        let name = words.next().filter(|name| is_host_name(name))?;
        let is_own = ip.is_loopback() || ip.is_unspecified() || ip.is_multicast();
        (!is_own).then(|| (ip, name.to_string()))
    });
    named.take(MAX_NAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_an_address_is_what_it_is_called() {
        let text = "127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\n\
                    10.88.1.7\tdb-primary db # the first\n# 10.0.0.1 off\nfd00::7 six.example.com\n\
                    nonsense\n10.0.0.2\n10.0.0.3 `id`\n";
        let told: Vec<_> = parse(text)
            .iter()
            .map(|(ip, name)| format!("{ip} {name}"))
            .collect();
        assert_eq!(told, ["10.88.1.7 db-primary", "fd00::7 six.example.com"]);
    }

    #[test]
    fn a_file_of_anybodys_is_bounded() {
        let many: String = (0..10_000)
            .map(|n| format!("10.1.{}.{} h{n}\n", n / 256, n % 256))
            .collect();
        assert_eq!(parse(&many).len(), MAX_NAMES);
        assert!(parse(&"x".repeat(MAX_BYTES)).is_empty());
    }
}
