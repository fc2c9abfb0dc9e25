//! What addresses are called on the recorded host.

use ahash::AHashMap;
use recording::tables::HostName;
use recording::{Addr, Error, Manifest, Recording, Text, is_host_name};

use crate::addresses::Addresses;

/// Names kept; anybody may give as many as he likes.
const MAX_NAMES: usize = 65_536;
/// The namespace whose `/etc/hosts` is the host's.
const HOST: &str = "host";

/// Names of addresses.
#[derive(Debug, Default)]
pub struct Names {
    /// As a namespace's processes have them in `/etc/hosts`.
    by_namespace: AHashMap<(u32, Addr), Text>,
    /// Of addresses that an interface of one namespace has, by the host name there; `None` where several have it.
    by_interface: AHashMap<Addr, Option<Text>>,
    host: Option<u32>,
}

impl Names {
    pub(crate) fn read(recording: &Recording, addresses: &Addresses) -> Result<Names, Error> {
        let mut names = Names {
            host: host(&recording.manifest),
            ..Names::default()
        };
        let mut host_names: AHashMap<u32, Text> = AHashMap::new();
        for batch in recording.scan::<HostName>()? {
            for (_, row) in batch?.rows() {
                if !is_host_name(&row.name) {
                    continue;
                }
                let (netns, name) = (row.netns, row.name);
                match row.addr {
                    Some(addr) if names.by_namespace.len() < MAX_NAMES => {
                        names.by_namespace.entry((netns, addr)).or_insert(name);
                    }
                    None if host_names.len() < MAX_NAMES => {
                        host_names.entry(netns).or_insert(name);
                    }
                    _ => {}
                }
            }
        }
        for (netns, addr) in addresses.all() {
            if addr.ip().is_loopback() || names.by_interface.len() >= MAX_NAMES {
                continue;
            }
            let name = host_names.get(&netns).cloned();
            let known = names.by_interface.entry(addr);
            known.and_modify(|known| *known = None).or_insert(name);
        }
        Ok(names)
    }

    /// What the address is called in a namespace: by its `/etc/hosts`, by the host's, or by the host name of the one
    /// namespace with such an interface.
    pub fn of(&self, netns: u32, addr: Addr) -> Option<&str> {
        let named = |netns| self.by_namespace.get(&(netns, addr));
        let name = named(netns).or_else(|| named(self.host?));
        let name = name.or_else(|| self.by_interface.get(&addr)?.as_ref());
        name.map(|name| &**name)
    }

    /// The sentence with the name of the first address in it that has one: `10.88.1.7:5432 (db-primary)`.
    pub fn named(&self, netns: u32, sentence: &str) -> Option<String> {
        let mut at = 0;
        for word in sentence.split(' ') {
            let plain = word.trim_end_matches([',', '.', ':', ';']);
            let end = at + plain.len();
            if let Some(name) = addr(plain).and_then(|addr| self.of(netns, addr)) {
                let (before, after) = sentence.split_at(end);
                return Some(format!("{before} ({name}){after}"));
            }
            at += word.len() + 1;
        }
        None
    }
}

fn host(manifest: &Manifest) -> Option<u32> {
    let host = manifest.namespaces.iter().find(|n| n.name == HOST);
    host.map(|host| host.inode)
}

/// An address, with or without a port.
fn addr(word: &str) -> Option<Addr> {
    let with_port = word.parse::<std::net::SocketAddr>().map(|at| at.ip());
    let ip = with_port.or_else(|_| word.parse()).ok()?;
    Some(ip.into())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use recording::tables::InterfaceAddress;
    use recording::{FORMAT, Namespace, Writer};

    use super::*;

    const DB: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 7);
    const WEB: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 8);
    const TWICE: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 9);

    fn ip(ip: Ipv4Addr) -> Addr {
        Addr::from(std::net::IpAddr::from(ip))
    }

    fn names(rows: &[(u32, Option<Ipv4Addr>, &str)]) -> Names {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.tcpwhy");
        let manifest = Manifest {
            format: FORMAT,
            end_ns: 1,
            namespaces: vec![Namespace {
                inode: 1,
                name: HOST.into(),
            }],
            ..Manifest::default()
        };
        let writer = Writer::create(&path, &manifest).unwrap();
        let mut table = writer.table::<HostName>().unwrap();
        for (netns, addr, name) in rows {
            table
                .push(HostName {
                    time_ns: 0,
                    netns: *netns,
                    addr: addr.map(ip),
                    name: (*name).into(),
                })
                .unwrap();
        }
        table.seal().unwrap();
        let mut addresses = Addresses::default();
        for (netns, addr) in [(5, WEB), (5, TWICE), (6, TWICE)] {
            addresses.add(&InterfaceAddress {
                netns,
                addr: ip(addr),
                ..InterfaceAddress::default()
            });
        }
        Names::read(&Recording::open(&path).unwrap(), &addresses).unwrap()
    }

    #[test]
    fn a_namespace_comes_before_the_host_and_a_file_before_a_host_name() {
        let names = names(&[
            (1, Some(DB), "db-host"),
            (7, Some(DB), "db-primary"),
            (5, None, "web-1"),
            (6, None, "web-2"),
        ]);
        assert_eq!(names.of(7, ip(DB)), Some("db-primary"));
        assert_eq!(names.of(8, ip(DB)), Some("db-host"));
        assert_eq!(names.of(7, ip(WEB)), Some("web-1"));
        assert_eq!(names.of(7, ip(TWICE)), None, "two have it");
        assert_eq!(names.of(5, ip(Ipv4Addr::LOCALHOST)), None);
    }

    #[test]
    fn a_sentence_names_the_first_address_once() {
        let names = names(&[(7, Some(DB), "db-primary"), (7, Some(WEB), "`id`")]);
        let says = |sentence| names.named(7, sentence).unwrap_or_default();
        assert_eq!(
            says("Connections to 10.88.1.7:5432, or 10.88.1.7:6, hang."),
            "Connections to 10.88.1.7:5432 (db-primary), or 10.88.1.7:6, hang."
        );
        assert_eq!(
            says("to 10.88.1.7: 3 SYNs"),
            "to 10.88.1.7 (db-primary): 3 SYNs"
        );
        assert_eq!(says("10.88.1.8:80 is no name's"), "");
        assert_eq!(says("110.88.1.7:5432 and 10.88.1.70"), "");
    }
}
