//! Which interface of a namespace has which address: part of the source `settings`.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;

use recording::tables::InterfaceAddress;
use recording::{Addr, TableWriter, Text, monotonic_ns};

use crate::error::Error;

/// Beyond, they are told again and again only as long as they come and go.
const MAX_KNOWN: usize = 100_000;

/// The addresses told before.
#[derive(Default)]
pub struct Addresses {
    known: HashSet<(u32, Text, Addr)>,
}

impl Addresses {
    /// Writes those of the calling thread's namespace `netns` that were not told before.
    pub fn of_namespace(
        &mut self,
        netns: u32,
        rows: &mut TableWriter<InterfaceAddress>,
    ) -> Result<(), Error> {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        for (interface, ip) in read().unwrap_or_default() {
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
    let mut first = null_mut();
    // SAFETY: it writes a pointer to a list, or fails.
    if unsafe { libc::getifaddrs(&raw mut first) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut found, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: entries of the list are whole until it is freed below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        if entry.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: the family says which of the two the address is; the name ends with a zero.
        let (ip, name) = unsafe {
            let ip: IpAddr = match i32::from((*entry.ifa_addr).sa_family) {
                libc::AF_INET => {
                    let v4 = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into()
                }
                libc::AF_INET6 => {
                    let v6 = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    Ipv6Addr::from(v6.sin6_addr.s6_addr).into()
                }
                _ => continue,
            };
            (ip, CStr::from_ptr(entry.ifa_name))
        };
        found.push((name.to_string_lossy().into_owned(), ip));
    }
    // SAFETY: the list is the one from above, and nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address() {
        let found = read().unwrap();
        let expected = ("lo".to_string(), IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(found.contains(&expected), "{found:?}");
    }
}
