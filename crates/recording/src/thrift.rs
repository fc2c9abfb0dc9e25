//! As much of Thrift's compact protocol as it takes to look over a footer or a page header before
//! the Parquet library reads it: that library reserves whatever memory a length in them claims.

/// How deep structs may lie within each other; Parquet's own lie four deep.
const DEEPEST: u32 = 16;

/// Bytes that should be a struct.
pub(crate) struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The type of a field, as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// True or false, which the type itself says.
    Bool,
    /// A byte, which is not a varint.
    Byte,
    /// A zigzag varint of whatever width.
    Int,
    /// Eight bytes.
    Double,
    /// A length and as many bytes.
    Binary,
    /// A list or a set.
    List,
    /// Fields.
    Struct,
}

/// What a field is, and its number.
pub(crate) type Field = (i16, Kind);

impl<'a> Compact<'a> {
    /// At the first field of a struct.
    pub(crate) fn of(bytes: &'a [u8]) -> Compact<'a> {
        Compact { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub(crate) fn read(&self) -> usize {
        self.at
    }

    /// The next field of a struct, whose value is to be read or skipped then: within, `None` at the
    /// struct's end. `last` is the number of the field before. The outer `None`: not Thrift, or cut.
    pub(crate) fn field(&mut self, last: &mut i16) -> Option<Option<Field>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let number = match head >> 4 {
            0 => i16::try_from(self.int()?).ok()?,
            delta => last.checked_add(delta.into())?,
        };
        *last = number;
        Some(Some((number, kind(head & 0xf)?)))
    }

    /// A number.
    pub(crate) fn int(&mut self) -> Option<i64> {
        let raw = self.varint()?;
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// What a list holds, and how many.
    pub(crate) fn list(&mut self) -> Option<(Kind, usize)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            count => count.into(),
        };
        // Some writers give an empty list no type.
        let kind = if head == 0 {
            Kind::Byte
        } else {
            kind(head & 0xf)?
        };
        // Whatever it is, an element takes a byte.
        (count <= self.bytes.len() - self.at).then_some((kind, count))
    }

    /// Passes over a value.
    pub(crate) fn skip(&mut self, kind: Kind) -> Option<()> {
        self.skip_to(kind, false, DEEPEST)
    }

    fn skip_to(&mut self, kind: Kind, in_list: bool, deeper: u32) -> Option<()> {
        let deeper = deeper.checked_sub(1)?;
        match kind {
            Kind::Bool if !in_list => Some(()),
            Kind::Bool | Kind::Byte => self.take(1),
            Kind::Int => self.varint().map(drop),
            Kind::Double => self.take(8),
            Kind::Binary => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.take(length)
            }
            Kind::List => {
                let (kind, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip_to(kind, true, deeper))
            }
            Kind::Struct => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip_to(kind, false, deeper)?;
                }
                Some(())
            }
        }
    }

    fn take(&mut self, length: usize) -> Option<()> {
        let end = self.at.checked_add(length)?;
        self.at = Some(end).filter(|end| *end <= self.bytes.len())?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Maps, which Parquet does not use, are not known.
fn kind(code: u8) -> Option<Kind> {
    Some(match code {
        1 | 2 => Kind::Bool,
        3 => Kind::Byte,
        4..=6 => Kind::Int,
        7 => Kind::Double,
        8 => Kind::Binary,
        9 | 10 => Kind::List,
        12 => Kind::Struct,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_read_and_skipped() {
        // 1: i32 -3; 2: binary "ab"; 5: list of three i32; 7: struct { 1: true }; end
        let bytes = [
            0x15, 5, 0x18, 2, b'a', b'b', 0x39, 0x35, 2, 4, 6, 0x2c, 0x11, 0, 0,
        ];
        let mut compact = Compact::of(&bytes);
        let mut last = 0;
        assert_eq!(compact.field(&mut last), Some(Some((1, Kind::Int))));
        assert_eq!(compact.int(), Some(-3));
        for expected in [(2, Kind::Binary), (5, Kind::List), (7, Kind::Struct)] {
            assert_eq!(compact.field(&mut last), Some(Some(expected)));
            compact.skip(expected.1).unwrap();
        }
        assert_eq!(compact.field(&mut last), Some(None));
        assert_eq!(compact.read(), bytes.len());
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        let mut binary = Compact::of(&[0xff, 0xff, 0xff, 0xff, 0x7f, 0]);
        assert_eq!(binary.skip(Kind::Binary), None);
        let mut list = Compact::of(&[0xfc, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(list.list(), None);
        let deep = [0x1c; 10_000];
        assert_eq!(Compact::of(&deep).skip(Kind::Struct), None);
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut compact = Compact::of(&bytes);
            let _ = compact.skip(Kind::Struct);
            prop_assert!(compact.read() <= bytes.len());
        }
    }
}
