//! Which interface of a namespace has which address: part of the source `settings`.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use recording::tables::InterfaceAddress;
use recording::{Addr, HealthKind, SourceName, TableWriter, Text, monotonic_ns};

use crate::error::Error;
use crate::health::HealthLog;

/// Beyond, they are told again and again only as long as they come and go.
const MAX_KNOWN: usize = 100_000;

/// The addresses told before.
#[derive(Default)]
pub struct Addresses {
    known: HashSet<(u32, Text, Addr)>,
    /// That they cannot be read has been said.
    said: bool,
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
        let found = match read() {
            Ok(found) => found,
            Err(_) if self.said => return Ok(()),
            Err(e) => {
                self.said = true;
                let detail = format!("which interface has which address cannot be read: {e}");
                return Ok(health.say(SourceName::Settings, HealthKind::Partial, 0, detail)?);
            }
        };
        for (interface, ip) in found {
            let (interface, addr) = (Text::from(interface.as_str()), Addr::from(ip));
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

/// Interfaces of the calling thread's namespace with their IPv4 and IPv6 addresses.
fn read() -> io::Result<Vec<(String, IpAddr)>> {
    let found = getifaddrs()?.filter_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        let ip = v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into()))?;
        Some((entry.interface_name, ip))
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn loopback_has_its_address() {
        let found = read().unwrap();
        let expected = ("lo".to_string(), IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(found.contains(&expected), "{found:?}");
    }
}
