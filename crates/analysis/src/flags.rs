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
