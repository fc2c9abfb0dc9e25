//! A text as recordings have it: kept once, however often it is said.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A short, often repeated text: a name, a command, a value. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Arc<str>);

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
impl std::borrow::Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}
impl From<&str> for Text {
    fn from(s: &str) -> Self {
        Text(s.into())
    }
}
impl Default for Text {
    fn default() -> Self {
        Text::from("")
    }
}
impl From<String> for Text {
    fn from(s: String) -> Self {
        Text(s.into())
    }
}
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self)
    }
}
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}
impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &**self == other
    }
}
impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &**self == *other
    }
}
