//! What the user asks for: which namespaces, tasks, ports and addresses. Applied in the kernel.

use std::net::IpAddr;

use recording::Addr;

use crate::wire::{tw_filter, tw_prefix};

/// Kinds that are given must all match; any of one kind does. Empty means everything.
///
/// A source applies what it knows about: a CPU sample has no port, a packet on the wire no pid.
#[derive(Clone, Debug, Default)]
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

/// An address or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Prefix {
    fn mask(self) -> [u8; 16] {
        let bits = u32::from(self.bits.min(128));
        (!u128::MAX.checked_shr(bits).unwrap_or(0)).to_be_bytes()
    }

    /// Whether the address lies in it.
    pub fn contains(self, addr: Addr) -> bool {
        let mask = self.mask();
        (0..16).all(|i| (addr.0[i] ^ self.addr.0[i]) & mask[i] == 0)
    }
}

impl Filter {
    /// As the programs read it; the error says which kind has too many.
    pub(crate) fn wire(&self) -> Result<tw_filter, String> {
        let mut w = tw_filter::default();
        w.n_netns = fill("--netns", &mut w.netns, &self.netns, |&n| n)?;
        w.n_pids = fill("--pid", &mut w.pids, &self.pids, |&p| p)?;
        w.n_comms = fill("--comm", &mut w.comms, &self.comms, |c| comm(c))?;
        w.n_cgroups = fill("--cgroup", &mut w.cgroups, &self.cgroups, |&c| c)?;
        w.n_ports = fill("--port", &mut w.ports, &self.ports, |&p| p.into())?;
        w.n_addrs = fill("--addr", &mut w.addrs, &self.addrs, |p| prefix(*p))?;
        Ok(w)
    }
}

fn fill<T, W>(what: &str, to: &mut [W], from: &[T], wire: impl Fn(&T) -> W) -> Result<u32, String> {
    if from.len() > to.len() {
        let (given, most) = (from.len(), to.len());
        return Err(format!("{what}: {given} are given, {most} are possible"));
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = wire(from);
    }
    Ok(from.len() as u32)
}

/// The kernel's 16 bytes of a name: cut at 15, padded with zeros.
fn comm(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    let n = name.len().min(15);
    bytes[..n].copy_from_slice(&name.as_bytes()[..n]);
    words(bytes)
}

fn prefix(p: Prefix) -> tw_prefix {
    let mask = p.mask();
    let mut addr = p.addr.0;
    for (a, m) in addr.iter_mut().zip(mask) {
        *a &= m;
    }
    tw_prefix {
        addr: words(addr),
        mask: words(mask),
    }
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let (a, b) = bytes.split_at(8);
    [a, b].map(|half| u64::from_ne_bytes(half.try_into().expect("half of sixteen is eight")))
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
    fn a_name_is_cut_as_the_kernel_cuts_it() {
        assert_eq!(comm("nginx"), words(*b"nginx\0\0\0\0\0\0\0\0\0\0\0"));
        assert_eq!(
            comm("a-very-long-command-name"),
            words(*b"a-very-long-com\0")
        );
    }

    #[test]
    fn too_many_are_refused_by_name() {
        let filter = Filter {
            pids: (0..17).collect(),
            ..Filter::default()
        };
        assert_eq!(
            filter.wire().unwrap_err(),
            "--pid: 17 are given, 16 are possible"
        );
    }
}
