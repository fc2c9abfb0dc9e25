//! Addresses with ports, and where a row is, in as few bytes as a million connections allow.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use recording::tables::Event;
use recording::{Addr, RowRef, Table};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Netns {
    /// Inode of `/proc/PID/ns/net`; 0 for the whole host.
    pub inode: u32,
    /// Its name, when it has one.
    pub name: Option<String>,
}

/// An address and a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address.
    pub addr: Addr,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// The end at an address and port.
    pub fn new(addr: Addr, port: u16) -> Endpoint {
        Endpoint { addr, port }
    }
    /// Whether packets to this address stay in the namespace.
    pub fn is_loopback(self) -> bool {
        self.addr.ip().is_loopback()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.addr.ip() {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Endpoint {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Endpoint".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

impl Serialize for Endpoint {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Endpoint, D::Error> {
        let text = String::deserialize(from)?;
        let at: SocketAddr = text.parse().map_err(D::Error::custom)?;
        Ok(Endpoint::new(at.ip().into(), at.port()))
    }
}

/// Where an event row is: a [`RowRef`] whose table goes without saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRow {
    segment: u32,
    row: u32,
}

impl From<RowRef> for EventRow {
    fn from(at: RowRef) -> Self {
        EventRow {
            segment: at.segment,
            row: at.row,
        }
    }
}
impl From<EventRow> for RowRef {
    fn from(at: EventRow) -> Self {
        RowRef {
            table: Event::INFO.name,
            segment: at.segment,
            row: at.row,
        }
    }
}
