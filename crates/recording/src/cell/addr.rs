//! Columns of addresses, each distinct one kept once.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ahash::AHashMap;
use arrow_array::cast::AsArray;
use arrow_array::types as adt;
use arrow_array::{ArrayRef, BinaryArray, PrimitiveArray};
use arrow_schema::DataType;

use super::numbers::Numbers;
use super::text::{checked_keys, dictionary};
use super::{Cell, Value};

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

/// An address column being written: each distinct address once. (Parquet writes fixed-size binary
/// with an allocation per value; of all columns of `event` these two cost the most that way.)
#[derive(Default)]
pub struct AddrBuilder {
    keys: Numbers<adt::Int32Type>,
    known: AHashMap<Addr, i32>,
    values: Vec<Addr>,
    /// Those used last: a few hosts talk to each other again and again.
    recent: [Option<(Addr, i32)>; RECENT],
}

/// A power of two.
const RECENT: usize = 16;

/// An address column being read.
pub struct AddrReader {
    values: Vec<Addr>,
    keys: PrimitiveArray<adt::Int32Type>,
}

impl Cell for Addr {
    const NULLABLE: bool = false;
    const TYPE: &'static str = "address";
    type Builder = AddrBuilder;
    type Reader = AddrReader;
    fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Binary))
    }
    fn append(self, builder: &mut Self::Builder) {
        let slot = usize::from(self.0[15] ^ self.0[14]) & (RECENT - 1);
        let key = match builder.recent[slot] {
            Some((recent, key)) if recent == self => key,
            _ => *builder.known.entry(self).or_insert_with(|| {
                builder.values.push(self);
                builder.values.len() as i32 - 1
            }),
        };
        builder.recent[slot] = Some((self, key));
        builder.keys.value(key);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        let values = BinaryArray::from_iter_values(builder.values.iter().map(|a| a.0));
        builder.known.clear();
        builder.values.clear();
        builder.recent = [None; RECENT];
        dictionary(builder.keys.finish(), Arc::new(values))
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        let dict = array.as_dictionary_opt::<adt::Int32Type>()?;
        let binary = dict.values().as_binary_opt::<i32>()?;
        let values: Option<Vec<Addr>> = binary
            .iter()
            .map(|bytes| Some(Addr(bytes?.try_into().ok()?)))
            .collect();
        let values = values?;
        let keys = checked_keys(dict, values.len(), false)?;
        Some(AddrReader { values, keys })
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.values[reader.keys.value(row) as usize]
    }
    fn value(&self) -> Value<'_> {
        (*self).into()
    }
}
