//! An IP address as recordings have it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address in 16 bytes; IPv4 is held as `::ffff:a.b.c.d`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Addr(pub [u8; 16]);

impl Addr {
    /// The address as people write it: IPv4 in dotted form.
    pub fn ip(self) -> IpAddr {
        IpAddr::from(Ipv6Addr::from(self.0)).to_canonical()
    }
    /// Whether this is `0.0.0.0` or `::`: a listener on every address.
    pub fn is_any(self) -> bool {
        self.ip().is_unspecified()
    }
}
impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => Addr(v6.octets()),
        }
    }
}
impl From<Ipv4Addr> for Addr {
    fn from(v4: Ipv4Addr) -> Self {
        Addr(v4.to_ipv6_mapped().octets())
    }
}
impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(&self.ip(), f)
    }
}
impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(&self.ip(), f)
    }
}

impl serde::Serialize for Addr {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
