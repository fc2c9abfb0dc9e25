//! Which interface of a namespace has which address: part of the source `settings`.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use recording::tables::InterfaceAddress;
use recording::{Addr, HealthKind, SourceName, TableWriter, Text, monotonic_ns};
use rustix::net::netdevice::index_to_name_inlined;
use rustix::net::{AddressFamily, SocketType, socket};

use crate::error::Error;
use crate::health::HealthLog;
use crate::netlink;

/// Of one namespace: anybody may give his own as many as he likes.
const MOST: usize = 4_096;
/// Beyond, they are told again and again only as long as they come and go.
const MAX_KNOWN: usize = 100_000;

/// RTM_NEWADDR, RTM_GETADDR, the bytes of an `ifaddrmsg`, and the attributes that hold an address.
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const IFADDRMSG: usize = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;

/// The addresses told before.
#[derive(Default)]
pub struct Addresses {
    known: HashSet<(u32, Text, Addr)>,
    /// That they cannot be read has been said, and that there are more.
    said: bool,
    more: bool,
}

impl Addresses {
    /// Writes those of the calling thread's namespace `netns` that were not told before.
    pub fn of_namespace(
        &mut self,
        netns: u32,
        rows: &mut TableWriter<InterfaceAddress>,
        health: &HealthLog,
    ) -> Result<(), Error> {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        let (found, more) = match read(MOST) {
            Ok(found) => found,
            Err(_) if self.said => return Ok(()),
            Err(e) => {
                self.said = true;
                let detail = format!("which interface has which address cannot be read: {e}");
                return Ok(health.say(SourceName::Settings, HealthKind::Partial, 0, detail)?);
            }
        };
        if more && !std::mem::replace(&mut self.more, true) {
            let detail = format!("addresses of a network namespace beyond {MOST} are not told");
            health.say(SourceName::Settings, HealthKind::Partial, 1, detail)?;
        }
        let mut names = Names::default();
        for (index, ip) in found {
            // One that has gone meanwhile had no traffic to tell of.
            let Some(interface) = names.of(index) else {
                continue;
            };
            let addr = Addr::from(ip);
            if self.known.insert((netns, interface.clone(), addr)) {
                rows.push(InterfaceAddress {
                    time_ns: monotonic_ns(),
                    netns,
                    interface,
                    addr,
                })?;
            }
        }
        Ok(())
    }
}

/// What interfaces of the calling thread's namespace are called, each asked for once.
#[derive(Default)]
struct Names {
    socket: Option<OwnedFd>,
    known: HashMap<u32, Text>,
}

impl Names {
    fn of(&mut self, index: u32) -> Option<Text> {
        if let Some(known) = self.known.get(&index) {
            return Some(known.clone());
        }
        if self.socket.is_none() {
            self.socket = socket(AddressFamily::INET, SocketType::DGRAM, None).ok();
        }
        let name = index_to_name_inlined(self.socket.as_ref()?, index).ok()?;
        let name = Text::from(name.as_str());
        self.known.insert(index, name.clone());
        Some(name)
    }
}

/// Interfaces of the calling thread's namespace with their IPv4 and IPv6 addresses, and whether there are more.
fn read(most: usize) -> io::Result<(Vec<(u32, IpAddr)>, bool)> {
    let (mut found, mut more) = (Vec::new(), false);
    // An ifaddrmsg that asks for every family.
    netlink::dump_until(
        netlink::ROUTE,
        GET_ADDRESS,
        &[0; IFADDRMSG],
        |kind, answer| {
            if kind != NEW_ADDRESS {
                return ControlFlow::Continue(());
            }
            more = found.len() == most;
            if more {
                return ControlFlow::Break(());
            }
            found.extend(address(answer));
            ControlFlow::Continue(())
        },
    )?;
    Ok((found, more))
}

/// The number of the interface, and the address: the local one where a link has two ends.
fn address(message: &[u8]) -> Option<(u32, IpAddr)> {
    let index = u32::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let of = |wanted: &[u16]| {
        let mut attributes = netlink::attributes(message.get(IFADDRMSG..)?);
        attributes.find_map(|(kind, value)| wanted.contains(&kind).then(|| ip(value))?)
    };
    Some((index, of(&[LOCAL]).or_else(|| of(&[ADDRESS]))?))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?));
    v4().or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn loopback_has_its_address() {
        let (found, more) = read(MOST).unwrap();
        let (index, _) = *found
            .iter()
            .find(|(_, ip)| *ip == Ipv4Addr::LOCALHOST)
            .expect("loopback has an address");
        assert_eq!(Names::default().of(index).unwrap(), "lo");
        assert!(!more);
    }

    #[test]
    fn no_more_are_read_than_are_told() {
        assert!(read(0).unwrap().1);
    }

    #[test]
    fn what_is_cut_has_no_address() {
        let mut message = vec![2, 8, 0, 0, 1, 0, 0, 0];
        message.extend([8, 0, 2, 0, 127, 0, 0, 1]);
        assert_eq!(address(&message), Some((1, Ipv4Addr::LOCALHOST.into())));
        for end in 0..message.len() {
            assert_eq!(address(&message[..end]), None);
        }
    }
}
