//! The flags of TCP's header that tell what a packet is for.

/// TCP header flag SYN.
pub(crate) const SYN: u8 = 2;
/// TCP header flag ACK.
pub(crate) const ACK: u8 = 16;

/// Whether the flags are those of a packet that opens a connection.
pub(crate) fn opens(flags: Option<u8>) -> bool {
    flags.is_some_and(|f| f & (SYN | ACK) == SYN)
}
