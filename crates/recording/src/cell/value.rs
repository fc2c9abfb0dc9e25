//! What a cell holds, whatever its type: for whoever shows rows of any table.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::addr::Addr;

/// A value of a cell, without its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'c> {
    /// Null.
    Null,
    /// A number that is never negative.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A number with a fraction.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(&'c str),
    /// An address.
    Addr(Addr),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Null => Ok(()),
            Value::Unsigned(n) => n.fmt(f),
            Value::Signed(n) => n.fmt(f),
            Value::Real(n) => n.fmt(f),
            Value::Flag(yes) => f.pad(if *yes { "yes" } else { "no" }),
            Value::Text(text) => f.pad(text),
            Value::Addr(addr) => addr.fmt(f),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => to.serialize_none(),
            Value::Unsigned(n) => to.serialize_u64(*n),
            Value::Signed(n) => to.serialize_i64(*n),
            Value::Real(n) => to.serialize_f64(*n),
            Value::Flag(yes) => to.serialize_bool(*yes),
            Value::Text(text) => to.serialize_str(text),
            Value::Addr(addr) => addr.serialize(to),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$from> for Value<'_> {
            fn from(value: $from) -> Self { Value::$variant(value.into()) }
        }
    )+};
}
from! {
    u8 => Unsigned, u16 => Unsigned, u32 => Unsigned, u64 => Unsigned,
    i32 => Signed, i64 => Signed, f64 => Real, bool => Flag, Addr => Addr,
}

impl<'c> From<&'c str> for Value<'c> {
    fn from(text: &'c str) -> Self {
        Value::Text(text)
    }
}

impl<'c, V: Into<Value<'c>>> From<Option<V>> for Value<'c> {
    fn from(value: Option<V>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}
