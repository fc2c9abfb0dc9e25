//! Names of functions as people write them, of a bounded length whatever the symbol says.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

use recording::cut;

/// Bytes of a name that are kept; a template's name can be any length.
const MAX_NAME: usize = 512;

/// The name of a symbol, demangled if it is one of Rust or C++. Bytes that are not UTF-8 are replaced.
pub fn demangle(symbol: &[u8]) -> String {
    let raw = String::from_utf8_lossy(symbol);
    let mut name = Bounded::default();
    if let Ok(rust) = rustc_demangle::try_demangle(&raw) {
        // Full, it says so by an error: what is in it is what is kept.
        let _ = write!(name, "{rust:#}");
    } else if let Ok(cpp) = BorrowedSymbol::new(symbol) {
        let options = DemangleOptions::default();
        if cpp.structured_demangle(&mut name, &options).is_err() && !name.full {
            name = Bounded::default();
        }
    }
    if name.text.is_empty() {
        let _ = name.write_str(&raw);
    }
    name.text
}

/// Text that grows no longer than [`MAX_NAME`], and an error to whoever would write on.
#[derive(Default)]
struct Bounded {
    text: String,
    full: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = MAX_NAME - self.text.len();
        if more.len() <= room && !self.full {
            self.text.push_str(more);
            return Ok(());
        }
        self.full = true;
        self.text.push_str(cut(more, room));
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_rust_c_and_cpp_are_names() {
        let names = [
            ("main", "main"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_Znonsense", "_Znonsense"),
            ("", ""),
        ];
        for (symbol, name) in names {
            assert_eq!(demangle(symbol.as_bytes()), name, "{symbol}");
        }
        assert_eq!(demangle(b"a\xff"), "a\u{fffd}");
    }

    /// Each substitution stands for twice the one before: 60 of them would fill any memory.
    #[test]
    fn a_symbol_that_stands_for_an_endless_name_is_cut() {
        let digit = |n: usize| char::from_digit(n as u32, 36).unwrap().to_ascii_uppercase();
        let mut symbol = String::from("_Z1fI1aE1bIS0_S0_E");
        for n in 1..30 {
            let s = digit(n);
            symbol += &format!("1cIS{s}_S{s}_E");
        }
        assert!(demangle(symbol.as_bytes()).len() <= MAX_NAME);
        assert!(demangle("é".repeat(4000).as_bytes()).len() <= MAX_NAME);
    }
}
