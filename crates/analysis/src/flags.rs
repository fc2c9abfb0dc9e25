//! The flags of TCP's header that tell what a packet is for.

/// TCP header flag SYN.
pub const SYN: u8 = 2;
/// TCP header flag ACK.
pub const ACK: u8 = 16;

/// Whether the flags are those of a packet that opens a connection.
pub fn opens(flags: Option<u8>) -> bool {
    flags.is_some_and(|f| f & (SYN | ACK) == SYN)
}

/// Whether the flags are those of the answer to it.
pub fn answers(flags: Option<u8>) -> bool {
    flags.is_some_and(|f| f & (SYN | ACK) == SYN | ACK)
}

/// TCP header flags FIN and RST.
const ENDS: u8 = 1 | 4;

/// Whether the flags are those of a packet that ends a connection.
pub fn ends(flags: Option<u8>) -> bool {
    flags.is_some_and(|f| f & ENDS != 0)
}

/// TCP header flags ECE and CWR: a SYN with both offers ECN (RFC 3168), one with AE as well AccECN.
const ECN: u8 = 0x40 | 0x80;

/// Whether the flags are those of a packet that opens a connection and offers ECN.
pub fn offers_ecn(flags: Option<u8>) -> bool {
    opens(flags) && flags.is_some_and(|f| f & ECN == ECN)
}
