//! Kernel functions by address, from /proc/kallsyms: who called, and where a packet was dropped.

use std::fs;

use recording::{RetransmitKind, Text, Verdict};

use crate::rights;
use crate::wire::{tied, tw_caller, tw_range};

/// The functions whose presence in a stack tells who called. Compilers split functions: suffixes
/// such as `.part.0` count as the function.
const CALLERS: &[(&str, tw_caller)] = &[
    ("cookie_v4_check", tw_caller::TW_CALLER_COOKIE),
    ("cookie_v6_check", tw_caller::TW_CALLER_COOKIE),
    ("tcp_retransmit_timer", tw_caller::TW_CALLER_RTO),
    ("reqsk_timer_handler", tw_caller::TW_CALLER_RTO), // of SYN-ACKs
    ("tcp_send_loss_probe", tw_caller::TW_CALLER_TLP),
    ("tcp_rack_reo_timeout", tw_caller::TW_CALLER_RACK),
    ("tcp_xmit_retransmit_queue", tw_caller::TW_CALLER_FAST),
    ("tcp_simple_retransmit", tw_caller::TW_CALLER_FAST),
];

/// Callers that retransmit.
static RETRANSMIT: [RetransmitKind; 5] = tied! {
    from tw_caller::TW_CALLER_OTHER.0;
    tw_caller::TW_CALLER_OTHER => RetransmitKind::Other,
    tw_caller::TW_CALLER_FAST => RetransmitKind::Fast,
    tw_caller::TW_CALLER_RACK => RetransmitKind::Rack,
    tw_caller::TW_CALLER_TLP => RetransmitKind::Tlp,
    tw_caller::TW_CALLER_RTO => RetransmitKind::Rto,
};

/// What made the kernel retransmit, by who called; `None` where that is not known.
pub fn retransmit_kind(caller: u8) -> Option<&'static RetransmitKind> {
    let first = tw_caller::TW_CALLER_OTHER.0 as u8;
    RETRANSMIT.get(usize::from(caller.checked_sub(first)?))
}

/// Where the functions are that tell who called.
pub struct Callers {
    /// Their address ranges; those of SYN cookies first.
    pub ranges: Vec<tw_range>,
    /// Whether the kernel's symbols can be read.
    pub verdict: Verdict,
}

impl Callers {
    /// Of the kernel's symbols, if they could be read.
    pub fn of(symbols: &Result<Symbols, String>) -> Callers {
        match symbols {
            Ok(symbols) => Callers {
                ranges: symbols.caller_ranges(),
                verdict: Verdict::Attached,
            },
            Err(why) => Callers {
                ranges: Vec::new(),
                verdict: Verdict::Unsupported(why.clone()),
            },
        }
    }
}

/// The kernel's functions, sorted by address.
pub struct Symbols {
    starts: Vec<(u64, u32)>,
    names: String,
}

impl Symbols {
    /// Reads /proc/kallsyms; the error says why it tells nothing.
    pub fn load() -> Result<Symbols, String> {
        let text = fs::read_to_string("/proc/kallsyms")
            .map_err(|e| format!("/proc/kallsyms cannot be read: {e}"))?;
        Symbols::parse(&text)
    }

