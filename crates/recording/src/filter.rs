//! What the user asks for: which namespaces, tasks, ports and addresses. Producers ask it of the
//! kernel, readers of rows.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Addr, without_backquotes};

/// Kinds that are given must all match; any of one kind does. Empty means everything.
///
/// A source applies what it knows about: a CPU sample has no port, a packet on the wire no pid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Network namespaces, by inode.
    pub netns: Vec<u32>,
    /// Processes.
    pub pids: Vec<u32>,
    /// Command names, as the kernel keeps them: 15 bytes at most.
    pub comms: Vec<String>,
    /// cgroup v2 ids, those below each included.
    pub cgroups: Vec<u64>,
    /// Ports, at either end.
    pub ports: Vec<u16>,
    /// Addresses, at either end.
    pub addrs: Vec<Prefix>,
}

/// The kernel keeps so many bytes of a command name.
const COMM_BYTES: usize = 15;

impl Filter {
    /// Whether rows of this namespace are asked for.
    pub fn netns_ok(&self, netns: u32) -> bool {
        self.netns.is_empty() || self.netns.contains(&netns)
    }

    /// Whether it asks for anything in particular.
    pub fn asks(&self) -> bool {
        !self.netns.is_empty() || self.asks_for_some()
    }

    /// Whether it asks for some of what is in its namespaces: who names a namespace alone names a host.
    pub fn asks_for_some(&self) -> bool {
        self.asks_for_tasks() || !(self.ports.is_empty() && self.addrs.is_empty())
    }

    /// Whether it asks for processes, names or cgroups at all.
    pub fn asks_for_tasks(&self) -> bool {
        !(self.pids.is_empty() && self.comms.is_empty() && self.cgroups.is_empty())
    }

    /// Whether a task is asked for. What is not known of it matches nothing that is asked.
    pub fn task_ok(&self, pid: Option<u32>, comm: Option<&str>, cgroup: Option<u64>) -> bool {
        // A name is as it was recorded, or as sentences are made of it.
        let is = |c: &str, comm: &str| {
            let bytes = cut(c);
            bytes == comm.as_bytes()
                || (c.contains('`') && without_backquotes(&String::from_utf8_lossy(bytes)) == comm)
        };
        let named = |comm: &str| self.comms.iter().any(|c| is(c, comm));
        (self.pids.is_empty() || pid.is_some_and(|pid| self.pids.contains(&pid)))
            && (self.comms.is_empty() || comm.is_some_and(named))
            && (self.cgroups.is_empty() || cgroup.is_some_and(|id| self.cgroups.contains(&id)))
    }

    /// Whether a connection between these ports, either of which may be 0 for none, is asked for.
    pub fn ports_ok(&self, one: u16, other: u16) -> bool {
        self.ports.is_empty() || self.ports.contains(&one) || self.ports.contains(&other)
    }

    /// Whether a connection between these addresses is asked for.
    pub fn addrs_ok(&self, one: Addr, other: Addr) -> bool {
        let any = |a| self.addrs.iter().any(|p| p.contains(a));
        self.addrs.is_empty() || any(one) || any(other)
    }
}

/// As the kernel keeps a name.
fn cut(comm: &str) -> &[u8] {
    &comm.as_bytes()[..comm.len().min(COMM_BYTES)]
}

/// An address or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Prefix {
    /// Its address.
    pub addr: Addr,
    /// Bits of the 128 that count; an IPv4 prefix counts from 96.
    pub bits: u8,
}

impl std::str::FromStr for Prefix {
    type Err = String;

    /// `10.0.0.0/8`, `::1`.
    fn from_str(s: &str) -> Result<Prefix, String> {
        let wrong = || format!("{s:?} is neither an address nor a network like 10.0.0.0/8");
        let (ip, len) = match s.split_once('/') {
            Some((ip, len)) => (ip, Some(len.parse::<u8>().map_err(|_| wrong())?)),
            None => (s, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let (width, offset) = if ip.is_ipv4() { (32, 96) } else { (128, 0) };
        let len = len.unwrap_or(width);
        if len > width {
            return Err(wrong());
        }
        Ok(Prefix {
            addr: ip.into(),
            bits: offset + len,
        })
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(s: String) -> Result<Prefix, String> {
        s.parse()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let ip = self.addr.ip();
        let bits = if ip.is_ipv4() {
            self.bits.saturating_sub(96)
        } else {
            self.bits
        };
        match self.bits {
            128.. => write!(f, "{ip}"),
            _ => write!(f, "{ip}/{bits}"),
        }
    }
}

impl Prefix {
    /// The bits that count, as ones.
    pub fn mask(self) -> [u8; 16] {
        let bits = u32::from(self.bits.min(128));
        (!u128::MAX.checked_shr(bits).unwrap_or(0)).to_be_bytes()
    }

    /// Whether the address lies in it.
    pub fn contains(self, addr: Addr) -> bool {
        let mask = self.mask();
        (0..16).all(|i| (addr.0[i] ^ self.addr.0[i]) & mask[i] == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_its_addresses_and_no_other() {
        let prefix = |s: &str| s.parse::<Prefix>().unwrap();
        let addr = |s: &str| Addr::from(s.parse::<IpAddr>().unwrap());
        assert!(prefix("10.0.0.0/8").contains(addr("10.1.2.3")));
        assert!(!prefix("10.0.0.0/8").contains(addr("11.1.2.3")));
        assert!(prefix("127.0.0.1").contains(addr("127.0.0.1")));
        assert!(!prefix("127.0.0.1").contains(addr("127.0.0.2")));
        assert!(prefix("0.0.0.0/0").contains(addr("255.1.2.3")));
        assert!(!prefix("0.0.0.0/0").contains(addr("::1")));
        assert!(prefix("::/0").contains(addr("::1")));
        assert!(prefix("fe80::/10").contains(addr("febf::1")));
        for wrong in [
            "",
            "10.0.0.0/33",
            "::1/129",
            "10.0.0/8",
            "a/1",
            "1.2.3.4/-1",
        ] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn any_of_a_kind_and_all_kinds() {
        let filter = Filter {
            pids: vec![7, 8],
            comms: vec!["a-very-long-command-name".into()],
            ports: vec![80],
            ..Filter::default()
        };
        assert!(filter.task_ok(Some(8), Some("a-very-long-com"), None));
        assert!(!filter.task_ok(Some(9), Some("a-very-long-com"), None));
        assert!(
            !filter.task_ok(Some(8), None, None),
            "an unknown name is not the asked one"
        );
        assert!(filter.ports_ok(1, 80) && !filter.ports_ok(1, 2));
        assert!(Filter::default().task_ok(None, None, None));
    }
}