    fn parse(text: &str) -> Result<Symbols, String> {
        let mut symbols = Symbols {
            starts: Vec::new(),
            names: String::new(),
        };
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else {
                continue;
            };
            if address != 0 && matches!(kind, "t" | "T" | "w" | "W") {
                symbols.starts.push((address, symbols.names.len() as u32));
                symbols.names.push_str(name);
                if let Some(module) = words.next() {
                    symbols.names.push(' ');
                    symbols.names.push_str(module.trim_matches(['[', ']']));
                }
                symbols.names.push('\n');
            }
        }
        if symbols.starts.is_empty() {
            return Err(hidden());
        }
        symbols.starts.sort_unstable();
        symbols.starts.dedup_by_key(|s| s.0);
        Ok(symbols)
    }

    /// Name and module of the function whose entry starts there.
    fn entry_at(&self, offset: u32) -> (&str, Option<&str>) {
        let rest = &self.names[offset as usize..];
        let entry = rest.split('\n').next().unwrap_or_default();
        match entry.split_once(' ') {
            Some((name, module)) => (name, Some(module)),
            None => (entry, None),
        }
    }

    fn name_at(&self, offset: u32) -> &str {
        self.entry_at(offset).0
    }

    /// The function that `address` lies in.
    pub fn function(&self, address: u64) -> Option<Text> {
        Some(self.place(address)?.function.into())
    }

    /// The function, its module and the distance from its start.
    pub fn place(&self, address: u64) -> Option<Place<'_>> {
        let after = self.starts.partition_point(|s| s.0 <= address);
        let (start, offset) = self.starts.get(after.checked_sub(1)?)?;
        let (name, module) = self.entry_at(*offset);
        let offset = address - start;
        (offset < MAX_FUNCTION).then(|| Place {
            function: base(name),
            module,
            offset,
        })
    }

    fn caller_ranges(&self) -> Vec<tw_range> {
        let mut ranges = Vec::new();
        for (i, &(start, offset)) in self.starts.iter().enumerate() {
            let name = base(self.name_at(offset));
            let caller = CALLERS.iter().find(|(function, _)| *function == name);
            if let (Some((_, caller)), Some(&(end, _))) = (caller, self.starts.get(i + 1)) {
                ranges.push(tw_range {
                    start,
                    size: end - start,
                    caller: caller.0.into(),
                });
            }
        }
        ranges.sort_by_key(|r| r.caller != u64::from(tw_caller::TW_CALLER_COOKIE.0));
        ranges
    }
}

/// Why the kernel hides its addresses: from all, or from those without a right.
fn hidden() -> String {
    let restrict = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
    match restrict.trim() {
        "2" => "addresses are hidden (sysctl kernel.kptr_restrict is 2)".into(),
        _ if !rights::may_see_addresses() => {
            "addresses are hidden: this process lacks CAP_SYSLOG".into()
        }
        _ => "addresses are hidden (sysctl kernel.kptr_restrict)".into(),
    }
}

/// No function is this large: an address farther away lies in code that came after the symbols were
/// read.
const MAX_FUNCTION: u64 = 1 << 20;

/// A place in the kernel's code.
#[derive(Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The function's name in the source.
    pub function: &'a str,
    /// Its module; `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// Distance from the function's start, bytes.
    pub offset: u64,
}

/// The function's name in the source, without the compiler's suffix.
fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T _text
ffffffff81000100 t tcp_xmit_retransmit_queue.part.0
ffffffff81000200 T tcp_xmit_retransmit_queue
ffffffff81000300 d some_data
ffffffff81000400 T cookie_v4_check\t[mod]
ffffffff81000500 T last
";

    #[test]
    fn finds_functions_and_their_split_parts() {
        let s = Symbols::parse(KALLSYMS).unwrap();
        assert_eq!(
            s.function(0xffffffff81000150).unwrap(),
            "tcp_xmit_retransmit_queue"
        );
        assert_eq!(s.function(0xffffffff81000400).unwrap(), "cookie_v4_check");
        assert_eq!(s.function(1), None);
        let place = s.place(0xffffffff81000403).unwrap();
        assert_eq!((place.module, place.offset), (Some("mod"), 3));
        assert_eq!(s.place(0xffffffff81000150).unwrap().module, None);
        assert_eq!(s.place(0xffffffffc1000000), None, "far behind the last");
        let ranges = s.caller_ranges();
        assert_eq!(ranges.len(), 3);
        let first = &ranges[0];
        assert_eq!(first.caller, u64::from(tw_caller::TW_CALLER_COOKIE.0));
        assert_eq!((first.start, first.size), (0xffffffff81000400, 0x100));
    }

    #[test]
    fn hidden_addresses_are_said() {
        let hidden = "0000000000000000 T _text\n0000000000000000 T cookie_v4_check\n";
        assert!(
            Symbols::parse(hidden)
                .err()
                .unwrap()
                .contains("addresses are hidden")
        );
    }
}
